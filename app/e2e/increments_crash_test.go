package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// giftBoards is the flag that defines a daily board, an event under way and a
// rolling board, all of so many shards.
func giftBoards(shards int) string {
	start := time.Now().Add(-time.Hour).UTC()
	return fmt.Sprintf(`--boards=[{name: steps, shards: %[1]d}, {name: gifts, kind: event, max_score: 100000000, shards: %[1]d, start: %[2]q, end: %[3]q}, {name: active, kind: rolling, shards: %[1]d, max_score: 8000000}]`,
		shards, start.Format(time.RFC3339), start.AddDate(0, 0, 2).Format(time.RFC3339))
}

// traffic is calls of workers that go on until they are told to stop.
type traffic struct {
	t    testing.TB
	url  atomic.Pointer[string]
	wg   sync.WaitGroup
	stop chan struct{}
	// done were answered well, refused were not, or not at all.
	done, refused atomic.Int64
}

func newTraffic(t testing.TB, url string) *traffic {
	tr := &traffic{t: t, stop: make(chan struct{})}
	tr.to(url)
	return tr
}

// to says where to call from now on.
func (tr *traffic) to(url string) { tr.url.Store(&url) }

// progress waits until some more calls were answered well.
func (tr *traffic) progress(n int64) {
	tr.t.Helper()
	from := tr.done.Load()
	testenv.Eventually(tr.t, "calls go on", func() bool { return tr.done.Load() >= from+n || tr.t.Failed() })
}

// end stops the workers, each with an answer to what it has sent.
func (tr *traffic) end() {
	close(tr.stop)
	tr.wg.Wait()
}

// givers send increments until they are told to stop. Each sends an increment
// again, with the same id, until it hears what became of it; one in ten it
// sends once more after that.
type givers struct {
	*traffic
	tries atomic.Int64

	mu sync.Mutex
	// given is what each board's users must have: the sum of what was
	// acknowledged, which is all that was ever sent.
	given map[string]map[models.UserID]int64
}

var giverBoards = []string{"gifts", "active"}

func startGivers(t testing.TB, url string) *givers {
	g := &givers{traffic: newTraffic(t, url), given: make(map[string]map[models.UserID]int64)}
	bearer := token(t, 1, auth.ScopeService)
	for _, name := range giverBoards {
		g.given[name] = make(map[models.UserID]int64)
	}
	for worker := range 8 {
		g.wg.Go(func() { g.run(worker, bearer) })
	}
	return g
}

func (g *givers) run(worker int, bearer string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	rng := rand.New(rand.NewPCG(uint64(worker), 1))
	for n := 0; ; n++ {
		select {
		case <-g.stop:
			return
		default:
		}
		board := giverBoards[n%len(giverBoards)]
		items := make([]string, 1+rng.IntN(4))
		users, deltas := make([]models.UserID, len(items)), make([]int64, len(items))
		for i := range items {
			users[i], deltas[i] = models.UserID(1+rng.IntN(20)), int64(1+rng.IntN(9))
			items[i] = increment(int(users[i]), int(deltas[i]), fmt.Sprintf("w%d-%d-%d", worker, n, i))
		}
		first := g.send(client, bearer, board, items)
		if first == nil {
			return
		}
		if rng.IntN(10) == 0 {
			again := g.send(client, bearer, board, items)
			for i := range again {
				if again[i].Status != "duplicate" || *again[i].Score != *first[i].Score || *again[i].ReachedAt != *first[i].ReachedAt {
					g.t.Errorf("first %s, then %s", first[i].brief(), again[i].brief())
				}
			}
		}
		g.mu.Lock()
		for i := range items {
			g.given[board][users[i]] += deltas[i]
		}
		g.mu.Unlock()
		g.done.Add(1)
	}
}

// send sends increments until it hears what became of them.
func (g *givers) send(client *http.Client, bearer, board string, items []string) []incremented {
	for {
		g.tries.Add(1)
		status, text, err := request(g.t.Context(), client, bearer, "POST", *g.url.Load()+"/v1/boards/"+board+"/increments", increments(items...))
		switch {
		case g.t.Context().Err() != nil:
			return nil
		case err != nil || status == http.StatusServiceUnavailable:
			g.refused.Add(1)
			<-time.After(10 * time.Millisecond) // somebody is away
			continue
		case status != http.StatusOK:
			g.t.Errorf("status %d: %s", status, text)
			return nil
		}
		var got counted
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Results) != len(items) {
			g.t.Errorf("%v: %s", err, text)
			return nil
		}
		for _, r := range got.Results {
			if r.Status == "rejected" {
				g.t.Errorf("%+v", r)
			}
		}
		return got.Results
	}
}

// sums are the sums of a query's rows, by user.
func sums(t testing.TB, st *stores.Stores, query string, args ...any) map[models.UserID]int64 {
	t.Helper()
	rows, err := st.Pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := make(map[models.UserID]int64)
	for rows.Next() {
		var user models.UserID
		var sum int64
		if err := rows.Scan(&user, &sum); err != nil {
			t.Fatal(err)
		}
		got[user] = sum
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// check compares, at rest, what was given, the increments in Postgres, the
// running totals, and the scores in Redis.
func (g *givers) check(st *stores.Stores, keys keys.Builder) {
	g.t.Helper()
	c := catalog.New(catalog.NewStore(st.Gorm), time.Now, 3, testenv.Log())
	for name, total := range map[string]string{"gifts": "event", "active": "live"} {
		want := g.given[name]
		if diff := cmp.Diff(want, sums(g.t, st, `SELECT user_id, sum(delta)::bigint FROM score_events WHERE board = $1 GROUP BY 1`, name)); diff != "" {
			g.t.Errorf("%s: increments (-given +stored):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, sums(g.t, st, `SELECT user_id, score FROM score_totals WHERE board = $1 AND total = $2`, name, total)); diff != "" {
			g.t.Errorf("%s: totals (-given +stored):\n%s", name, diff)
		}
		bucket := testenv.Must(c.Bucket(g.t.Context(), name, total))
		s := board.NewStore(st.Redis, keys, time.Now)
		users := make([]models.UserID, 0, len(want))
		for user := range want {
			users = append(users, user)
		}
		read := func() map[models.UserID]int64 {
			got := make(map[models.UserID]int64)
			composites, err := s.Composites(g.t.Context(), bucket, users)
			if err != nil {
				g.t.Fatal(err)
			}
			for i, user := range users {
				if points, _ := score.Of(bucket).Decode(composites[i]); points > 0 {
					got[user] = points
				}
			}
			return got
		}
		// The reconciler has up to its next pass.
		testenv.Eventually(g.t, name+" has what the ledger has", func() bool { return cmp.Equal(want, read()) || g.t.Failed() })
	}
}

// A process dies between the commit and the raise, again and again: nothing is
// lost or doubled, in Postgres at once, on the boards by the reconciler.
func TestSoakIncrementsSurviveKills(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	real := env.Config
	proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	env.Config.Redis.Addrs = []string{proxy.Addr()}
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	for round := range rounds(4, 50) {
		g.progress(20)
		// In turns before either board is raised, and before its answer.
		switch round % 4 {
		case 0, 1:
			proxy.HoldAt(0, []string{"zadd", "{active.00}:live"}[round%4])
		default:
			proxy.HoldReply([]string{":", "*"}[round%2])
		}
		testenv.Eventually(t, "a raise is held", func() bool { return proxy.Holding() })
		p.Kill()
		proxy.Cut()
		proxy.Start()
		p = testenv.Serve(t, env.Config, boards)
		g.to(p.URL)
	}
	g.progress(20)
	g.end()
	env.Config = real
	g.check(env.Stores, env.Keys)
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// The boards' Redis is emptied, and restarted with the end of its log gone,
// under load: both boards are filled again.
func TestIncrementsFillAnEmptyRedis(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server := testenv.StartRedis(t)
	env.Config.Redis.Addrs = []string{server.Addr()}
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	st := &stores.Stores{Redis: rdb, Gorm: env.Gorm, Pool: env.Pool}
	noted := func() bool {
		return rdb.HExists(context.Background(), env.Keys.LossCheckpoint("ledger", 0), "at").Val()
	}
	for range rounds(1, 10) {
		g.progress(30)
		testenv.Eventually(t, "the reconciler has made its note", noted)
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		g.progress(30)
		testenv.Eventually(t, "the reconciler has made its note", noted)
		server.Kill()
		server.Forget(5000)
		server.Start()
		g.progress(30)
	}
	g.end()
	g.check(st, env.Keys)

	// By hand too, where nobody serves.
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(env.Config)...), boards)...)
	if status != 0 || !strings.Contains(stdout, " totals applied again") {
		t.Errorf("rebuild: %d %q %q", status, stdout, stderr)
	}
	g.check(st, env.Keys)
}

// Postgres crashes under load and recovers: what was acknowledged is there, and
// what was not is sent again and counts once.
func TestIncrementsSurviveAPostgresRestart(t *testing.T) {
	t.Parallel()
	env := testenv.RealConfig(t)
	server := testenv.StartPostgres(t)
	env.Config.Postgres.DSN = server.DSN()
	env.Config.Auth.HS256Secret = secret
	if _, stderr, status := testenv.Run(t, append([]string{"migrate", "up"}, testenv.Flags(env.Config)...)...); status != 0 {
		t.Fatal(stderr)
	}
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	for range rounds(2, 10) {
		g.progress(30)
		server.Crash()
		server.Start()
	}
	g.progress(30)
	g.end()
	st := openStores(t, env.Config)
	g.check(st, env.Keys)
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// openStores opens stores of a test's own servers.
func openStores(t testing.TB, cfg config.Config) *stores.Stores {
	t.Helper()
	st, err := stores.Open(t.Context(), cfg, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}
