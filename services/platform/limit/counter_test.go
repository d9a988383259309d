package limit_test

import (
	"strconv"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/services/platform/limit"
)

// eachCounter runs a test with a counter in Redis, and with one in memory.
func eachCounter(t *testing.T, test func(*testing.T, limit.Counter)) {
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		env := testenv.Real(t)
		test(t, limit.NewRedisCounter(env.Redis, env.Keys))
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, limit.NewLocalCounter(time.Now))
	})
}

// Calls pass up to the limit, several at once or none of them; those of other callers and of
// other kinds are counted apart.
func TestCounters(t *testing.T) {
	t.Parallel()
	eachCounter(t, func(t *testing.T, c limit.Counter) {
		count := func(kind limit.Kind, caller string, n int, want bool) {
			t.Helper()
			wait, err := c.Count(t.Context(), kind, caller, 2, n)
			if err != nil || (wait == 0) != want || wait > time.Minute {
				t.Errorf("%s %s: wait %v, %v, want it to pass: %v", kind, caller, wait, err, want)
			}
		}
		count(limit.Joins, "1", 1, true)
		count(limit.Joins, "1", 2, false)
		count(limit.Joins, "1", 1, true)
		count(limit.Joins, "1", 1, false)
		count(limit.Joins, "2", 2, true)
		for _, kind := range []limit.Kind{limit.CallsOf, limit.CallsFrom, limit.Failures, limit.Logins} {
			count(kind, "1", 2, true)
			count(kind, "1", 1, false)
		}
	})
}

// Calls pass again at the rate of the limit, and at most its number at once.
func TestTheRateOfALocalCounter(t *testing.T) {
	t.Parallel()
	clock := testenv.NewClock(testenv.Noon)
	c := limit.NewLocalCounter(clock.Now)
	passed := func() (n int) {
		t.Helper()
		for {
			wait, err := c.Count(t.Context(), limit.CallsOf, "1", 60, 1)
			if err != nil {
				t.Fatal(err)
			}
			if wait > 0 {
				if wait > time.Second {
					t.Errorf("wait %v", wait)
				}
				return n
			}
			n++
		}
	}
	for _, step := range []struct {
		pause time.Duration
		want  int
	}{{0, 60}, {time.Second, 1}, {500 * time.Millisecond, 0}, {500 * time.Millisecond, 1}, {30 * time.Second, 30}, {time.Hour, 60}} {
		clock.Advance(step.pause)
		if n := passed(); n != step.want {
			t.Errorf("after %v %d calls pass, want %d", step.pause, n, step.want)
		}
	}
}

// A local counter has room for so many callers of a kind, who take none from another kind. It
// forgets them a minute or two later.
func TestTheRoomOfALocalCounter(t *testing.T) {
	t.Parallel()
	clock := testenv.NewClock(testenv.Noon)
	c := limit.NewLocalCounter(clock.Now)
	fill := func(kind limit.Kind) (counted int) {
		for caller := 0; ; caller++ {
			if _, err := c.Count(t.Context(), kind, strconv.Itoa(caller), 1, 1); err != nil {
				return caller
			}
		}
	}
	if n := fill(limit.Failures); n != 200_000 {
		t.Errorf("room for %d callers", n)
	}
	if wait, err := c.Count(t.Context(), limit.Joins, "1", 1, 1); err != nil || wait != 0 {
		t.Errorf("another kind: wait %v, %v", wait, err)
	}
	clock.Advance(59 * time.Second)
	if wait, err := c.Count(t.Context(), limit.Joins, "1", 1, 1); err != nil || wait != time.Second {
		t.Errorf("wait %v, %v", wait, err)
	}
	clock.Advance(time.Second)
	if n := fill(limit.Failures); n != 200_000 {
		t.Errorf("room for %d callers a minute later", n)
	}
	if n := limit.Held(c); n > 2*200_000+2 {
		t.Errorf("%d callers are held", n)
	}
	for range 2 {
		clock.Advance(time.Minute)
		for _, kind := range []limit.Kind{limit.Failures, limit.Joins} {
			if _, err := c.Count(t.Context(), kind, "2", 1, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := limit.Held(c); n > 4 {
		t.Errorf("%d callers are held in the end", n)
	}
}
