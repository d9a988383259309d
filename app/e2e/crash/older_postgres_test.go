package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// An older backup of Postgres is restored under a Redis that has seen newer users and scores.
// serve refuses to start. After rebuild, boards show what Postgres has, users who came later
// have nothing of those whom it lacks, and increments that are sent again count.
func TestAnOlderPostgresUnderANewerRedis(t *testing.T) {
	t.Parallel()
	env, server := withPostgres(t)
	boards := giftBoards(2)
	r := &restored{t: t, env: env, boards: boards}
	r.serve()
	r.give("before", "ann", "ben")
	r.befriend("ann", "ben")
	r.stop()
	server.Crash()
	server.Backup()
	server.Start()
	r.serve()
	r.give("after", "ann", "cho", "dan")
	r.befriend("ann", "cho", "dan")
	r.check("ann", map[models.UserID]int64{"ann": 20, "ben": 10, "cho": 10, "dan": 10}, "cho dan")
	st := openStores(t, env.Config)
	testenv.Eventually(t, "Redis has seen all users", func() bool {
		var highest string // there are gaps, as a crash of Postgres skips ids
		err := st.Pool.QueryRow(t.Context(), `SELECT max(user_id)::text FROM users`).Scan(&highest)
		return err == nil && st.Redis.HGet(t.Context(), env.Keys.UserCounters(), "row").Val() == highest
	})
	r.stop()

	server.Crash()
	server.Restore()
	server.Start()
	args := append(append([]string{"serve"}, testenv.Flags(env.Config)...), boards)
	if _, stderr, status := testenv.Run(t, args...); status != 1 || !strings.Contains(stderr, "run `stepboard rebuild`") {
		t.Fatalf("serve: %d %s", status, stderr)
	}
	args[0] = "rebuild"
	if stdout, stderr, status := testenv.Run(t, args...); status != 0 || !strings.Contains(stdout, "left out") {
		t.Fatalf("rebuild: %d %s %s", status, stdout, stderr)
	}
	r.serve()
	r.check("ann", map[models.UserID]int64{"ann": 10, "ben": 10}, "ben")
	r.give("later", "eve", "fay")
	r.befriend("eve", "fay")
	r.check("eve", map[models.UserID]int64{"ann": 10, "ben": 10, "eve": 10, "fay": 10}, "fay")
	r.give("after", "ann", "cho", "dan")
	r.give("before", "ann", "ben")
	r.befriend("ann", "cho")
	r.check("ann", map[models.UserID]int64{"ann": 20, "ben": 10, "cho": 10, "dan": 10, "eve": 10, "fay": 10}, "cho")
	r.stop()
}

// restored is a process on stores of which one is restored.
type restored struct {
	t      testing.TB
	env    *testenv.Env
	boards string
	p      *testenv.Process
}

func (r *restored) serve() {
	r.t.Helper()
	r.p = testenv.Serve(r.t, r.env.Config, r.boards)
}

func (r *restored) stop() {
	r.t.Helper()
	r.p.Stop()
}

// call makes a call as a user, or as a backend.
func (r *restored) call(user models.UserID, scope, method, path, body string) string {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	status, text, err := harness.Request(r.t.Context(), client, harness.Token(r.t, user, scope), method, r.p.URL+path, body)
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s, %v", method, path, status, text, err)
	}
	return text
}

// give counts an increment of 10 for each user. Sent again under the same name, it counts
// only if it was forgotten.
func (r *restored) give(name string, users ...models.UserID) {
	r.t.Helper()
	for _, user := range users {
		body := fmt.Sprintf(`{"user_id":%q,"delta":10,"event_id":"%s-%s"}`, user, name, user)
		r.call("1", auth.ScopeService, "POST", "/v1/boards/gifts/increments", body)
	}
}

// befriend replaces the friends of a user.
func (r *restored) befriend(user models.UserID, friends ...models.UserID) {
	r.t.Helper()
	body := testenv.Must(json.Marshal(map[string]any{"friend_ids": friends}))
	r.call("1", auth.ScopeService, "PUT", "/v1/users/"+string(user)+"/friends", string(body))
}

// check compares the whole board, and the ranking of a user's friends, with what they must
// be.
func (r *restored) check(user models.UserID, board map[models.UserID]int64, friends string) {
	r.t.Helper()
	read := func(list string) map[models.UserID]int64 {
		var ranking struct {
			Entries []struct {
				UserID models.UserID `json:"user_id"`
				Score  int64
			}
		}
		if err := json.Unmarshal([]byte(r.call(user, "", "GET", "/v1/boards/gifts/"+list, "")), &ranking); err != nil {
			r.t.Fatal(err)
		}
		scores := make(map[models.UserID]int64)
		for _, e := range ranking.Entries {
			scores[e.UserID] = e.Score
		}
		return scores
	}
	if diff := cmp.Diff(board, read("top")); diff != "" {
		r.t.Errorf("the board (-want +got):\n%s", diff)
	}
	circle := map[models.UserID]int64{user: board[user]}
	for _, friend := range strings.Fields(friends) {
		circle[models.UserID(friend)] = board[models.UserID(friend)]
	}
	if diff := cmp.Diff(circle, read("friends")); diff != "" {
		r.t.Errorf("the friends of %s (-want +got):\n%s", user, diff)
	}
}
