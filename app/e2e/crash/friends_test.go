package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
)

// A Redis that is restarted from an earlier state has a friend set from before
// a change. The service drops the set as soon as it notices the restart.
func TestAStaleFriendListAfterARestart(t *testing.T) {
	t.Parallel()
	env, server, rdb := withRedis(t)
	testenv.NumberUsers(t, env, 2)
	p := testenv.Serve(t, env.Config)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "sets")
	// call repeats a call that is answered with 503, as clients do: on a busy machine it may be.
	call := func(user models.UserID, method, path, body string, want int) (text string) {
		t.Helper()
		testenv.Eventually(t, method+" "+path+" is answered", func() bool {
			status, answer, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, user, ""), method, p.URL+path, body)
			if err != nil || status != want && status != http.StatusServiceUnavailable {
				t.Fatalf("%d %v %s", status, err, answer)
			}
			text = answer
			return status == want
		})
		return text
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	f := friends.New(friends.NewStore(env.Gorm, nil), cache.NewStore(rdb, env.Keys, 0, nil), testenv.Numbers{DB: env.Gorm}, friends.Limits{}, env.Log)
	if err := f.Replace(t.Context(), "1", testenv.IDs(2)); err != nil {
		t.Fatal(err)
	}
	call("2", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":5}`, harness.Today()), http.StatusOK)
	listed := func() bool {
		t.Helper()
		return strings.Contains(call("1", "GET", "/v1/boards/steps/friends", "", http.StatusOK), `"user_id":"2"`)
	}
	if !listed() {
		t.Fatal("the friend is not listed")
	}
	old := rdb.Dump(t.Context(), env.Keys.Set(keys.Friends, 1)).Val()
	if call("1", "DELETE", "/v1/friends/2", "", http.StatusNoContent); listed() {
		t.Fatal("who is no friend any more is listed")
	}
	if err := rdb.RestoreReplace(t.Context(), env.Keys.Set(keys.Friends, 1), time.Hour, old).Err(); err != nil {
		t.Fatal(err)
	}
	if !listed() {
		t.Fatal("the list in Redis is not read")
	}
	server.Kill()
	server.Start()
	testenv.Eventually(t, "the old list is dropped", func() bool { return !listed() })
}
