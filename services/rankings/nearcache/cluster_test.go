package nearcache_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/rankings/nearcache"
)

// everybody are users of each shard.
var everybody = func() (users []models.RowID) {
	for user := models.RowID(1); user <= 300; user++ {
		users = append(users, user)
	}
	return users
}()

// raiseAll writes a composite of the users until Redis has acknowledged all of them.
func (r *replica) raiseAll(users []models.RowID, composite models.Composite) {
	r.t.Helper()
	raises := make([]models.Raise, len(users))
	for i, user := range users {
		raises[i] = models.Raise{Bucket: r.bucket, Entry: models.Entry{User: user, Composite: composite}}
	}
	testenv.Eventually(r.t, "Redis acknowledges the composites", func() bool {
		for _, err := range r.store.Raise(r.t.Context(), raises) {
			if err != nil {
				return false
			}
		}
		return true
	})
}

// proves waits until the copy is proven for a moment after this call, and checks that it
// has no composite of the users below least.
func (r *replica) proves(what string, users []models.RowID, least models.Composite) {
	r.t.Helper()
	now := time.Now()
	testenv.Eventually(r.t, what, func() bool {
		composites, asOf, ok := r.held(users...)
		if !ok || !asOf.After(now) {
			return false
		}
		for i, composite := range composites {
			if composite < least {
				r.t.Fatalf("%s: user %d has %d, want %d", what, users[i], composite, least)
			}
		}
		return true
	})
}

// dies kills a master while two processes follow a board, after it has acknowledged
// composites that no replica may have. What Redis acknowledges after the failover is in
// every answer that is proven for a later moment, and in the end both copies equal Redis,
// which may have lost the last composites before it.
func dies(t *testing.T, env *testenv.Env, isolate, kill func()) {
	t.Helper()
	bucket := streamed(6)
	a, b := newReplica(t, env, env.Redis, bucket), newReplica(t, env, env.Redis, bucket)
	a.raiseAll(everybody, 1)
	b.proves("the other process has the composites", everybody, 1)
	isolate()
	a.raiseAll(everybody, 2)
	b.proves("the other process has those that may be lost", everybody, 2)
	kill()
	some := everybody[:len(everybody)/2]
	for composite := models.Composite(3); composite < 6; composite++ {
		a.raiseAll(some, composite)
		a.proves("its own composites, after the failover", some, composite)
		b.proves("those of the other process, after the failover", some, composite)
	}
	for _, r := range []*replica{a, b} {
		r.equalsRedis("the copy equals Redis", everybody...)
	}
}

func TestAMasterOfTheClusterDies(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	dies(t, testenv.RealOn(t, cluster.Use), func() {}, func() { cluster.Masters()[0].Kill() })
}

func TestTheMasterOfSentinelsDies(t *testing.T) {
	t.Parallel()
	sentinels := testenv.StartSentinels(t)
	env := testenv.RealOn(t, sentinels.Use)
	master := sentinels.Master()
	replicas := slices.DeleteFunc(slices.Clone(sentinels.Servers), func(n *testenv.Node) bool { return n == master })
	dies(t, env, func() {
		for _, n := range replicas {
			n.Kill()
		}
	}, func() {
		master.Kill()
		for _, n := range replicas {
			n.Start()
		}
	})
	lost, err := env.Redis.ZMScore(t.Context(), env.Keys.Board(streamed(6), 0), "300").Result()
	if err != nil || lost[0] > 1 {
		t.Errorf("Redis has lost nothing: %v, %v", lost, err)
	}
}

// While a master hangs, nothing of its shards is proven; those of the other masters are.
func TestAHungMasterHasItsOwnShardsOnly(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	cluster.NeverFailOver()
	env := testenv.RealOn(t, cluster.Use)
	bucket := streamed(6)
	r := newReplica(t, env, env.Redis, bucket)
	r.raiseAll(everybody, 1)
	r.proves("the copy is complete", everybody, 1)
	hung := cluster.Masters()[0]
	var there, elsewhere []models.RowID
	for _, user := range everybody {
		slot := testenv.Must(env.Redis.ClusterKeySlot(t.Context(), env.Keys.Board(bucket, bucket.Shard(user))).Result())
		if owner, _ := cluster.Owners(int(slot)); owner == hung {
			there = append(there, user)
		} else {
			elsewhere = append(elsewhere, user)
		}
	}
	if len(there) == 0 || len(elsewhere) == 0 {
		t.Fatalf("the master has %d of the users, the others %d", len(there), len(elsewhere))
	}
	hung.Hang()
	defer hung.Resume()
	testenv.Eventually(t, "its shards are not proven", func() bool {
		_, _, ok := r.held(there...)
		return !ok
	})
	for range 3 {
		now := time.Now()
		testenv.Eventually(t, "the other shards are proven again and again", func() bool {
			_, asOf, ok := r.held(elsewhere...)
			return ok && asOf.After(now)
		})
	}
	if _, _, ok := r.held(there...); ok {
		t.Error("shards of the hung master are proven")
	}
}

// Row ids up to ten million take no more memory than allowed: the bucket that does not
// fit is read from Redis.
func TestTenMillionRowIDs(t *testing.T) {
	t.Parallel()
	const rows, memory = 10_000_000, 128 << 20 // a bucket takes 80 MB
	env := testenv.Real(t)
	today, tomorrow := streamed(1), streamed(1)
	tomorrow.Name = "20261121"
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	cache := nearcache.New(nearcache.Options{
		Source: store, Changes: store.Changes(),
		Buckets:      func(time.Time) []*models.Bucket { return []*models.Bucket{today, tomorrow} },
		MaxStaleness: bound, Memory: memory, Clock: env.Clock.Now, Log: env.Log,
	})
	store.NotifyWritten(cache.Written)
	testenv.Background(t, cache.Run)
	first, second := &replica{t, store, cache, today}, &replica{t, store, cache, tomorrow}
	first.holds("today is held", 1, 0)
	second.holds("tomorrow is held", 1, 0)
	const step = 9973 // some users of each page
	for row := models.RowID(1); row <= rows; row += step {
		if !first.raise(t.Context(), row, models.Composite(row)) {
			t.Fatal("Redis did not respond")
		}
	}
	for row := models.RowID(1); row <= rows; row += step {
		second.raise(t.Context(), row, 7)
	}
	testenv.Eventually(t, "tomorrow has no room", func() bool { return cache.Stats().WithoutRoom.Load() == 1 })
	if bytes := cache.Stats().Bytes.Load(); bytes > memory {
		t.Errorf("the copies take %d bytes", bytes)
	}
	for row := models.RowID(1); row <= rows; row += step {
		first.holds("today is held", row, models.Composite(row))
	}
	if _, _, ok := second.held(1); ok {
		t.Error("tomorrow is held all the same")
	}
}
