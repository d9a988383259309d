package testenv_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// hurried is a test whose time is nearly over.
type hurried struct {
	testing.TB
	failure string
}

// Deadline leaves a moment beside the time that servers need to end.
func (*hurried) Deadline() (time.Time, bool) {
	return time.Now().Add(20*time.Second + 50*time.Millisecond), true
}

func (h *hurried) Fatalf(format string, args ...any) {
	h.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure is how something fails that waits in vain.
func failure(t *testing.T, waits func(testing.TB)) string {
	t.Helper()
	h, ended := &hurried{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		waits(h)
	}()
	<-ended
	return h.failure
}

// What never comes about fails while the test can still end its servers.
func TestWaitingInVainFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		waits func(testing.TB)
		want  string
	}{
		{"a condition", func(t testing.TB) {
			testenv.Eventually(t, "pigs fly", func() bool { return false })
		}, "never: pigs fly"},
		{"a command", func(t testing.TB) {
			testenv.StartShell(t, t.TempDir(), nil).Do("echo begun; sleep 3600 & wait")
		}, "deadline exceeded: begun"},
		{"a condition that holds", func(t testing.TB) {
			left := 3
			testenv.Eventually(t, "it is time", func() bool { left--; return left == 0 })
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := failure(t, tt.waits); !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("failed with %q", got)
			}
		})
	}
}
