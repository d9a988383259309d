package nearcache_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/rankings/nearcache"
)

// Windows from memory equal those of Redis, ties and positions that are no entries included,
// while entries are raised, lowered and frozen, and for the process's own writes at once.
func TestWindowsEqualRedis(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			t.Parallel()
			const users = 3000
			env, bucket := testenv.Real(t), streamed(shards)
			random := rand.New(rand.NewPCG(uint64(shards), 1))
			writer, r := newReplica(t, env, env.Redis, bucket), newReplica(t, env, env.Redis, bucket)
			anybody := func() models.Entry {
				return models.Entry{User: models.RowID(1 + random.IntN(users)), Composite: models.Composite(1 + random.IntN(300))}
			}
			raise := func(n int) {
				raises := make([]models.Raise, n)
				for i := range raises {
					raises[i] = models.Raise{Bucket: bucket, Entry: anybody()}
				}
				if errs := writer.store.Raise(t.Context(), raises); errs != nil {
					t.Fatal(errs)
				}
			}
			equal := func(what string) {
				t.Helper()
				for range 20 {
					at, back, forward := anybody(), random.IntN(30), random.IntN(30)
					if random.IntN(5) == 0 {
						at = board.Top
					}
					want := testenv.Must(r.store.Window(t.Context(), bucket, at, back, forward))
					testenv.Eventually(t, fmt.Sprint(what, ": the window around ", at), func() bool {
						got, asOf, ok := r.cache.Window(bucket, at, back, forward)
						return ok && r.cache.Fresh(asOf) && reflect.DeepEqual(normal(got), normal(want))
					})
				}
			}
			raise(2 * users)
			equal("raised")
			for range 5 {
				raise(200)
				equal("raised again")
			}
			lower(t, writer.store, bucket, 700)
			equal("lowered")
			if n := r.cache.Stats().StartedOver.Load(); n != 0 {
				t.Errorf("%d parts started over", n)
			}
			copies := r.cache.Stats().Copies.Load()
			raise(200)
			equal("raised after that")
			if again := r.cache.Stats().Copies.Load(); again != copies || copies != int64(shards) {
				t.Errorf("lowered entries made %d, %d copies of %d shards", copies, again, shards)
			}
			mine := models.Entry{User: users + 1, Composite: 1000}
			if !r.raise(t.Context(), mine.User, mine.Composite) {
				t.Fatal("Redis did not respond")
			}
			if got, _, ok := r.cache.Window(bucket, board.Top, 0, 1); ok && got.Behind[0] != mine {
				t.Errorf("its own write is not first: %v", got)
			}
			if err := writer.store.Freeze(t.Context(), bucket, 1); err != nil {
				t.Fatal(err)
			}
			raise(100)
			equal("frozen")
		})
	}
}

// normal returns a window in which no entries are always nil.
func normal(w board.Window) board.Window {
	if len(w.Ahead) == 0 {
		w.Ahead = nil
	}
	if len(w.Behind) == 0 {
		w.Behind = nil
	}
	return w
}

// lower lowers or removes the entries that rank first in each shard.
func lower(t *testing.T, store *board.Store, bucket *models.Bucket, n int) {
	t.Helper()
	for _, part := range testenv.Must(store.Parts(t.Context(), bucket)) {
		var lowerings []models.Lowering
		for i, e := range testenv.Must(store.ReadPart(t.Context(), part, board.Top, n)) {
			lowerings = append(lowerings, models.Lowering{Stored: e, Composite: models.Composite(i % 2)})
		}
		if lowered, err := store.Lower(t.Context(), part, lowerings); err != nil || lowered != int64(n) {
			t.Fatalf("%d lowered, %v", lowered, err)
		}
	}
}

// orderedCache returns a cache of buckets with memory for order lists, a source of raises, and
// what a poll of Run does.
func orderedCache(t *testing.T, memory int64, buckets ...*models.Bucket) (c *nearcache.Cache, store *board.Store, clock *testenv.Clock) {
	t.Helper()
	env := testenv.Real(t)
	clock, store = testenv.NewClock(testenv.Noon), board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	c = nearcache.New(nearcache.Options{
		Source: store, Changes: store.Changes(), Buckets: func(time.Time) []*models.Bucket { return buckets },
		MaxStaleness: bound, Memory: 1 << 30, OrderMemory: memory, Clock: env.Clock.Now, Elapsed: clock.Now, Log: env.Log,
	})
	store.NotifyWritten(c.Written)
	return c, store, clock
}

// rounds lets the cache follow and build until nothing is left to do.
func rounds(t *testing.T, c *nearcache.Cache) {
	t.Helper()
	for range 3 {
		if err := c.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The order of a board is made when it is asked for, that of the next bucket, too, and dropped an
// hour after the last question.
func TestOrdersComeAndGo(t *testing.T) {
	t.Parallel()
	today, tomorrow, other := streamed(2), streamed(2), streamed(1)
	tomorrow.Name, other.Board = "20261121", "other"
	c, store, clock := orderedCache(t, 1<<20, today, tomorrow, other)
	rounds(t, c)
	if _, _, ok := c.Window(today, board.Top, 0, 1); ok || c.Stats().Orders.Load() != 0 {
		t.Error("an order was made before anybody has asked for it")
	}
	rounds(t, c)
	for _, b := range []*models.Bucket{today, tomorrow} {
		raise := models.Raise{Bucket: b, Entry: models.Entry{User: 7, Composite: 5}}
		if errs := store.Raise(t.Context(), []models.Raise{raise}); errs != nil {
			t.Fatal(errs)
		}
		if w, _, ok := c.Window(b, board.Top, 0, 1); !ok || w.Total != 1 || w.Behind[0] != raise.Entry {
			t.Errorf("%s: %v, %v", b.Name, w, ok)
		}
	}
	if n := c.Stats().Orders.Load(); n != 4 {
		t.Errorf("%d orders of shards were made, want 4", n)
	}
	clock.Advance(59 * time.Minute)
	if rounds(t, c); c.Stats().OrderBytes.Load() == 0 {
		t.Error("the orders were dropped within the hour")
	}
	clock.Advance(2 * time.Minute)
	if rounds(t, c); c.Stats().OrderBytes.Load() != 0 {
		t.Error("the orders were not dropped after an hour")
	}
	if _, _, ok := c.Window(today, board.Top, 0, 1); ok {
		t.Error("a dropped order is used")
	}
	rounds(t, c)
	if w, _, ok := c.Window(today, board.Top, 0, 1); !ok || w.Total != 1 {
		t.Errorf("made again: %v, %v", w, ok)
	}
}

// An order without room is not kept, whether it does not fit at first or has grown too large, and
// tables stay.
func TestAnOrderWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		memory int64
		fits   bool
	}{{"no memory", 0, false}, {"too little", 50_000, false}, {"enough", 500_000, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bucket := streamed(2)
			c, store, _ := orderedCache(t, tt.memory, bucket)
			ask := func(users int) (ok bool) {
				rounds(t, c)
				c.Window(bucket, board.Top, 0, 1)
				rounds(t, c)
				_, _, ok = c.Window(bucket, board.Top, 0, 1)
				composites := make([]models.Composite, 1)
				if _, held := c.Composites(bucket, []models.RowID{models.RowID(users)}, composites); !held || composites[0] != 5 {
					t.Errorf("%d users: the table has %v, %v", users, composites, held)
				}
				if used := c.Stats().OrderBytes.Load(); used > tt.memory || !ok && used > 0 {
					t.Errorf("%d users: orders take %d bytes of %d", users, used, tt.memory)
				}
				return ok
			}
			raise := func(from, to int) {
				var raises []models.Raise
				for user := from; user <= to; user++ {
					raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(user), Composite: 5}})
				}
				if _, err := store.RaiseAll(t.Context(), raises); err != nil {
					t.Fatal(err)
				}
			}
			raise(1, 1000)
			if got, want := ask(1000), tt.memory > 0; got != want {
				t.Errorf("a thousand users: %v, want %v", got, want)
			}
			raise(1001, 10_000)
			if got := ask(10_000); got != tt.fits {
				t.Errorf("ten thousand users: %v, want %v", got, tt.fits)
			}
			if without := c.Stats().OrdersWithoutRoom.Load(); without == 1 != (tt.memory > 0 && !tt.fits) {
				t.Errorf("%d buckets are without room", without)
			}
		})
	}
}

// While an order is made, raises go on, and none is missing in it.
func TestRaisesWhileAnOrderIsMade(t *testing.T) {
	t.Parallel()
	const users = 20_000
	bucket := streamed(1)
	c, store, _ := orderedCache(t, 1<<30, bucket)
	var raises []models.Raise
	for user := range users {
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(user + 1), Composite: 5}})
	}
	if _, err := store.RaiseAll(t.Context(), raises); err != nil {
		t.Fatal(err)
	}
	rounds(t, c)
	c.Window(bucket, board.Top, 0, 1)
	newest := make(map[models.RowID]models.Composite)
	var writing sync.WaitGroup
	begun := make(chan struct{})
	writing.Go(func() {
		random := rand.New(rand.NewPCG(1, 1))
		for i := range 3000 {
			e := models.Entry{User: models.RowID(1 + random.IntN(users+500)), Composite: models.Composite(6 + i)}
			if errs := store.Raise(t.Context(), []models.Raise{{Bucket: bucket, Entry: e}}); errs != nil {
				t.Error(errs)
			}
			newest[e.User] = e.Composite
			if i == 100 {
				close(begun)
			}
		}
	})
	testenv.Receive(t, "writing begins", begun)
	c.HoldOrders(t.Context())
	testenv.Wait(t, "the writer ends", &writing)
	rounds(t, c)
	w, _, ok := c.Window(bucket, board.Top, 0, users+1000)
	if !ok || w.Total != int64(len(w.Behind)) {
		t.Fatalf("%d of %d entries, %v", len(w.Behind), w.Total, ok)
	}
	for _, e := range w.Behind {
		if want := max(newest[e.User], 5); e.Composite != want {
			t.Fatalf("user %d has %d, want %d", e.User, e.Composite, want)
		}
		delete(newest, e.User)
	}
	if len(newest) != 0 {
		t.Errorf("%d users are missing", len(newest))
	}
}
