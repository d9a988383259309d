package crash_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A process is killed at each step of changing, loading and dropping what Redis caches of
// friends and profiles. Others then show what Postgres has.
func TestSoakCachesKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(1, 5) {
		for _, step := range testenv.Forms(t, 0, testenv.Failpoints(t, "caches")) {
			t.Run(fmt.Sprintf("%d/%s", round, step), func(t *testing.T) {
				t.Parallel()
				testKilledCaches(t, step, 1+7*round)
			})
		}
	}
}

func testKilledCaches(t *testing.T, step string, times int) {
	t.Helper()
	env, _, rdb := withRedis(t)
	c := &cachedPairs{t: t, env: env, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(c.client.CloseIdleConnections)
	other := testenv.Serve(t, env.Config)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "sets")
	if step == "caches.dropped" {
		times = 1 // once after a loss
	}
	p := testenv.ServeUntil(t, fmt.Sprintf("%s#%d", step, times), env.Config)
	if step == "caches.dropped" {
		// The other process, which would drop them first, is stopped meanwhile.
		other.Signal(syscall.SIGSTOP)
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for worker := range 4 {
		c.running.Go(func() { c.run(p, other, worker) })
	}
	p.Killed()
	other.Signal(syscall.SIGCONT)
	testenv.Wait(t, "all that runs ends", &c.running)
	c.check(other)
	c.check(testenv.Serve(t, env.Config))
}

// cachedPairs are pairs of users who become friends and part.
type cachedPairs struct {
	t       testing.TB
	env     *testenv.Env
	client  *http.Client
	running sync.WaitGroup

	mu    sync.Mutex
	begun []string
}

// call makes a call as a user. ok is false if the process has died.
func (c *cachedPairs) call(p *testenv.Process, user, method, path, body string) (text string, ok bool) {
	status, text, err := harness.Request(c.t.Context(), c.client, harness.Token(c.t, models.UserID(user), ""), method, p.URL+path, body)
	var broken *url.Error
	if err == nil && status >= http.StatusMultipleChoices && status != http.StatusServiceUnavailable {
		c.t.Errorf("%s %s: %d %s", method, path, status, text)
	} else if err != nil && !errors.As(err, &broken) {
		c.t.Error(err)
	}
	return text, err == nil
}

const friendRanking = "/v1/boards/steps/friends"

// run changes and reads pair after pair by a process until it dies. The other process reads,
// too.
func (c *cachedPairs) run(p, other *testenv.Process, worker int) {
	for n := 0; ; n++ {
		name := fmt.Sprintf("w%d-%d", worker, n)
		a, b := name+"-a", name+"-b"
		c.mu.Lock()
		c.begun = append(c.begun, name)
		c.mu.Unlock()
		upload := fmt.Sprintf(`{"date":%q,"score":5}`, harness.Today())
		for _, call := range []struct {
			by                 *testenv.Process
			user, method, path string
			body               string
		}{
			{p, a, "PUT", "/v1/me", `{"nickname":"before"}`},
			{p, a, "POST", "/v1/boards/steps/scores", upload},
			{p, b, "POST", "/v1/boards/steps/scores", upload},
			{p, b, "GET", friendRanking, ""},
			{p, a, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, b)},
			{p, b, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, a)},
			{other, a, "GET", friendRanking, ""},
			{p, b, "GET", friendRanking, ""},
			{p, a, "PUT", "/v1/me", `{"nickname":"after"}`},
			{p, b, "DELETE", "/v1/friends/" + a, ""},
			{p, a, "GET", friendRanking, ""},
		} {
			if _, ok := c.call(call.by, call.user, call.method, call.path, call.body); !ok {
				return
			}
		}
	}
}

// check compares the friend rankings of the pairs that came last with Postgres.
func (c *cachedPairs) check(p *testenv.Process) {
	c.t.Helper()
	for _, name := range c.begun[max(0, len(c.begun)-30):] {
		a, b := name+"-a", name+"-b"
		friends, _ := c.call(p, a, "GET", "/v1/friends", "") // which is read in Postgres
		are := strings.Contains(friends, fmt.Sprintf(`"user_id":%q`, b))
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			ranking, ok := c.call(p, pair[0], "GET", friendRanking, "")
			if shown := strings.Contains(ranking, fmt.Sprintf(`"user_id":%q`, pair[1])); !ok || shown != are {
				c.t.Errorf("%s and %s are friends: %v, but the ranking is %s", pair[0], pair[1], are, ranking)
			}
		}
		testenv.Eventually(c.t, a+" is shown under the name that Postgres has", func() bool {
			var nickname string
			if err := c.env.Gorm.Raw(`SELECT nickname FROM users WHERE external_id = ?`, a).Scan(&nickname).Error; err != nil {
				c.t.Fatal(err)
			}
			ranking, _ := c.call(p, b, "GET", friendRanking, "")
			return !are || strings.Contains(ranking, fmt.Sprintf(`"user_id":%q,"nickname":%q`, a, nickname))
		})
	}
}
