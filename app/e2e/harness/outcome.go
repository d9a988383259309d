package harness

import (
	"strings"
	"testing"
)

// Outcome is what one run of the command line did.
type Outcome struct {
	Status         int
	Stdout, Stderr string
}

// Succeeds expects a run without a complaint and answers what it printed.
func (o Outcome) Succeeds(t testing.TB) string {
	t.Helper()
	if o.Status != 0 || o.Stderr != "" {
		t.Fatalf("status %d: %s", o.Status, o.Stderr)
	}
	return o.Stdout
}

// Fails expects a status, nothing on stdout, and one line on stderr that has
// all of these in it.
func (o Outcome) Fails(t testing.TB, status int, words ...string) {
	t.Helper()
	if o.Status != status || o.Stdout != "" {
		t.Errorf("status %d, want %d, after printing %q", o.Status, status, o.Stdout)
	}
	line, more, ended := strings.Cut(o.Stderr, "\n")
	if !strings.HasPrefix(line, "stepboard: ") || !ended || more != "" {
		t.Errorf("not one line of ours: %q", o.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not say %q", line, word)
		}
	}
}
