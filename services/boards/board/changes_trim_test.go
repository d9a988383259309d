package board_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// trimming has a stream with many changes, and a follower whose clock the test moves.
type trimming struct {
	env     *testenv.Env
	store   *board.Store
	stream  *changes.Stream[board.ChangeStream, board.Change]
	poll    func(context.Context)
	now     time.Time
	written int
}

// nothing is what a follower keeps that only trims.
type nothing struct{}

func (nothing) Begin(changes.Place) error                         { return nil }
func (nothing) Apply(changes.Page[board.Change], time.Time) error { return nil }
func (nothing) Drop(error)                                        {}

func newTrimming(t *testing.T, env *testenv.Env) *trimming {
	s := &trimming{env: env, store: board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil), now: time.Now()}
	follower := changes.Follower[board.ChangeStream, board.Change]{
		Source: s.store.Changes(), Elapsed: func() time.Time { return s.now }, Count: changes.PageSize,
		Failed: func(_ context.Context, _ board.ChangeStream, err error) { t.Error(err) },
	}
	s.stream = follower.Stream(board.ChangeStream{Board: "steps"}, nothing{})
	s.poll = func(ctx context.Context) {
		var reads sync.WaitGroup
		follower.Poll(ctx, []*changes.Stream[board.ChangeStream, board.Change]{s.stream}, &reads)
		testenv.Wait(t, "the reads end", &reads)
	}
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

func (s *trimming) length(t testing.TB) int64 {
	return testenv.Must(s.env.Redis.XLen(t.Context(), s.key()).Result())
}

// trim follows the stream after a while and returns how many entries were removed.
func (s *trimming) trim(t testing.TB, after time.Duration) int64 {
	t.Helper()
	s.now = s.now.Add(after)
	before := s.length(t)
	s.poll(t.Context())
	return before - s.length(t)
}

func (s *trimming) key() string { return s.env.Keys.Changes("steps", 0) }

// Entries are removed a minute after the follower has read a newer one, so that another
// follower may be a minute behind.
func TestChangesAreKeptForAMinute(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newTrimming(t, env)
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
}

// A follower that has read a stream that is lost by now removes nothing of its successor,
// even if that has smaller ids.
func TestTrimmingAfterALoss(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newTrimming(t, env)
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
}

// Thousands of entries are removed in several round trips, to the last one.
func TestTrimmingALongStream(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	const many = 25_000
	s := newTrimming(t, env)
	s.trim(t, 0)
	pipe := env.Redis.Pipeline()
	for range many {
		pipe.Do(t.Context(), "xadd", s.key(), "*", "c", "\x02\x0820261120")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.trim(t, time.Minute)
	if n := s.trim(t, time.Minute); n != many || s.length(t) != 1 {
		t.Errorf("%d entries removed of %d, and %d are left", n, many, s.length(t))
	}
}

// A stream ends ten minutes after it was last kept, and keeping does not begin one.
func TestLifetimeOfAChangeStream(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newTrimming(t, env)
	entry := changes.Place{ID: "1-0", Content: "c"}
	page := s.store.Changes().Read(t.Context(), []changes.Read[board.ChangeStream]{
		{Stream: s.stream.Key, After: entry, Keep: entry, Count: 1},
	})[0]
	if n := testenv.Must(env.Redis.Exists(t.Context(), s.key()).Result()); n != 0 || page.Err != nil {
		t.Errorf("keeping has begun a stream: %+v", page)
	}
	follow(t, s.store, "steps", 1)
	lifetime := func() time.Duration { return testenv.Must(env.Redis.PTTL(t.Context(), s.key()).Result()) }
	if d := lifetime(); d <= 0 || d > 10*time.Minute {
		t.Errorf("a new stream lives for %v", d)
	}
	s.trim(t, 0)
	if err := env.Redis.PExpire(t.Context(), s.key(), time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	s.write(t)
	if d := lifetime(); d <= 10*time.Minute {
		t.Errorf("a change has set the lifetime to %v", d)
	}
	s.trim(t, time.Minute)
	if d := lifetime(); d <= 0 || d > 10*time.Minute {
		t.Errorf("a trimmed stream lives for %v", d)
	}
}
