package testenv_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// hurried is a test whose time is nearly over.
type hurried struct {
	testing.TB
	left    time.Duration
	failure string
}

// Deadline adds the time that is left to the time that servers need to end.
func (h *hurried) Deadline() (time.Time, bool) {
	return time.Now().Add(20*time.Second + h.left), true
}

func (h *hurried) Fatalf(format string, args ...any) {
	h.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the message of a wait that fails in a test with little time
// left, and "" if it does not fail.
func failure(t *testing.T, left time.Duration, waits func(testing.TB)) string {
	t.Helper()
	h, ended := &hurried{TB: t, left: left}, make(chan struct{})
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
	const moment = 50 * time.Millisecond
	tests := []struct {
		name  string
		left  time.Duration
		waits func(testing.TB)
		want  string
	}{
		{"a condition", moment, func(t testing.TB) {
			testenv.Eventually(t, "pigs fly", func() bool { return false })
		}, "never: pigs fly"},
		{"a command", moment, func(t testing.TB) {
			testenv.StartShell(t, t.TempDir(), nil).Do("echo begun; sleep 3600 & wait")
		}, "deadline exceeded: begun"},
		{"a channel", moment, func(t testing.TB) {
			testenv.Receive(t, "a pig", make(chan int))
		}, "never: a pig"},
		{"goroutines", moment, func(t testing.TB) {
			var running sync.WaitGroup
			stop := make(chan struct{})
			defer close(stop)
			running.Go(func() { <-stop })
			testenv.Wait(t, "the pigs land", &running)
		}, "never: the pigs land"},
		{"a condition that holds", time.Minute, func(t testing.TB) {
			left := 3
			testenv.Eventually(t, "it is time", func() bool { left--; return left == 0 })
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := failure(t, tt.left, tt.waits)
			// A busy machine may need longer to begin.
			for left := tt.left; !strings.Contains(got, tt.want) && left < time.Minute; left *= 8 {
				got = failure(t, left, tt.waits)
			}
			if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
				t.Errorf("failed with %q", got)
			}
		})
	}
}
