package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// While Postgres is away, users whom the process or Redis knows upload, and read
// rankings with names. Calls that need others are refused.
func TestNamesWithoutPostgres(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	cut := env.Config
	cut.Postgres.DSN = testenv.WithAddress(cut.Postgres.DSN, link.Addr())
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	near := &server{t: t, env: env, url: testenv.Serve(t, env.Config).URL}
	far := &server{t: t, env: env, url: testenv.Serve(t, cut).URL}

	const score = `{"date":"today","score":5}`
	upload := func(s *server, user models.UserID) answer {
		return s.as(user, "POST", "/v1/boards/steps/scores", strings.Replace(score, "today", harness.Today(), 1))
	}
	for _, user := range []models.UserID{"ann|1", "ben/2"} {
		near.want(near.as(user, "PUT", "/v1/me", map[string]string{"nickname": "Name of " + string(user)}), http.StatusOK, nil)
		near.want(upload(near, user), http.StatusOK, nil)
	}
	near.want(near.service("PUT", "/v1/users/ann%7C1/friends", `{"friend_ids":["ben/2"]}`), http.StatusOK, nil)
	near.want(near.as("ann|1", "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil) // Redis has the set of friends
	// The other process knows the day and one user, whom Redis has forgotten.
	far.want(far.as("zed", "PUT", "/v1/me", `{"nickname":"Name of zed"}`), http.StatusOK, nil)
	far.want(upload(far, "zed"), http.StatusOK, nil)
	zed := harness.Rows(t, env.Gorm, []models.UserID{"zed"})[0]
	far.want(far.as("zed", "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil)
	for _, user := range []models.UserID{"ann|1", "zed"} { // Redis has the sets of those who are not shown
		near.want(near.as(user, "GET", "/v1/boards/steps/top", nil), http.StatusOK, nil)
	}
	if n, err := env.Redis.Del(t.Context(), env.Keys.UserRow("zed"), env.Keys.User(zed)).Result(); n != 2 || err != nil {
		t.Fatalf("Redis had %d of 2 keys: %v", n, err)
	}

	link.Cut()
	for range 2 {
		for _, user := range []models.UserID{"ann|1", "ben/2", "zed"} {
			far.want(upload(far, user), http.StatusOK, nil)
		}
		for call, want := range map[string][]string{
			"ann|1 friends": {"ann|1", "ben/2"}, "ann|1 top": {"ann|1", "ben/2", "zed"}, "zed friends": {"zed"}, "zed around": {"ann|1", "ben/2", "zed"},
		} {
			user, path, _ := strings.Cut(call, " ")
			var r models.Ranking
			far.want(far.as(models.UserID(user), "GET", "/v1/boards/steps/"+path, nil), http.StatusOK, &r)
			names := make(map[models.UserID]string)
			for _, e := range r.Entries {
				names[e.User] = e.Nickname
			}
			for _, id := range want {
				if names[models.UserID(id)] != "Name of "+id || len(names) != len(want) {
					t.Errorf("%s: %v, want %v", call, names, want)
				}
			}
		}
	}
	for _, a := range []answer{
		upload(far, "new"), far.as("new", "GET", "/v1/boards/steps/friends", nil), far.as("new", "GET", "/v1/me", nil),
		far.as("ann|1", "PUT", "/v1/me", `{"nickname":"Ann"}`),
		far.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[{"user_id":"new","date":"`+harness.Today()+`","score":5}]}`),
	} {
		far.refuse(a, http.StatusServiceUnavailable, models.CodeUnavailable)
	}
	link.Start()
	testenv.Eventually(t, "new users upload again", func() bool { return upload(far, "new").status == http.StatusOK })
}
