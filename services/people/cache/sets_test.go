package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// owner is the number of the owner of a set.
type owner int64

// truth holds the sets of which there are copies. Safe for concurrent use.
type truth struct {
	mu    sync.Mutex
	sets  map[owner][]models.RowID
	loads int
	err   error
}

func newTruth() *truth { return &truth{sets: make(map[owner][]models.RowID)} }

func (tr *truth) load(_ context.Context, owners []owner) (map[owner][]models.RowID, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.loads += len(owners)
	found := make(map[owner][]models.RowID)
	for _, of := range owners {
		found[of] = tr.sets[of]
	}
	return found, tr.err
}

func (tr *truth) commit(of owner, members ...models.RowID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.sets[of] = members
}

func newSets(env *testenv.Env, tr *truth) *Sets[owner] {
	return New(NewStore(env.Redis, env.Keys, 0, nil), keys.Friends, tr.load, env.Log)
}

// inRedis returns the store of sets that have copies in Redis.
func inRedis(s *Sets[owner]) *Store { return s.copies.(*Store) }

// eachForm runs a test with copies in Redis, and with copies in memory.
// onRedis runs a test with sets in Redis.
func onRedis(t *testing.T, test func(*testing.T, *testenv.Env)) {
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, testenv.Real(t))
	})
}

func eachForm(t *testing.T, test func(*testing.T, func(*truth) *Sets[owner])) {
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		test(t, func(tr *truth) *Sets[owner] { return newSets(env, tr) })
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, func(tr *truth) *Sets[owner] {
			return New(newLocal(testenv.NewClock(testenv.Noon)), keys.Friends, tr.load, testenv.Log())
		})
	})
}

// change changes a set as a service does.
func change(t *testing.T, s *Sets[owner], tr *truth, of owner, members ...models.RowID) {
	t.Helper()
	c := s.NewChange()
	if err := c.Mark(t.Context(), []owner{of}); err != nil {
		t.Fatal(err)
	}
	tr.commit(of, members...)
	c.Clear(t.Context())
}

// expect checks the members of a set.
func expect(t *testing.T, s *Sets[owner], of owner, want []models.RowID) {
	t.Helper()
	got, err := s.Members(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("the set of %d has %d members, %v…, want %d", of, len(got), got[:min(3, len(got))], len(want))
	}
}

// A stored set costs one round trip and no call of Load, also if it is empty or has
// as many members as one may have, and is in Redis's compact encoding.
func TestTheSetInRedis(t *testing.T) {
	t.Parallel()
	env := testenv.RealOn(t, testenv.StartRedis(t).Use)
	tr := newTruth()
	s, ctx := newSets(env, tr), t.Context()
	for n, of := range map[int]owner{0: 1, 1: 2, 200: 3, models.MaxFriends: 4} {
		members := make([]models.RowID, n)
		for i := range members {
			members[i] = models.RowID(100_000*int(of) + i)
		}
		change(t, s, tr, of, members...)
		expect(t, s, of, members)
		key := env.Keys.Set(keys.Friends, int64(of))
		if encoding := env.Redis.ObjectEncoding(ctx, key).Val(); encoding != "intset" {
			t.Errorf("%d members are kept as %s", n, encoding)
		}
		// An intset of numbers of four bytes has eight more, besides the key.
		if size := env.Redis.MemoryUsage(ctx, key).Val(); size > int64(4*(n+1)+n/4+200) {
			t.Errorf("%d members take %d bytes", n, size)
		}
		if ttl := env.Redis.PTTL(ctx, key).Val(); ttl <= 50*time.Minute || ttl > time.Hour {
			t.Errorf("%d members are kept for %v", n, ttl)
		}
		counter, loads := &testenv.RoundTrips{}, tr.loads
		env.Redis.AddHook(counter)
		expect(t, s, of, members)
		if counter.Trips() != 1 || tr.loads != loads {
			t.Errorf("%d members cost %d round trips and %d loads", n, counter.Trips(), tr.loads-loads)
		}
	}
	if env.Redis.Exists(ctx, env.Keys.SetLoading(keys.Friends, 1)).Val() != 0 {
		t.Error("a reader's token was left behind")
	}
}

// A set lasts as long as the setting says, and so does the mark of a change of unknown outcome.
func TestLifetime(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		const lifetime = 10 * time.Minute
		s := New(NewStore(env.Redis, env.Keys, lifetime, nil), keys.Friends, newTruth().load, env.Log)
		expect(t, s, 1, nil)
		c := s.NewChange()
		if err := c.Mark(t.Context(), []owner{2}); err != nil {
			t.Fatal(err)
		}
		c.Keep(t.Context())
		for what, key := range map[string]string{"set": env.Keys.Set(keys.Friends, 1), "mark": env.Keys.SetChanging(keys.Friends, 2)} {
			if ttl := env.Redis.PTTL(t.Context(), key).Val(); ttl <= lifetime*8/10 || ttl > lifetime {
				t.Errorf("the %s lasts for %v", what, ttl)
			}
		}
	})
}

// A member is removed from copies of many sets: they lack it, and none is loaded again.
func TestARemovalLeavesTheCopies(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, newSets func(*truth) *Sets[owner]) {
		const gone = models.RowID(7)
		tr := newTruth()
		s, ctx := newSets(tr), t.Context()
		of := []owner{1, 2, 3}
		for _, one := range of {
			change(t, s, tr, one, gone, models.RowID(one)+10)
			expect(t, s, one, []models.RowID{gone, models.RowID(one) + 10})
		}
		loads := tr.loads
		c := s.NewRemoval(gone)
		if err := c.Mark(ctx, of); err != nil {
			t.Fatal(err)
		}
		for _, one := range of {
			tr.commit(one, models.RowID(one)+10)
			expect(t, s, one, []models.RowID{models.RowID(one) + 10})
		}
		c.Clear(ctx)
		for _, one := range of {
			expect(t, s, one, []models.RowID{models.RowID(one) + 10})
		}
		if tr.loads != loads {
			t.Errorf("%d sets were loaded again", tr.loads-loads)
		}
	})
}

// Without Redis sets are read from their truth, and changes are refused, because other
// processes could not learn of them. Without the truth stored sets are still read.
func TestAStoreIsAway(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		tr := newTruth()
		s := newSets(env, tr)
		tr.commit(1, 7)
		expect(t, s, 1, []models.RowID{7})
		away := errors.New("away")
		tr.err = away
		expect(t, s, 1, []models.RowID{7})
		if _, err := s.Members(t.Context(), 2); !errors.Is(err, away) {
			t.Errorf("a set that is not stored: %v", err)
		}
		tr.err = nil
		if err := env.Redis.Close(); err != nil {
			t.Fatal(err)
		}
		expect(t, s, 1, []models.RowID{7})
		if err := s.NewChange().Mark(t.Context(), []owner{1}); err == nil {
			t.Error("a change without Redis was announced")
		}
	})
}

// A change is refused, too, if Redis refuses connections.
func TestRedisRefusesConnections(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	proxy.Cut()
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), DialerRetries: 1}) // the errors of its commands are not completed
	t.Cleanup(func() { rdb.Close() })
	s := New(NewStore(rdb, env.Keys, 0, nil), keys.Friends, newTruth().load, env.Log)
	for name, change := range map[string]*Change[owner]{"change": s.NewChange(), "bulk change": s.NewBulkChange(), "removal": s.NewRemoval(7)} {
		if err := change.Mark(t.Context(), []owner{1}); err == nil {
			t.Errorf("a %s without Redis was announced", name)
		}
	}
}

// Callers who miss the same set at the same time share its reading, and may change what each of
// them gets.
func TestCallersShareAReading(t *testing.T) {
	t.Parallel()
	tr := newTruth()
	tr.commit(1, 7, 8)
	tr.commit(2, 9)
	s := New(newLocal(testenv.NewClock(testenv.Noon)), keys.Friends, tr.load, testenv.Log())
	sets := []*missing[owner]{{owner: 1}, {owner: 2}, {owner: 1}, {owner: 3}}
	if errs := s.loadAll(t.Context(), sets); errs != nil {
		t.Fatal(errs)
	}
	if tr.loads != 3 {
		t.Errorf("%d sets were read, want 3", tr.loads)
	}
	sets[0].members[0] = 1
	if !slices.Equal(sets[2].members, []models.RowID{7, 8}) || !slices.Equal(sets[1].members, []models.RowID{9}) || len(sets[3].members) != 0 {
		t.Errorf("%v, %v, %v", sets[1].members, sets[2].members, sets[3].members)
	}
}

// Readers load as fast as they can on two replicas, and copies vanish at random as if
// they had expired, or with their generation. Every reader sees every change once it
// is complete.
func TestReadersRacingWriters(t *testing.T) {
	t.Parallel()
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		env, tr := testenv.Real(t), newTruth()
		race(t, tr, []*Sets[owner]{newSets(env, tr), newSets(env, tr)}, 200, func() {
			env.Redis.Unlink(t.Context(), env.Keys.Set(keys.Friends, 1))
		})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		tr := newTruth()
		local := newLocal(testenv.NewClock(testenv.Noon))
		s := New(local, keys.Friends, tr.load, testenv.Log())
		race(t, tr, []*Sets[owner]{s}, 5000, func() { local.memory.Forget([]Set{s.set(1)}) })
	})
}

// race changes the set of the owner 1 so many times, while six readers read it. vanish removes
// its copy.
func race(t *testing.T, tr *truth, replicas []*Sets[owner], changes int, vanish func()) {
	const of = owner(1)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	defer func() { close(stop); readers.Wait() }()
	for i := range 6 {
		readers.Go(func() {
			s := replicas[i%len(replicas)]
			for {
				select {
				case <-stop:
					return
				default:
				}
				members, err := s.Members(t.Context(), of)
				if err != nil {
					t.Error(err)
					return
				}
				clear(members) // they are this reader's own
				switch rand.IntN(16) {
				case 0, 1, 2:
					vanish()
				case 3:
					if err := s.copies.DropAll(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for n := range changes {
		member := models.RowID(100 + n)
		change(t, replicas[n%len(replicas)], tr, of, member, member+1)
		for range 3 {
			for _, replica := range replicas {
				expect(t, replica, of, []models.RowID{member, member + 1})
			}
		}
	}
}
