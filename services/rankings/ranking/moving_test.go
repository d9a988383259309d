package ranking_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/rankings/ranking"
)

// hookedStore is a hot store that calls at after each step of a run.
type hookedStore struct {
	*board.Store
	at func(step string)
}

func (s *hookedStore) Freeze(ctx context.Context, b *models.Bucket, run int) error {
	err := s.Store.Freeze(ctx, b, run)
	s.at("frozen")
	return err
}

func (s *hookedStore) FrozenParts(ctx context.Context, b *models.Bucket, upto int) ([]models.FrozenPart, error) {
	parts, err := s.Store.FrozenParts(ctx, b, upto)
	s.at("listed")
	return parts, err
}

// ReadFrozen is called by one goroutine for each part.
func (s *hookedStore) ReadFrozen(ctx context.Context, b *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	s.at("before a chunk")
	entries, err := s.Store.ReadFrozen(ctx, b, p, from, n)
	s.at("after a chunk")
	return entries, err
}

func (s *hookedStore) DropFrozen(ctx context.Context, b *models.Bucket, parts []models.FrozenPart) error {
	s.at("stored")
	err := s.Store.DropFrozen(ctx, b, parts)
	s.at("dropped")
	return err
}

// hookedLocal is the memory of a process, which calls at before and after it forgets a bucket.
type hookedLocal struct {
	*board.Local
	at func(step string)
}

func (l *hookedLocal) Drop(b *models.Bucket) {
	l.at("stored")
	l.Local.Drop(b)
	l.at("dropped")
}

// hooked returns entries that call at after each step of a run.
func hooked(entries board.Entries, at func(step string)) board.Entries {
	if local, ok := entries.(*board.Local); ok {
		return &hookedLocal{local, at}
	}
	return &hookedStore{entries.(*board.Store), at}
}

// sourceAt returns the source of responses after a step.
func sourceAt(step string) models.Source {
	if step == "stored" || step == "dropped" {
		return models.SourceArchive
	}
	return models.SourceHot
}

// Between any two steps of an archival every response is the same as before it,
// and comes from one store alone. Cursors of a list stay valid throughout.
func TestResponsesStayTheSameDuringAnArchival(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, f *fixture) {
		day := f.day()
		buckets := f.filledBuckets(day-1, day, day+1)
		f.makeDue(buckets[0])
		f.mustArchive(f.archive, buckets[0])
		f.makeDue(buckets[1])
		c := f.caller(day)
		before, err := c.callAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, "before the archival", before, before, models.SourceHot)

		var pages []response // of the top list, one after each step
		for _, res := range before {
			if res.call == "top for 0" {
				pages = append(pages, res)
			}
		}
		var mu sync.Mutex
		page := 0
		steps := make(map[string]int)
		f.mustArchive(f.otherArchive(hooked(f.boards, func(step string) {
			got, err := c.callAll(t.Context())
			if err != nil {
				t.Errorf("%s: %v", step, err)
				return
			}
			checkSame(t, step, before, got, sourceAt(step))

			mu.Lock()
			defer mu.Unlock()
			steps[step]++
			if page++; page == len(pages) {
				page = 1
			}
			next, err := c.top(t.Context(), 0, *pages[page-1].next)
			if err != nil {
				t.Errorf("%s: %v", step, err)
			}
			checkSame(t, step+", the next page", pages[page:page+1], []response{next}, sourceAt(step))
		})), buckets[1])
		chunks := buckets[1].Shards // one of each
		if chunks == 1 && f.userCount() > 1000 {
			chunks = 3
		}
		want := map[string]int{"frozen": 2, "listed": 2, "before a chunk": chunks, "after a chunk": chunks, "stored": 1, "dropped": 1}
		if f.env.Redis == nil {
			want = map[string]int{"stored": 2, "dropped": 2} // once by the run, once by the one that finds nothing left
		}
		if diff := cmp.Diff(want, steps); diff != "" {
			t.Errorf("steps -want +got:\n%s", diff)
		}
	})
}

// Readers that call without a pause see the same at every step of an archival.
func TestConcurrentReadersDuringAnArchival(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, f *fixture) {
		day := f.day()
		buckets := f.filledBuckets(day-1, day, day+1)
		f.makeDue(buckets[2])
		var before [3][]response
		for i := range buckets {
			var err error
			// The history of a day shows the days beside it, which are archived too.
			if before[i], err = withoutHistory(f.caller(day - 1 + models.Date(i)).callAll(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var calls atomic.Int64
		var reading sync.WaitGroup
		for i := range buckets {
			c := f.caller(day - 1 + models.Date(i))
			c.after = func() { calls.Add(1) }
			reading.Go(func() {
				for {
					got, err := withoutHistory(c.callAll(t.Context()))
					if err != nil {
						t.Error(err)
						return
					}
					checkSame(t, "during the archival", before[i], got, "")
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		// The archival waits for some calls at each step, so that readers meet it
		// at every point of theirs.
		other := f.otherArchive(hooked(f.boards, func(string) {
			upto := calls.Load() + 6
			testenv.Eventually(t, "readers go on", func() bool { return calls.Load() >= upto || t.Failed() })
		}))
		for _, b := range buckets {
			f.mustArchive(other, b)
		}
		close(stop)
		testenv.Wait(t, "the reader ends", &reading)
		for i := range buckets {
			got, err := withoutHistory(f.caller(day - 1 + models.Date(i)).callAll(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			checkSame(t, "after the archival", before[i], got, models.SourceArchive)
		}
	})
}

// delayHook is a go-redis hook that calls before ahead of the n-th round trip to
// Redis, counted from 1. left is n at first.
type delayHook struct {
	left   int
	before func()
}

func (h *delayHook) trip(first redis.Cmder) {
	if name := first.Name(); name == "hello" || name == "client" {
		return // of a new connection
	}
	if h.left--; h.left == 0 {
		h.before()
	}
}

func (h *delayHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *delayHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.trip(cmd)
		return next(ctx, cmd)
	}
}

func (h *delayHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.trip(cmds[0])
		return next(ctx, cmds)
	}
}

// delayedLocal is the memory of a process that calls before ahead of the n-th read, counted from 1.
// left is n at first.
type delayedLocal struct {
	*board.Local
	left   int
	before func()
}

func (l *delayedLocal) read() {
	if l.left--; l.left == 0 {
		l.before()
	}
}

func (l *delayedLocal) Composites(ctx context.Context, b *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	l.read()
	return l.Local.Composites(ctx, b, users)
}

func (l *delayedLocal) CompositesOf(ctx context.Context, b []*models.Bucket, users []models.RowID) ([][]models.Composite, error) {
	l.read()
	return l.Local.CompositesOf(ctx, b, users)
}

func (l *delayedLocal) Positions(ctx context.Context, b []*models.Bucket, user models.RowID) ([]board.Position, error) {
	l.read()
	return l.Local.Positions(ctx, b, user)
}

func (l *delayedLocal) CompositesAndPosition(
	ctx context.Context, b *models.Bucket, users []models.RowID, user models.RowID,
) ([]models.Composite, board.Position, error) {
	l.read()
	return l.Local.CompositesAndPosition(ctx, b, users, user)
}

func (l *delayedLocal) Window(ctx context.Context, b *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	l.read()
	return l.Local.Window(ctx, b, at, back, forward)
}

// delayed returns the entries of a reader that is delayed ahead of its n-th round trip or read.
func (f *fixture) delayed(n int, before func()) ranking.Entries {
	if local, ok := f.boards.(*board.Local); ok {
		return &delayedLocal{local, n, before}
	}
	options := *f.env.Redis.(*redis.Client).Options()
	rdb := redis.NewClient(&options)
	f.t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			f.t.Error(err)
		}
	})
	rdb.AddHook(&delayHook{left: n, before: before})
	return board.NewStore(rdb, f.env.Keys, f.env.Clock.Now, nil)
}

// A reader checks whether the day is archived, is then delayed while the whole day
// is archived, and then reads Redis, which has lost some or all entries. The
// response comes from the archive all the same.
func TestAReaderDelayedDuringTheArchival(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, caller) (response, error){
		"friends": func(ctx context.Context, c caller) (response, error) { return c.friends(ctx, scorer, "") },
		"group":   func(ctx context.Context, c caller) (response, error) { return c.group(ctx, scorer, "") },
		"span":    func(ctx context.Context, c caller) (response, error) { return c.span(ctx, scorer, c.day, c.day, "") },
		"top":     func(ctx context.Context, c caller) (response, error) { return c.top(ctx, scorer, "") },
		"around":  func(ctx context.Context, c caller) (response, error) { return c.around(ctx, scorer) },
		"me":      func(ctx context.Context, c caller) (response, error) { return c.me(ctx, scorer) },
		"history": func(ctx context.Context, c caller) (response, error) { return c.history(ctx, scorer) },
	}
	eachStores(t, func(t *testing.T, f *fixture) {
		day := f.day()
		// The number of round trips of each call, with one shard and with several.
		trips := map[string]int{"friends": 1, "group": 1, "span": 1, "top": 3, "around": 2, "me": 1, "history": 1}
		if f.filledBuckets(day)[0].Shards > 1 && f.env.Redis != nil {
			trips["me"], trips["history"] = 2, 2
		}
		for name, call := range calls {
			for trip := 1; trip <= trips[name]+1; trip++ {
				day += 4
				b := f.filledBuckets(day)[0]
				f.makeDue(b)
				c := f.caller(day)
				before, err := call(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				archived := false
				c.ranking = f.rankingOn(f.delayed(trip, func() {
					archived = true
					f.mustArchive(f.otherArchive(f.boards), b)
				}), f.archive)
				got, err := call(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				source := models.SourceArchive
				if trip > trips[name] {
					source = models.SourceHot // the call makes no such round trip
				}
				if archived != (source == models.SourceArchive) {
					t.Errorf("%s, before trip %d: archived is %v", name, trip, archived)
				}
				checkSame(t, fmt.Sprintf("%s, delayed before trip %d", name, trip), []response{before}, []response{got}, source)
			}
		}
	})
}
