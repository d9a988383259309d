package board_test

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// trimming has a stream with many changes, and a trimmer whose clock the test moves.
type trimming struct {
	env     *testenv.Env
	store   *board.Store
	trimmer *board.ChangeTrimmer
	now     time.Time
	written int
}

func newTrimming(env *testenv.Env) *trimming {
	s := &trimming{env: env, store: board.NewStore(env.Redis, env.Keys, env.Clock.Now), now: time.Now()}
	s.trimmer = board.NewChangeTrimmer(s.store, func() time.Time { return s.now })
	return s
}

// write writes 300 changes: more than Redis keeps in one node, which it removes as a
// whole.
func (s *trimming) write(t testing.TB) {
	t.Helper()
	for range 300 {
		s.written++
		entry := models.Entry{User: 1, Composite: models.Composite(s.written)}
		raise(t.Context(), t, s.store, models.Raise{Bucket: streamBucket(1), Entry: entry})
	}
}

// trim trims after a while and returns how many entries were removed.
func (s *trimming) trim(t testing.TB, after time.Duration) int64 {
	t.Helper()
	s.now = s.now.Add(after)
	return testenv.Must(s.trimmer.Trim(t.Context(), []board.ChangeStream{{Board: "steps"}}))
}

func (s *trimming) key() string { return s.env.Keys.Changes("steps", 0) }

// Entries are removed a minute after the trimmer has read a newer one, so that a
// follower may be a minute behind.
func TestChangesAreKeptForAMinute(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newTrimming(env)
		old := follow(t, s.store, "steps", 1)
		s.write(t)
		current := follow(t, s.store, "steps", 1)
		for _, after := range []time.Duration{0, 59 * time.Second} {
			if n := s.trim(t, after); n != 0 {
				t.Errorf("%d entries removed", n)
			}
			s.write(t)
		}
		if n := s.trim(t, time.Second); n < 200 || n > 300 {
			t.Errorf("%d entries removed of the 301 that were read a minute ago", n)
		}
		if !current.read(t, 100) || current.copies["20261120"][1] != models.Composite(s.written) {
			t.Error("a follower that was a minute behind misses changes")
		}
		if old.read(t, 100) {
			t.Error("a follower that was further behind misses nothing")
		}
		for range 3 { // nothing is written any more
			s.trim(t, time.Minute)
		}
		if !current.read(t, 100) {
			t.Error("the newest entry was removed")
		}
	})
}

// A trimmer that has read a stream that is lost by now removes nothing of its successor,
// even if that has smaller ids.
func TestTrimmingAfterALoss(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newTrimming(env)
		begin := func(id string) {
			args := []any{"xadd", s.key(), id, "c", "\x02\x0820261120"}
			if err := env.Redis.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		begin("99999999999999-0") // in the year 5138
		s.trim(t, 0)
		if err := env.Redis.Del(t.Context(), s.key()).Err(); err != nil {
			t.Fatal(err)
		}
		begin("1-0")
		f := follow(t, s.store, "steps", 1)
		s.write(t)
		if n := s.trim(t, time.Minute); n != 0 {
			t.Errorf("%d entries removed", n)
		}
		if !f.read(t, 1000) {
			t.Error("changes are missing")
		}
	})
}

// A stream ends ten minutes after it was last trimmed, and trimming does not begin one.
func TestLifetimeOfAChangeStream(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newTrimming(env)
		s.trim(t, 0)
		if n := testenv.Must(env.Redis.Exists(t.Context(), s.key()).Result()); n != 0 {
			t.Error("trimming has begun a stream")
		}
		follow(t, s.store, "steps", 1)
		lifetime := func() time.Duration { return testenv.Must(env.Redis.PTTL(t.Context(), s.key()).Result()) }
		if d := lifetime(); d <= 0 || d > 10*time.Minute {
			t.Errorf("a new stream lives for %v", d)
		}
		if err := env.Redis.PExpire(t.Context(), s.key(), time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		s.write(t)
		if d := lifetime(); d <= 10*time.Minute {
			t.Errorf("a change has set the lifetime to %v", d)
		}
		s.trim(t, 0)
		if d := lifetime(); d <= 0 || d > 10*time.Minute {
			t.Errorf("a trimmed stream lives for %v", d)
		}
	})
}
