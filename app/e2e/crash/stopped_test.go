package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// A replica is stopped within a transaction that has increased totals. The other
// one counts the increments of all other users meanwhile, and those of the users
// in the transaction as soon as Postgres has ended it.
func TestAStoppedReplicaHoldsUpOnlyItsUsers(t *testing.T) {
	t.Parallel()
	const users, calls = 20, 20
	env := harness.Real(t)
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	behind := env.Config
	behind.Postgres.DSN = testenv.WithAddress(behind.Postgres.DSN, link.Addr())
	boards := giftBoards(2)
	stopped, living := testenv.Serve(t, behind, boards), testenv.Serve(t, env.Config, boards)
	bearer := harness.Token(t, "1", auth.ScopeService)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	give := func(p *testenv.Process, user int, id string) (status int, text string, err error) {
		return harness.Request(t.Context(), client, bearer, "POST", p.URL+"/v1/boards/gifts/increments", harness.IncrementJSON(user, 1, id))
	}
	want := make(map[models.UserID]int64)
	for user := 1; user <= users; user++ {
		want[testenv.ID(user)] = calls + 1
		if status, text, err := give(stopped, user, fmt.Sprint("before-", user)); status != 200 || err != nil {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	want["1"] = 2
	link.HoldAt(0, "stopped-1", "stopped-1") // the first is in the lookup of ids, the second in the step that commits
	var lost, others, own sync.WaitGroup
	lost.Go(func() {
		if status, text, err := give(stopped, 1, "stopped-1"); err == nil && status != 503 {
			t.Errorf("a replica that was stopped answered %d %s", status, text)
		}
	})
	testenv.Eventually(t, "the transaction is held", func() bool { return link.Holding() })
	stopped.Signal(syscall.SIGSTOP)
	own.Go(func() {
		testenv.Eventually(t, "the increment is answered", func() bool {
			status, text, err := give(living, 1, "stopped-1")
			if status == 503 && err == nil {
				return false
			}
			if status != 200 || err != nil || !strings.Contains(text, `"applied"`) {
				t.Errorf("%d %s %v", status, text, err)
			}
			return true
		})
	})
	for user := 2; user <= users; user++ {
		others.Go(func() {
			for n := range calls {
				if status, text, err := give(living, user, fmt.Sprintf("%d-%d", user, n)); status != 200 || err != nil {
					t.Errorf("user %d: %d %s %v", user, status, text, err)
					return
				}
			}
		})
	}
	testenv.Wait(t, "the others' calls end", &others)
	testenv.Wait(t, "the own calls end", &own)
	link.Cut()
	stopped.Signal(syscall.SIGCONT)
	testenv.Wait(t, "the lost call ends", &lost)
	if diff := cmp.Diff(want, sums(t, env.Stores, `SELECT external_id, score FROM score_totals JOIN users USING (user_id) WHERE board = 'gifts'`)); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, sums(t, env.Stores, `SELECT external_id, sum(delta)::bigint FROM score_events JOIN users USING (user_id) WHERE board = 'gifts' GROUP BY 1`)); diff != "" {
		t.Errorf("increments (-want +got):\n%s", diff)
	}
}

// A process stands still while a user is erased, and while somebody new comes under the same
// user id. When it goes on, it neither shows the old scores nor accepts anything for the old
// row id: not even for calls that have waited for it.
func TestAStoppedProcessHearsOfAnErasureLate(t *testing.T) {
	t.Parallel()
	env, day := harness.Real(t), harness.Today()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	living, stopped := testenv.Serve(t, env.Config), testenv.Serve(t, env.Config, "--only", "api")
	must := func(p *testenv.Process, user models.UserID, method, path, body string) string {
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, user, ""), method, p.URL+path, body)
		if err != nil || status >= 300 {
			t.Errorf("%s %s: %d %s, %v", method, path, status, text, err)
		}
		return text
	}
	const scores = "/v1/boards/steps/scores"
	upload := func(p *testenv.Process, user models.UserID, points int) {
		must(p, user, "POST", scores, fmt.Sprintf(`{"date":%q,"score":%d}`, day, points))
	}
	for user, points := range map[models.UserID]int{"ann": 4000, "zed": 5000} {
		upload(stopped, user, points)
	}
	must(living, "zed", "POST", "/v1/friends/requests", `{"user_id":"ann"}`)
	must(living, "ann", "POST", "/v1/friends/requests/zed/accept", "")
	if text := must(stopped, "ann", "GET", friendRanking, ""); !strings.Contains(text, `"score":5000`) {
		t.Fatalf("before the erasure the friend is not shown: %s", text)
	}
	old := harness.Rows(t, env.Gorm, []models.UserID{"zed"})[0]

	stopped.Signal(syscall.SIGSTOP)
	since := time.Now()
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if text := must(stopped, "ann", "GET", friendRanking, ""); strings.Contains(text, "5000") {
				t.Errorf("a process that goes on shows the erased user: %s", text)
			}
		})
		waiting.Go(func() { upload(stopped, "zed", 7000) })
	}
	must(living, "zed", "DELETE", "/v1/me", `{"confirm":"erase"}`)
	must(living, "zed", "PUT", "/v1/me", `{"nickname":"Zoe"}`)
	testenv.Eventually(t, "the erased user has no score left", func() bool {
		return len(entriesOf(t, env.Redis, env.Keys, old)) == 0
	})
	// Less is not noticed: any process may hear of an erasure as late.
	testenv.Eventually(t, "the process has been stopped for longer than a few seconds", func() bool {
		return time.Since(since) > 7*time.Second
	})
	stopped.Signal(syscall.SIGCONT)
	testenv.Wait(t, "the calls that wait end", &waiting)
	if left := entriesOf(t, env.Redis, env.Keys, old); len(left) > 0 {
		t.Errorf("the process has written for the old row id: %v", left)
	}
	for _, p := range []*testenv.Process{stopped, living} {
		if text := must(p, "zed", "GET", "/v1/boards/steps/me", ""); !strings.Contains(text, `"score":7000`) {
			t.Errorf("the new user has another score: %s", text)
		}
	}
}
