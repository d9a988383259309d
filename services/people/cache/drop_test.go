package cache

import (
	"maps"
	"slices"
	"testing"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// holder is a process that caches the sets of the owners 1 to owners, and drops them
// after a loss.
type holder struct {
	t     *testing.T
	env   *testenv.Env
	sets  *Sets[owner]
	stale *recovery.Recovery
}

// owners is the number of sets: some in every stripe.
const owners = 3 * keys.Stripes

func newHolder(t *testing.T, env *testenv.Env, names keys.Builder) *holder {
	store := NewStore(env.Redis, names, 0, nil)
	return &holder{
		t: t, env: env, sets: New(store, keys.Friends, newTruth().load, env.Log),
		stale: &recovery.Recovery{
			Detector: recovery.NewRedisDetector(env.Redis, names, recovery.Sets), Replay: store.DropStale(env.Clock.Now),
		},
	}
}

// fill reads all sets, which stores those that are missing.
func (h *holder) fill() {
	h.t.Helper()
	for of := range owner(owners) {
		testenv.Must(h.sets.Members(h.t.Context(), of+1))
	}
}

// stored returns how many sets of each stripe are found in Redis.
func (h *holder) stored() map[int]int {
	h.t.Helper()
	found := make(map[int]int)
	for of := range owner(owners) {
		set := h.sets.set(of + 1)
		if testenv.Must(inRedis(h.sets).get(h.t.Context(), set)).found {
			found[keys.StripeOf(set.Owner)]++
		}
	}
	return found
}

// expectStored checks that all sets of the stripes are found, and no others.
func (h *holder) expectStored(in func(stripe int) bool) {
	h.t.Helper()
	want := make(map[int]int)
	for stripe := range keys.Stripes {
		if in(stripe) {
			want[stripe] = owners / keys.Stripes
		}
	}
	if found := h.stored(); !maps.Equal(found, want) {
		h.t.Errorf("the sets of the stripes %v are found, want %v",
			slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(want)))
	}
}

func all(int) bool  { return true }
func none(int) bool { return false }

// drop drops what may be stale, and checks in how many stripes that was.
func (h *holder) drop(want int64) {
	h.t.Helper()
	if dropped, err := h.stale.Run(h.t.Context()); err != nil || dropped != want {
		h.t.Errorf("the sets of %d stripes dropped, %v, want %d", dropped, err, want)
	}
}

// anotherServer makes the checkpoint of a stripe name another server.
func (h *holder) anotherServer(stripe int) {
	h.t.Helper()
	key := inRedis(h.sets).keys.LossCheckpoint(recovery.Sets, stripe)
	if err := h.env.Redis.HSet(h.t.Context(), key, "server", "another").Err(); err != nil {
		h.t.Fatal(err)
	}
}

// When Redis may have forgotten writes, all sets of this prefix are dropped, and no
// others. Otherwise nothing is. Dropping costs the same, however many sets there are.
func TestStaleSetsAreDropped(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	other := newHolder(t, env, keys.Builder{Prefix: env.Keys.Prefix + "other:"})
	other.fill()
	h := newHolder(t, env, env.Keys)
	h.fill()
	h.drop(keys.Stripes) // this Redis has no checkpoint
	h.expectStored(none)
	h.fill()
	h.drop(0)
	h.expectStored(all)

	h.anotherServer(0)
	counter := &testenv.RoundTrips{}
	env.Redis.AddHook(counter)
	h.drop(keys.Stripes)
	if counter.Trips() != 4 || counter.Commands() > keys.Stripes+10 {
		t.Errorf("dropping took %d round trips and %d commands", counter.Trips(), counter.Commands())
	}
	h.expectStored(none)
	h.fill()
	h.drop(0)
	h.expectStored(all)

	if err := env.Redis.Del(t.Context(), env.Keys.LossCheckpoint(recovery.Sets, 0)).Err(); err != nil {
		t.Fatal(err)
	}
	h.drop(keys.Stripes)
	h.expectStored(none)
	other.expectStored(all)
}

// A Redis that went back in time has a reader's token again that a change had
// removed. The reader stores nothing with it once stale sets were dropped.
func TestTokensOfAnOldGeneration(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p, h := newProtocol(t, env, 1), newHolder(t, env, env.Keys)
	h.drop(keys.Stripes)
	reader := p.begin()
	p.mark("writer")
	p.clear("writer")
	loading := env.Keys.SetLoading(p.of.Kind, p.of.Owner)
	if err := env.Redis.Set(t.Context(), loading, reader.claim.token, loadingTTL).Err(); err != nil {
		t.Fatal(err)
	}
	h.anotherServer(0)
	h.drop(keys.Stripes)
	p.tryStore(reader, false)
	p.tryStore(p.begin(), true)
}

// slotOf returns the slot of a key.
func slotOf(t *testing.T, env *testenv.Env, key string) int {
	t.Helper()
	return int(testenv.Must(env.Redis.ClusterKeySlot(t.Context(), key).Result()))
}

// One master of a cluster fails over: only the sets that it had are dropped.
func TestAMasterFailsOver(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	h := newHolder(t, env, env.Keys)
	h.drop(keys.Stripes)
	h.fill()
	h.drop(0)
	dead, masters := cluster.Masters()[0], len(cluster.Masters())
	lost := make(map[int]bool)
	for stripe := range keys.Stripes {
		master, _ := cluster.Owners(slotOf(t, env, env.Keys.SetsGeneration(stripe)))
		lost[stripe] = master == dead
	}
	dead.Kill()
	var dropped int64
	testenv.Eventually(t, "the replica is master, and its sets are dropped", func() bool {
		var err error
		dropped, err = h.stale.Run(t.Context())
		return err == nil && dropped > 0 && len(cluster.Masters()) == masters
	})
	if share := int64(keys.Stripes / masters); dropped < share || dropped > share+1 {
		t.Errorf("the sets of %d stripes are dropped, want a third", dropped)
	}
	h.expectStored(func(stripe int) bool { return !lost[stripe] })
	h.fill()
	h.drop(0)
	h.expectStored(all)
}

// A slot that moves loses no data: its sets stay, and its checkpoint on another server
// is no restart. While it moves, sets are found, and dropped after a loss.
func TestASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	h := newHolder(t, env, env.Keys)
	h.drop(keys.Stripes)
	h.fill()
	const stripe = 5
	slot := slotOf(t, env, env.Keys.SetsGeneration(stripe))
	from, to := cluster.Owners(slot)
	cluster.MoveSlot(slot, from, to)
	h.drop(0)
	h.expectStored(all)

	from, to = cluster.Owners(slot)
	cluster.BeginMove(slot, from, to)
	for range 2 {
		if !cluster.MoveKey(slot, from, to) {
			t.Fatal("there is nothing to move")
		}
	}
	h.drop(0)
	h.expectStored(all)
	h.anotherServer(stripe)
	h.drop(1)
	h.expectStored(func(p int) bool { return p != stripe })
	for cluster.MoveKey(slot, from, to) {
	}
	cluster.EndMove(slot, from, to)
	h.fill()
	h.drop(0)
	h.expectStored(all)
}

// A change is visible at once although the slot of its set is half moved, and a reader
// who can't store the set meanwhile gets it from its truth.
func TestAChangeWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	tr := newTruth()
	s := newSets(env, tr)
	change(t, s, tr, 1, 7, 8)
	expect(t, s, 1, []models.RowID{7, 8})
	slot := slotOf(t, env, env.Keys.Set(keys.Friends, 1))
	from, to := cluster.Owners(slot)
	cluster.BeginMove(slot, from, to)
	cluster.MoveKey(slot, from, to)
	change(t, s, tr, 1, 7)
	expect(t, s, 1, []models.RowID{7})
	for cluster.MoveKey(slot, from, to) {
	}
	cluster.EndMove(slot, from, to)
	expect(t, s, 1, []models.RowID{7})
}
