package walk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// atOnceRounds is how many calls of each kind follow each other.
const atOnceRounds = 30

// All kinds of calls come at the same time to a service with a near cache, jobs and streams, and
// to one with local stores.
// None fails otherwise than its kind may, and what was acknowledged is shown in the end. The
// race detector sees all of the service's goroutines at work.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for name, newService := range map[string]func(*testing.T) *service{"servers": newService, "local": newLocalService} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everythingAtOnce(t, newService(t))
		})
	}
}

func everythingAtOnce(t *testing.T, s *service) {
	s.must("backend", auth.ScopeService, "PUT", "/v1/users/u1/friends", `{"friend_ids":["u2","u3","u4","u5","u6"]}`)
	s.must("u1", "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":100}`, harness.NoonDay))
	s.must("backend", auth.ScopeService, "PUT", "/v1/groups/team/members", `{"member_ids":["u1","u2","u3","u4"]}`)
	date := harness.NoonDay.String()
	var running sync.WaitGroup
	repeat := func(kind func(i int)) {
		running.Go(func() {
			for i := range atOnceRounds {
				kind(i)
			}
		})
	}
	for n := 1; n <= 6; n++ {
		user := models.UserID(fmt.Sprintf("u%d", n))
		repeat(func(i int) {
			s.must(user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, date, 100*n+i))
		})
	}
	repeat(func(i int) {
		s.must("backend", auth.ScopeService, "POST", "/v1/boards/gifts/increments",
			fmt.Sprintf(`{"increments":[{"user_id":"u1","delta":2,"event_id":"a%d"},{"user_id":"u2","delta":3,"event_id":"b%d"}]}`, i, i))
	})
	repeat(func(i int) {
		s.must("backend", auth.ScopeService, "POST", "/v1/boards/steps/scores/batch",
			fmt.Sprintf(`{"scores":[{"user_id":"other%d","date":%q,"score":7}]}`, i, date))
	})
	for _, path := range []string{
		"/v1/boards/steps/friends?include=likes", "/v1/boards/steps/groups/team", "/v1/boards/steps/friends/absent",
		"/v1/boards/steps/groups/team/absent", "/v1/boards/steps/top", "/v1/boards/steps/around",
		"/v1/boards/steps/me", "/v1/boards/steps/history", "/v1/boards/steps/summary", "/v1/boards/gifts/top", "/v1/boards/day/friends", "/v1/me/export",
		"/v1/boards/steps/friends?from=2026-11-18&to=" + date, "/v1/boards", "/v1/friends", "/v1/groups", "/metrics", "/readyz",
	} {
		repeat(func(int) { s.must("u1", "", "GET", path, "") })
	}
	repeat(func(i int) { s.must("u2", "", "PUT", "/v1/me/privacy", fmt.Sprintf(`{"hidden":%v}`, i%2 == 0)) })
	repeat(func(i int) { s.must("u3", "", []string{"PUT", "DELETE"}[i%2], "/v1/muted/u4", "") })
	repeat(func(i int) { s.must("u4", "", "PUT", "/v1/me", fmt.Sprintf(`{"nickname":"n%d"}`, i)) })
	repeat(func(i int) {
		s.must("u5", "", []string{"PUT", "DELETE"}[i%2], "/v1/boards/steps/likes/u1?date="+date, "")
	})
	repeat(func(i int) {
		from, to := models.UserID(fmt.Sprintf("from%d", i)), models.UserID(fmt.Sprintf("to%d", i))
		for _, user := range []models.UserID{from, to} {
			s.must(user, "", "PUT", "/v1/me", `{"nickname":"x"}`)
		}
		s.must(from, "", "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, to))
		s.must(to, "", "POST", fmt.Sprintf("/v1/friends/requests/%s/accept", from), "")
		s.must(to, "", "DELETE", fmt.Sprintf("/v1/friends/%s", from), "")
		s.must(from, "", "DELETE", "/v1/me", `{"confirm":"erase"}`)
	})
	repeat(func(int) {
		text := s.must("op", auth.ScopeAdmin, "POST", "/v1/admin/corrections",
			fmt.Sprintf(`{"board":"steps","date":%q,"user_id":"u6","kind":"exclude","reason":"test"}`, date))
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Error(err)
		}
		s.must("op", auth.ScopeAdmin, "POST", fmt.Sprintf("/v1/admin/corrections/%s/lift", made.ID), `{"reason":"test"}`)
	})
	repeat(func(int) { s.must("op", auth.ScopeAdmin, "GET", "/v1/admin/status", "") })
	repeat(func(int) { s.firstEvent("u1", "/v1/boards/steps/friends/stream") })
	testenv.Wait(t, "all that runs ends", &running)

	s.must("u2", "", "PUT", "/v1/me/privacy", `{"hidden":false}`)
	want := "u6 629 u5 529 u4 429 u3 329 u2 229 u1 129"
	testenv.Eventually(t, "the ranking has every acknowledged total", func() bool {
		return s.shown("u1", "/v1/boards/steps/friends") == want
	})
	if got := s.shown("u1", "/v1/boards/gifts/top"); got != "u2 90 u1 60" {
		t.Errorf("the event has %s", got)
	}
}

// service is the service in the process of the test.
type service struct {
	t      *testing.T
	url    string
	client *http.Client
}

func newService(t *testing.T) *service {
	t.Helper()
	env := testenv.Real(t)
	env.Config.Boards[0].ChangeStream, env.Config.Rankings.MaxStaleness = true, 500*time.Millisecond
	return serve(t, env)
}

func newLocalService(t *testing.T) *service {
	t.Helper()
	return serve(t, testenv.Local(t))
}

// serve starts the service on the stores.
func serve(t *testing.T, env *testenv.Env) *service {
	t.Helper()
	env.Config.Boards = append(env.Config.Boards,
		config.Board{
			Name: "gifts", Kind: "event", TimeZone: "UTC", MaxScore: 1_000_000, Shards: 2, Global: "users",
			Start: testenv.Noon.Add(-time.Hour), End: testenv.Noon.Add(time.Hour),
		},
		config.Board{Name: "day", Kind: "rolling", TimeZone: "UTC", MaxScore: 1_000_000, Shards: 1, Window: 24, Global: "users"})
	a, err := app.Build(t.Context(), app.Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log, Roles: app.AllRoles(),
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)}),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Start(context.Background())
	server := httptest.NewServer(a.Handler)
	s := &service{t: t, url: server.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		server.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// must makes a call, which must be answered with a status below 300, and returns the answer. A
// call that is refused because a store was too slow is made again.
func (s *service) must(user models.UserID, scope, method, path, body string) string {
	s.t.Helper()
	var status int
	var text string
	var err error
	testenv.Eventually(s.t, method+" "+path+" is not refused", func() bool {
		status, text, err = harness.Request(s.t.Context(), s.client, harness.Token(s.t, user, scope), method, s.url+path, body)
		return status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests // others of the user are running
	})
	if err != nil || status >= http.StatusMultipleChoices {
		s.t.Errorf("%s %s: %d, %v, %s", method, path, status, err, text)
	}
	return text
}

// shown returns the users of a ranking with their scores.
func (s *service) shown(user models.UserID, path string) string {
	s.t.Helper()
	var r models.Ranking
	if err := json.Unmarshal([]byte(s.must(user, "", "GET", path, "")), &r); err != nil {
		s.t.Fatal(err)
	}
	var texts []string
	for _, e := range r.Entries {
		texts = append(texts, fmt.Sprint(e.User, " ", e.Score))
	}
	return strings.Join(texts, " ")
}

// firstEvent opens a stream and closes it after its first bytes.
func (s *service) firstEvent(user models.UserID, path string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+harness.Token(s.t, user, ""))
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Error(err)
		return
	}
	if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil || answer.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %d, %v", path, answer.StatusCode, err)
	}
	if err := answer.Body.Close(); err != nil {
		s.t.Error(err)
	}
}
