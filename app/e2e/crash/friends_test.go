package crash_test

import (
	"fmt"
	"net/http"
	"slices"
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

// A process is killed after it has committed a change of the friend graph and
// before it has deleted the friend set in Redis. Nobody reads the old set, and
// no set is stored, while the dead process's mark exists. The mark expires
// within a minute.
func TestAWriterKilledBetweenCommitAndCleanUp(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	testenv.NumberUsers(t, env, 3)
	link := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	dying := env.Config
	dying.Redis.Addrs = []string{link.Addr()}
	writer := testenv.Serve(t, dying)
	reader := friends.New(friends.NewStore(env.Gorm, nil), cache.NewStore(env.Redis, env.Keys, 0, nil), testenv.Numbers{DB: env.Gorm}, friends.Limits{}, env.Log)

	ctx := t.Context()
	if err := reader.Replace(ctx, "1", testenv.IDs(2, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.IDs(ctx, 1); err != nil { // the old list is in Redis
		t.Fatal(err)
	}
	// Its mark arrives, but nothing after the mark.
	link.HoldAfter("friends-changing:")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	done := make(chan struct{})
	bearer := harness.Token(t, "1", "")
	go func() {
		defer close(done)
		if status, text, err := harness.Request(ctx, client, bearer, http.MethodDelete, writer.URL+"/v1/friends/2", ""); err == nil {
			t.Errorf("the dying writer answered %d: %s", status, text)
		}
	}()
	testenv.Eventually(t, "the change is committed", func() bool {
		var n int64
		if err := env.Gorm.Model(&models.Friendship{}).Where("user_id = 1").Count(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	writer.Kill()
	link.Cut()
	testenv.Receive(t, "the call of the dying writer ends", done)

	mark := env.Keys.SetChanging(keys.Friends, 1)
	ttl := env.Redis.PTTL(ctx, mark).Val()
	if ttl <= 0 || ttl > time.Minute {
		t.Fatalf("the dead process's mark expires in %v: its clean-up was not cut off", ttl)
	}
	for range 3 {
		ids, err := reader.IDs(ctx, 1)
		if err != nil || !slices.Equal(ids, []models.RowID{3}) {
			t.Errorf("friends %v, %v, want 3 alone", ids, err)
		}
	}
	if n := env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, 1)).Val(); n != 0 {
		t.Error("a set was stored while the mark exists")
	}
	if err := env.Redis.PExpire(ctx, mark, time.Millisecond).Err(); err != nil { // as if the minute were over
		t.Fatal(err)
	}
	testenv.Eventually(t, "the list is stored again", func() bool {
		ids, err := reader.IDs(ctx, 1)
		if err != nil || !slices.Equal(ids, []models.RowID{3}) {
			t.Fatalf("friends %v, %v, want 3 alone", ids, err)
		}
		return env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, 1)).Val() == 1
	})
}

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
