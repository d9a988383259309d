package harness

import (
	"regexp"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// Outcome is the exit status and output of one run of the program.
type Outcome struct {
	Status         int
	Stdout, Stderr string
}

// Succeeds expects status 0 and no error output, and returns the output. What jobs log beside the
// command is no error output.
func (o Outcome) Succeeds(t testing.TB) string {
	t.Helper()
	if o.Status != 0 || o.unlogged() != "" {
		t.Fatalf("status %d: %s", o.Status, o.Stderr)
	}
	return o.Stdout
}

// Fails expects the status, no output, and one line of error output that
// contains all the words. What jobs log beside the command does not count.
func (o Outcome) Fails(t testing.TB, status int, words ...string) {
	t.Helper()
	if o.Status != status || o.Stdout != "" {
		t.Errorf("status %d, want %d, after printing %q", o.Status, status, o.Stdout)
	}
	line, more, ended := strings.Cut(o.unlogged(), "\n")
	if !strings.HasPrefix(line, "stepboard: ") || !ended || more != "" {
		t.Errorf("not one line that begins with stepboard: %q", o.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not contain %q", line, word)
		}
	}
}

// logged matches lines of the log that are no errors. Jobs write them at any time: that a server was slow, or
// that an erasure is finished.
var logged = regexp.MustCompile(`(?m)^\{.*"level":"(INFO|WARN)".*\n`)

// unlogged returns the error output without lines of the log that are no errors.
func (o Outcome) unlogged() string { return logged.ReplaceAllString(o.Stderr, "") }

// Archive runs an archive command, and again while another process archives one of its days. The job
// does so when its process starts, and the lease of a killed process may be held until the server
// notices its end.
func Archive(t testing.TB, args ...string) (o Outcome) {
	t.Helper()
	testenv.Eventually(t, "no other process archives the same day", func() bool {
		o.Stdout, o.Stderr, o.Status = testenv.Run(t, args...)
		return o.Status != 1 || !strings.Contains(o.Stderr, "is being archived already")
	})
	return o
}
