package crash_test

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
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

// Calls that need several keys at once of a slot which is half moved, from one master
// to another, are answered when the slot has moved. The end of a friendship, which needs
// one key at a time, is answered at once.
func TestCallsDuringAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env, p := sharded(t, cluster.Use)
	service, first := harness.Token(t, "1", auth.ScopeService), harness.Token(t, "1", "")
	call := func(bearer, method, path, body string) string {
		status, text, err := harness.Request(t.Context(), http.DefaultClient, bearer, method, p.URL+path, body)
		if err != nil || status != http.StatusOK {
			t.Errorf("%s %s: %d %s %v", method, path, status, text, err)
		}
		return text
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	const path = "/v1/boards/active/"
	call(service, "POST", path+"increments", harness.IncrementJSON(1, 5, "a"))
	call(first, "GET", "/v1/boards/steps/friends", "")
	live := &models.Bucket{Board: "active", Name: "live"}
	for name, tt := range map[string]struct {
		key   string
		waits bool
		while func() (check func())
	}{
		"an increment": {env.Keys.Board(live, 1), true, func() func() {
			text := call(service, "POST", path+"increments", harness.IncrementJSON(17, 7, "b"))
			return func() {
				if !strings.Contains(text, `"score":7`) {
					t.Errorf("the increment is answered %s", text)
				}
				// The answer may not have waited for Redis.
				testenv.Eventually(t, "it is on the board", func() bool {
					return strings.Contains(call(harness.Token(t, "17", ""), "GET", path+"around", ""), `"score":7`)
				})
				if log := p.Log(); strings.Contains(log, "MOVED") {
					t.Errorf("a command did not follow the slot: %s", log)
				}
			}
		}},
		"a friendship that ends": {env.Keys.Set(keys.Friends, 1), false, func() func() {
			status, text, err := harness.Request(t.Context(), http.DefaultClient, first, "DELETE", p.URL+"/v1/friends/100", "")
			return func() {
				if err != nil || status != http.StatusNoContent {
					t.Errorf("the friendship's end is answered %d %s %v", status, text, err)
				}
				if text := call(first, "GET", "/v1/boards/steps/friends", ""); strings.Contains(text, `"user_id":"100"`) {
					t.Errorf("the former friend is in %s", text)
				}
			}
		}},
	} {
		slot := int(testenv.Must(env.Redis.(*redis.ClusterClient).ClusterKeySlot(t.Context(), tt.key).Result()))
		from, to := cluster.Owners(slot)
		cluster.BeginMove(slot, from, to)
		if !cluster.MoveKey(slot, from, to) {
			t.Fatal("the slot has no keys")
		}
		refused := func() int { return from.Refused("TRYAGAIN") + to.Refused("TRYAGAIN") }
		before := refused()
		answered := make(chan func(), 1)
		go func() { answered <- tt.while() }()
		if tt.waits {
			testenv.Eventually(t, name+" meets the slot", func() bool { return refused() > before+10 })
		} else {
			check := testenv.Receive(t, "the answer", answered)
			check()
			answered <- check
		}
		for cluster.MoveKey(slot, from, to) {
		}
		cluster.EndMove(slot, from, to)
		testenv.Receive(t, "the answer", answered)()
	}
	p.Stop()
}
