package repeats_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/repeats"
	"stepboard/internal/testenv"
)

// newLog returns a log, a function that returns its lines since the last call, without time
// and level, and a function that closes it. The times in lines are since now.
func newLog() (log *slog.Logger, lines func() []string, stop func()) {
	var text testenv.Buffer
	shown := 0
	start := time.Now()
	h := repeats.NewHandler(slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.TimeKey || a.Key == slog.LevelKey:
				return slog.Attr{}
			case a.Value.Kind() == slog.KindTime:
				return slog.Duration(a.Key, a.Value.Time().Sub(start))
			}
			return a
		},
	}))
	lines = func() []string {
		synctest.Wait()
		more := text.String()[shown:]
		if more == "" {
			return nil
		}
		shown += len(more)
		return strings.Split(strings.TrimSpace(more), "\n")
	}
	return slog.New(h), lines, h.Close
}

func want(t *testing.T, lines func() []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAWarningThatIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog() // every wait is on the clock of the bubble
		defer stop()
		log.Warn("redis is full", "users", 0)
		<-time.After(time.Second / 2)
		every := func(n int) {
			for i := range n {
				log.Warn("redis is full", "users", i+1)
				<-time.After(time.Second)
			}
		}
		every(600)
		want(t, lines, `msg="redis is full" users=0`, `msg="redis is full" users=600 repeated=600 began=0s`)
		every(600)
		want(t, lines, `msg="redis is full" users=600 repeated=1200 began=0s`)
		<-time.After(2 * time.Minute)
		want(t, lines, `msg="redis is full" users=600 repeated=1200 began=0s ended=19m59.5s`)
		log.Warn("redis is full", "users", 7)
		want(t, lines, `msg="redis is full" users=7`)
	})
}

// A warning that is not repeated is one line, however long the process runs.
func TestAWarningThatIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		for range 2 {
			log.Warn("redis is full")
			want(t, lines, `msg="redis is full"`)
			<-time.After(time.Hour)
			want(t, lines)
		}
		stop()
		want(t, lines)
	})
}

func TestWhatIsCountedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		defer stop()
		for range 2 {
			log.Warn("a", "board", "steps", "error", errors.New("one"))
			log.Warn("a", "board", "floors", "id", 2)
			log.Warn("b", "board", "steps")
			log.Error("a", "board", "steps")
			log.Info("a", "board", "steps")
		}
		want(t, lines, "msg=a board=steps error=one", "msg=a board=floors id=2", "msg=b board=steps", "msg=a board=steps",
			"msg=a board=steps", "msg=a board=steps")
	})
}

// What is not written yet is written at the end, and after it nothing is held back.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		for range 3 {
			log.Warn("a")
		}
		stop()
		want(t, lines, "msg=a", "msg=a repeated=2 began=0s")
		log.Warn("a")
		log.Warn("a")
		want(t, lines, "msg=a", "msg=a")
		<-time.After(time.Hour)
		want(t, lines)
	})
}

func TestLoggersOfOneHandlerCountTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		defer stop()
		log.Warn("a")
		log.With("replica", 1).Warn("a")
		log.WithGroup("g").Warn("a", "b", 1)
		want(t, lines, "msg=a")
		each := repeats.Unbounded(log)
		each.Warn("a")
		each.Warn("a")
		want(t, lines, "msg=a", "msg=a")
	})
}

// However many different warnings there are, a bounded number of them is kept.
func TestVeryManyDifferentWarnings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		defer stop()
		for i := range 5000 {
			log.Warn("a", "panic", fmt.Sprint(i))
		}
		if n := len(lines()); n != 1001 {
			t.Errorf("%d lines", n)
		}
		<-time.After(time.Hour)
		want(t, lines, "msg=a panic=4999 repeated=3999 began=0s ended=0s")
	})
}

func TestConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines, stop := newLog()
		defer stop()
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				for range 1000 {
					log.Warn("a")
					<-time.After(time.Second)
				}
			})
		}
		running.Wait()
		<-time.After(2 * time.Minute)
		all := lines()
		if last := all[len(all)-1]; len(all) != 3 || !strings.HasPrefix(last, "msg=a repeated=7999 began=0s ended=") {
			t.Errorf("%d lines, the last: %s", len(all), last)
		}
	})
}
