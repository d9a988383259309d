package cache

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// versions holds sets of which there are copies: each has one member, the number of its
// last change. It also knows which changes are complete, and since when. Safe for
// concurrent use.
type versions struct {
	mu      sync.Mutex
	version map[owner]models.RowID
	changes map[owner][]complete
}

// complete is a change that was complete at a moment.
type complete struct {
	version models.RowID
	at      time.Time
}

func newVersions() *versions {
	return &versions{version: make(map[owner]models.RowID), changes: make(map[owner][]complete)}
}

func (tr *versions) load(_ context.Context, owners []owner) (map[owner][]models.RowID, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	sets := make(map[owner][]models.RowID)
	for _, of := range owners {
		sets[of] = []models.RowID{1 + tr.version[of]}
	}
	return sets, nil
}

// commit changes a set and returns the number of the change.
func (tr *versions) commit(of owner) models.RowID {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.version[of]++
	return 1 + tr.version[of]
}

// completed records that a change is complete.
func (tr *versions) completed(of owner, version models.RowID) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.changes[of] = append(tr.changes[of], complete{version, time.Now()})
}

// least returns the oldest version that may be read at a moment: that of the last change
// which had been complete for longer than the bound.
func (tr *versions) least(of owner, at time.Time, bound time.Duration) models.RowID {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, c := range slices.Backward(tr.changes[of]) {
		if c.at.Before(at.Add(-bound)) {
			return c.version
		}
	}
	return 1
}

// process is a process that reads sets through a near cache and changes them.
type process struct {
	t       *testing.T
	truth   *versions
	bound   time.Duration
	store   *Store
	sets    *Sets[owner]
	circles *Circles
}

// newProcess starts a process, which ends with the test.
func newProcess(t *testing.T, rdb redis.UniversalClient, names keys.Builder, tr *versions, bound time.Duration) *process {
	t.Helper()
	p := &process{t: t, truth: tr, bound: bound, circles: NewCircles(rdb, names, bound, func() int64 { return 10_000_000 }, time.Now, testenv.Log())}
	p.store = NewStore(rdb, names, 0, p.circles)
	p.sets = New(p.store, keys.Friends, tr.load, testenv.Log())
	testenv.Background(t, p.circles.Run)
	return p
}

// change changes a set, and reports whether it did. A change that is not complete may
// have happened.
func (p *process) change(of owner) bool {
	p.t.Helper()
	ctx, change := context.Background(), p.sets.NewChange()
	if err := change.Mark(ctx, []owner{of}); err != nil {
		return false
	}
	version := p.truth.commit(of)
	change.Clear(ctx)
	p.truth.completed(of, version)
	return true
}

// read reads a set and checks that no change is missing that had been complete for
// longer than the bound before.
func (p *process) read(of owner) models.RowID {
	p.t.Helper()
	least := p.truth.least(of, time.Now(), p.bound)
	got, _, err := p.sets.Near(context.Background(), of)
	if err != nil || len(got) != 1 {
		p.t.Errorf("the set of %d: %v, %v", of, got, err)
		return 0
	}
	if got[0] < least {
		p.t.Errorf("the set of %d is from change %d, want %d or a later one", of, got[0], least)
	}
	return got[0]
}

// near reads a set and reports whether it was in memory.
func (p *process) near(of owner) bool {
	p.t.Helper()
	before := p.circles.Stats().Near.Load()
	p.read(of)
	return p.circles.Stats().Near.Load() > before
}

// awaitNear waits until a set is in memory.
func (p *process) awaitNear(of owner) {
	p.t.Helper()
	testenv.Eventually(p.t, "the set is in memory", func() bool { return p.near(of) })
}

// Two processes change a set and read it from memory. Each reads its own changes at
// once, and those of the other within the bound.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	tr, bound := newVersions(), 200*time.Millisecond
	one, other := newProcess(t, env.Redis, env.Keys, tr, bound), newProcess(t, env.Redis, env.Keys, tr, bound)
	for range 5 {
		one.awaitNear(1)
		other.awaitNear(1)
		if !one.change(1) {
			t.Fatal("the change failed")
		}
		if got := one.read(1); got != 1+tr.version[1] {
			t.Errorf("the process reads change %d after its own, %d", got, 1+tr.version[1])
		}
		testenv.Eventually(t, "the other process reads it", func() bool { return other.read(1) == 1+tr.version[1] })
	}
}

// openRedis returns a client of a server, which the end of the test closes.
func openRedis(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	rdb := stores.OpenRedis(config.Redis{Mode: "single", Addrs: []string{addr}})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

// One process changes a set while another one reads it, from memory if it can. Redis is
// emptied, restarted, and not reached by the reader; its stream is trimmed and
// removed; a writer dies between its mark and the end of its change. No read lacks a
// change that had been complete for longer than the bound.
func TestNoCopyIsOlderThanTheBound(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	link := testenv.NewProxy(t, server.Addr())
	tr, bound, names := newVersions(), 100*time.Millisecond, keys.Builder{}
	admin := openRedis(t, server.Addr())
	writer := newProcess(t, admin, names, tr, bound)
	reader := newProcess(t, openRedis(t, link.Addr()), names, tr, bound)
	const set = owner(1)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond): // leave the processor to others
				}
				reader.read(set)
			}
		})
	}
	ctx, stream := context.Background(), names.SetsChanges(0)
	reached := func() { reader.awaitNear(set) }
	unproven := func() {
		testenv.Eventually(t, "nothing is proven", func() bool { return reader.circles.Age() > bound })
		writer.change(set)
	}
	faults := []func(){
		func() {}, reached, reached, reached,
		func() { admin.FlushAll(ctx) },
		func() { admin.Del(ctx, stream) },
		func() { admin.XTrimMaxLen(ctx, stream, 0) },
		func() { reader.change(set) },
		func() { server.Kill(); server.Start() },
		func() { link.Hold(); unproven(); link.Release() },
		func() { link.HoldReply("c"); writer.change(set); unproven(); link.Release() },
		func() { link.Cut(); unproven(); link.Start() },
		func() { // a writer dies before it ends its change, and its mark expires
			if err := writer.sets.NewChange().Mark(ctx, []owner{set}); err == nil {
				reader.read(set)
				tr.commit(set)
			}
			reader.read(set)
			admin.Del(ctx, names.SetChanging(keys.Friends, int64(set)))
		},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 4 * len(faults) {
		faults[random.IntN(len(faults))]()
		for range random.IntN(4) {
			writer.change(set)
		}
	}
	writer.change(set)
	testenv.Eventually(t, "the last change is in memory", func() bool {
		return reader.near(set) && reader.read(set) == 1+tr.version[set]
	})
	close(stop)
	testenv.Wait(t, "the readers end", &readers)
	if near := reader.circles.Stats().Near.Load(); near == 0 {
		t.Error("nothing was read from memory")
	}
}

// A process that comes from an old master to the one that has replaced it drops its
// copies: the changes there are in no stream that it has followed.
func TestCopiesOfAnOldMaster(t *testing.T) {
	t.Parallel()
	split, tr := testenv.StartSplit(t), newVersions()
	old := newProcess(t, split.Former, keys.Builder{}, tr, 10*time.Second)
	old.awaitNear(1)
	split.Promote()
	change := New(NewStore(split.Promoted, keys.Builder{}, 0, nil), keys.Friends, tr.load, testenv.Log()).NewChange()
	if err := change.Mark(t.Context(), []owner{1}); err != nil {
		t.Fatal(err)
	}
	tr.commit(1)
	change.Clear(t.Context())
	if !old.near(1) || old.read(1) != 1 {
		t.Error("the old master's copy is not used")
	}
	// On the new master the entries that the process has read are the last ones.
	stream := keys.Builder{}.SetsChanges(0)
	for _, entry := range testenv.Must(split.Promoted.XRange(t.Context(), stream, "-", "+").Result())[1:] {
		split.Promoted.XDel(t.Context(), stream, entry.ID)
	}
	split.Heal()
	testenv.Eventually(t, "the process reads the change", func() bool { return old.read(1) == 2 })
	old.awaitNear(1)
}

// A master of a cluster hangs and fails over. The sets of the others stay in memory all
// the while, and its own are back in the end.
func TestAMasterOfAClusterHangs(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	cfg := config.Redis{}
	cluster.Use(&cfg)
	open := func() redis.UniversalClient {
		rdb := stores.OpenRedis(cfg)
		t.Cleanup(func() {
			if err := rdb.Close(); err != nil {
				t.Error(err)
			}
		})
		return rdb
	}
	tr, bound := newVersions(), 500*time.Millisecond
	p, writer := newProcess(t, open(), keys.Builder{}, tr, bound), newProcess(t, open(), keys.Builder{}, tr, bound)
	for of := range owner(keys.Stripes) {
		p.awaitNear(of + 1)
	}
	hung := cluster.Masters()[0]
	var there, elsewhere owner
	for of := range owner(keys.Stripes) {
		slot := openRedis(t, hung.Addr()).ClusterKeySlot(t.Context(), keys.Builder{}.Set(keys.Friends, int64(of+1))).Val()
		if master, _ := cluster.Owners(int(slot)); master == hung {
			there = of + 1
		} else {
			elsewhere = of + 1
		}
		if there != 0 && elsewhere != 0 {
			break
		}
	}
	hung.Hang()
	testenv.Eventually(t, "its sets are not proven", func() bool { return p.circles.Age() > 3*bound })
	if _, recent := p.circles.recent(keys.StripeOf(int64(elsewhere))); !recent {
		t.Error("the sets of the other masters are not proven either")
	}
	p.awaitNear(elsewhere)
	hung.Resume()
	hung.Kill()
	testenv.Eventually(t, "its sets can be changed again", func() bool { return writer.change(there) })
	testenv.Eventually(t, "the change is read", func() bool { return p.read(there) == 1+tr.version[there] })
	p.awaitNear(there)
}

// forgets removes what Redis has of a set, the stream included.
func forgets(t *testing.T, env *testenv.Env, of owner) {
	t.Helper()
	k, number := env.Keys, int64(of)
	for _, key := range []string{
		k.Set(keys.Friends, number), k.SetChanging(keys.Friends, number), k.SetLoading(keys.Friends, number),
		k.SetsGeneration(keys.StripeOf(number)), k.SetsChanges(0),
	} {
		if err := env.Redis.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Each of the entries of a stream is needed: the one before a change, if that after it
// can't be written; the one after it, if Redis has forgotten the mark; and the one of a
// loss, if Redis has brought back a set.
func TestEachEntryIsNeeded(t *testing.T) {
	t.Parallel()
	const bound = 200 * time.Millisecond
	for _, tt := range []struct {
		name   string
		change func(*testing.T, *testenv.Env, *versions, *process)
	}{
		{"the end is not written", func(t *testing.T, env *testenv.Env, tr *versions, _ *process) {
			writer := New(NewStore(env.Redis, env.Keys, 0, nil), keys.Friends, tr.load, testenv.Log())
			change, ctx := writer.NewChange(), t.Context()
			if err := change.Mark(ctx, []owner{1}); err != nil {
				t.Fatal(err)
			}
			version := tr.commit(1)
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			change.Clear(ctx) // fails
			tr.completed(1, version)
		}},
		{"Redis forgets the mark", func(t *testing.T, env *testenv.Env, tr *versions, reader *process) {
			writer := New(NewStore(env.Redis, env.Keys, 0, nil), keys.Friends, tr.load, testenv.Log())
			change := writer.NewChange()
			if err := change.Mark(t.Context(), []owner{1}); err != nil {
				t.Fatal(err)
			}
			forgets(t, env, 1)
			testenv.Eventually(t, "the reader has started over", func() bool { return reader.circles.Stats().StartedOver.Load() > 0 })
			reader.awaitNear(1)
			version := tr.commit(1)
			change.Clear(t.Context())
			tr.completed(1, version)
		}},
		{"Redis has brought back a set", func(t *testing.T, _ *testenv.Env, tr *versions, reader *process) {
			version := tr.commit(1) // a change of which Redis has forgotten everything
			reader.awaitNear(1)
			if reader.read(1) == version {
				t.Fatal("the reader has no outdated copy")
			}
			if err := reader.store.DropAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			tr.completed(1, version)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			tr := newVersions()
			reader := newProcess(t, env.Redis, env.Keys, tr, bound)
			reader.awaitNear(1)
			tt.change(t, env, tr, reader)
			testenv.Eventually(t, "the bound is over", func() bool { return tr.least(1, time.Now(), bound) > 1 })
			for range 3 {
				reader.read(1)
			}
		})
	}
}
