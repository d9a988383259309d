package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/friends"
)

const (
	shardedUsers = 40
	fixedScore   = 1000 // of the users above, who upload nothing
)

// steppers upload growing totals to a sharded board, and read the ranking of
// their friends and their own place, until they are told to stop.
type steppers struct {
	*traffic
	// may tells which failures are no wonder.
	may func(status int, err error) bool

	mu             sync.Mutex
	promised, sent map[models.UserID]int64
}

func startSteppers(t testing.TB, url string, may func(status int, err error) bool) *steppers {
	s := &steppers{traffic: newTraffic(t, url), may: may, promised: make(map[models.UserID]int64), sent: make(map[models.UserID]int64)}
	for id := range models.UserID(6) {
		bearer := token(t, id+1, "")
		s.wg.Go(func() { s.run(id+1, bearer) })
	}
	return s
}

func (s *steppers) run(id models.UserID, bearer string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	date := shanghaiToday()
	for total := int64(1); ; total++ {
		select {
		case <-s.stop:
			return
		default:
		}
		s.mu.Lock()
		s.sent[id] = total
		s.mu.Unlock()
		if _, ok := s.ask(client, bearer, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, date, total)); ok {
			s.mu.Lock()
			s.promised[id] = total
			s.mu.Unlock()
		}
		if text, ok := s.ask(client, bearer, "GET", "/v1/boards/steps/friends?limit=100&date="+date, ""); ok {
			// All friends who upload nothing have what they had, on every shard.
			if n := strings.Count(text, fmt.Sprintf(`"score":%d,`, fixedScore)); n < shardedUsers {
				s.t.Errorf("%d of %d friends have their score: %s", n, shardedUsers, text)
				return
			}
		}
		s.ask(client, bearer, "GET", "/v1/boards/steps/around?date="+date, "")
	}
}

func (s *steppers) ask(client *http.Client, bearer, method, path, body string) (text string, ok bool) {
	status, text, err := request(s.t.Context(), client, bearer, method, *s.url.Load()+path, body)
	switch {
	case err == nil && (status == http.StatusOK || status == http.StatusAccepted):
		s.done.Add(1)
		return text, true
	case s.may(status, err):
		s.refused.Add(1)
		<-time.After(5 * time.Millisecond)
	default:
		s.t.Errorf("%s %s: %d %s %v", method, path, status, text, err)
	}
	return "", false
}

// What may fail where nothing does, where a store does, and where a process of
// ours does as well.
func nothing(int, error) bool { return false }
func refusals(status int, err error) bool {
	return err == nil && status == http.StatusServiceUnavailable
}
func brokenCalls(status int, err error) bool { return err != nil || refusals(status, err) }

// check compares the board with what was promised; exactly so where Redis has
// forgotten nothing.
func (s *steppers) check(env *testenv.Env) {
	s.t.Helper()
	checkPromised(s.t, env, env.Redis, dayBucket(s.t, env, shanghaiToday()), s.promised, s.sent)
}

// sharded is a process on another Redis with boards of 16 shards, on which the
// steppers' friends have their scores.
func sharded(t testing.TB, use func(*config.Redis)) (*testenv.Env, *testenv.Process) {
	t.Helper()
	env := testenv.RealOn(t, use)
	env.Config.Auth.HS256Secret = secret
	p := testenv.Serve(t, env.Config, giftBoards(16))
	befriend(t, env, p.URL)
	return env, p
}

// befriend gives the steppers their friends, and those a score.
func befriend(t testing.TB, env *testenv.Env, url string) {
	t.Helper()
	f := friends.New(friends.NewStore(env.Gorm), friends.NewCache(env.Redis, env.Keys), env.Log)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	still := make([]models.UserID, shardedUsers)
	for i := range still {
		still[i] = models.UserID(100 + i)
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, shanghaiToday(), fixedScore)
		status, text, err := request(t.Context(), client, token(t, still[i], ""), "POST", url+"/v1/boards/steps/scores", body)
		if err != nil || (status != http.StatusOK && status != http.StatusAccepted) {
			t.Fatal(status, text, err)
		}
	}
	for id := range models.UserID(6) {
		if err := f.Replace(t.Context(), id+1, still); err != nil {
			t.Fatal(err)
		}
	}
}

// failovers kills masters under load. What Redis replicated a moment ago may be
// gone with a master, which is why the daily board's own promise is checked
// only where nobody died: the ledger's boards are filled again.
func failovers(t *testing.T, use func(*config.Redis), master func() *testenv.Node, whole func()) {
	t.Helper()
	env, p := sharded(t, use)
	g := startGivers(t, p.URL)
	s := startSteppers(t, p.URL, refusals)
	s.progress(100)
	// Replicas have the scores of those who upload nothing.
	whole()
	for range rounds(1, 20) {
		g.progress(30)
		s.progress(100)
		refused, began := s.refused.Load(), time.Now()
		dead := master()
		dead.Kill()
		testenv.Eventually(t, "somebody is refused", func() bool { return s.refused.Load() > refused || t.Failed() })
		testenv.Eventually(t, "another one is master", func() bool {
			n := master()
			return n != nil && n != dead
		})
		s.progress(100)
		g.progress(30)
		t.Logf("all goes on %v after the kill; %d of %d answers so far were 503", time.Since(began), s.refused.Load(), s.refused.Load()+s.done.Load())
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
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// A master of a cluster dies under load.
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

// The master that Sentinels watch over dies under load.
func TestSoakSentinelMasterKilled(t *testing.T) {
	t.Parallel()
	sentinels := testenv.StartSentinels(t)
	failovers(t, sentinels.Use, sentinels.Master, sentinels.AwaitWhole)
}

// Slots move while all is read and written: nobody notices.
func TestSoakSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env, p := sharded(t, cluster.Use)
	g := startGivers(t, p.URL)
	s := startSteppers(t, p.URL, nothing)
	bucket := dayBucket(t, env, shanghaiToday())
	rdb := env.Redis.(*redis.ClusterClient)
	for range rounds(10, 500) {
		g.progress(5)
		s.progress(20)
		gifts := &models.Bucket{Board: []string{"steps", "gifts", "active"}[rand.IntN(3)], Name: bucket.Name}
		key := env.Keys.Board(gifts, rand.IntN(16))
		if rand.IntN(4) == 0 {
			key = env.Keys.Friends(models.UserID(1 + rand.IntN(6)))
		}
		slot := int(testenv.Must(rdb.ClusterKeySlot(t.Context(), key).Result()))
		from, to := cluster.Owners(slot)
		cluster.MoveSlot(slot, from, to)
	}
	g.progress(5)
	s.progress(20)
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
	t.Logf("%d commands met a slot on the move", met)
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// Calls that come while a slot's keys lie on two masters are answered once they
// lie on one.
func TestCallsWaitForAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env, p := sharded(t, cluster.Use)
	service, first := token(t, 1, auth.ScopeService), token(t, 1, "")
	call := func(bearer, method, path, body string) string {
		status, text, err := request(t.Context(), http.DefaultClient, bearer, method, p.URL+path, body)
		if err != nil || status != http.StatusOK {
			t.Errorf("%s %s: %d %s %v", method, path, status, text, err)
		}
		return text
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	const path = "/v1/boards/active/"
	call(service, "POST", path+"increments", increment(1, 5, "a"))
	call(first, "GET", "/v1/boards/steps/friends", "")
	live := &models.Bucket{Board: "active", Name: "live"}
	for name, tt := range map[string]struct {
		key   string
		while func() (check func())
	}{
		"an increment": {env.Keys.Board(live, 1), func() func() {
			text := call(service, "POST", path+"increments", increment(17, 7, "b"))
			return func() {
				if !strings.Contains(text, `"score":7`) {
					t.Errorf("the increment is answered %s", text)
				}
				// The answer waits for Redis only so long.
				testenv.Eventually(t, "it is on the board", func() bool {
					return strings.Contains(call(token(t, 17, ""), "GET", path+"around", ""), `"score":7`)
				})
				if log := p.Log(); strings.Contains(log, "MOVED") {
					t.Errorf("a command did not follow the slot: %s", log)
				}
			}
		}},
		"a friendship that ends": {env.Keys.Friends(1), func() func() {
			status, text, err := request(t.Context(), http.DefaultClient, first, "DELETE", p.URL+"/v1/friends/100", "")
			return func() {
				if err != nil || status != http.StatusNoContent {
					t.Errorf("the friendship's end is answered %d %s %v", status, text, err)
				}
				if text := call(first, "GET", "/v1/boards/steps/friends", ""); strings.Contains(text, `"user_id":"100"`) {
					t.Errorf("who is no friend any more is in %s", text)
				}
			}
		}},
	} {
		slot := int(testenv.Must(env.Redis.(*redis.ClusterClient).ClusterKeySlot(t.Context(), tt.key).Result()))
		from, to := cluster.Owners(slot)
		cluster.BeginMove(slot, from, to)
		if !cluster.MoveKey(slot, from, to) {
			t.Fatal("there is nothing to move")
		}
		refused := func() int { return from.Refused("TRYAGAIN") + to.Refused("TRYAGAIN") }
		before := refused()
		answered := make(chan func(), 1)
		go func() { answered <- tt.while() }()
		testenv.Eventually(t, name+" meets the slot", func() bool { return refused() > before+10 })
		for cluster.MoveKey(slot, from, to) {
		}
		cluster.EndMove(slot, from, to)
		(<-answered)()
	}
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}
