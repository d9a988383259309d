package crash_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// failovers kills masters under load and expects every increment on its boards
// afterwards. A master may die with writes that it has not replicated, so
// nothing is promised of direct uploads; the boards of increments are filled
// from the ledger.
func failovers(t *testing.T, use func(*config.Redis), master func() *testenv.Node, whole func()) {
	t.Helper()
	env, p := sharded(t, use)
	g := startGivers(t, p.URL)
	s := startSteppers(t, p.URL, allowUnavailable)
	s.awaitMore(100)
	// From here on replicas have the scores of the users who upload nothing.
	whole()
	for range testenv.Rounds(1, 20) {
		g.awaitMore(30)
		s.awaitMore(100)
		refused, began := s.refused.Load(), time.Now()
		dead := master()
		dead.Kill()
		testenv.Eventually(t, "a call is refused", func() bool { return s.refused.Load() > refused || t.Failed() })
		testenv.Eventually(t, "another node is master", func() bool {
			n := master()
			return n != nil && n != dead
		})
		s.awaitMore(100)
		g.awaitMore(30)
		t.Logf("calls succeed again %v after the kill; %d of %d answers so far were 503", time.Since(began), s.refused.Load(), s.refused.Load()+s.done.Load())
		began = time.Now()
		dead.Start()
		whole()
		t.Logf("whole again %v after the start", time.Since(began))
	}
	g.end()
	s.end()
	began := time.Now()
	g.check(env.Stores, env.Keys)
	t.Logf("the ledger's boards are whole %v later", time.Since(began))
	p.Stop()
}

// A master of a cluster is killed under load.
func TestSoakClusterMasterKilled(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	failovers(t, cluster.Use, func() *testenv.Node {
		masters := cluster.Masters()
		if len(masters) < 3 {
			return nil
		}
		return masters[len(masters)-1]
	}, cluster.AwaitWhole)
}

// The master that Sentinels watch is killed under load.
func TestSoakSentinelMasterKilled(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	sentinels := testenv.StartSentinels(t)
	failovers(t, sentinels.Use, sentinels.Master, sentinels.AwaitWhole)
}

// Slots move under load, and no call fails.
func TestSoakSlotsMove(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	cluster := testenv.StartCluster(t)
	env, p := sharded(t, cluster.Use)
	g := startGivers(t, p.URL)
	s := startSteppers(t, p.URL, allowNone)
	bucket := harness.DayBucket(t, env, harness.Today())
	rdb := env.Redis.(*redis.ClusterClient)
	for range testenv.Rounds(10, 500) {
		g.awaitMore(5)
		s.awaitMore(20)
		gifts := &models.Bucket{Board: []string{"steps", "gifts", "active"}[rand.IntN(3)], Name: bucket.Name}
		key := env.Keys.Board(gifts, rand.IntN(16))
		if rand.IntN(4) == 0 {
			key = env.Keys.Set(keys.Friends, int64(1+rand.IntN(stepperCount)))
		}
		slot := int(testenv.Must(rdb.ClusterKeySlot(t.Context(), key).Result()))
		from, to := cluster.Owners(slot)
		cluster.MoveSlot(slot, from, to)
	}
	g.awaitMore(5)
	s.awaitMore(20)
	g.end()
	s.end()
	if g.refused.Load() > 0 {
		t.Errorf("%d increments were refused or broke off", g.refused.Load())
	}
	s.check(env)
	g.check(env.Stores, env.Keys)
	met := 0
	for _, n := range cluster.Nodes {
		met += n.Refused("TRYAGAIN") + n.Refused("ASK")
	}
	t.Logf("%d commands met a moving slot", met)
	p.Stop()
}
