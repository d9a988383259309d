package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// hotDays is how many days after its own a day stays in Redis.
const hotDays = 3

// history is the answer of the call.
type history struct {
	Entries []historyEntry `json:"entries"`
	Partial bool           `json:"partial"`
}

// dates returns the days of a history with their sources.
func (h history) dates() []string {
	dates := []string{}
	for _, e := range h.Entries {
		dates = append(dates, e.Date+" "+string(e.Source))
	}
	return dates
}

// sources returns what dates returns for the days from to down to from, leaving
// out some. Days after archived are hot.
func sources(from, to, archived models.Date, without ...models.Date) []string {
	dates := []string{}
	for day := to; day >= from; day-- {
		source := models.SourceArchive
		if day > archived {
			source = models.SourceHot
		}
		if !slices.Contains(without, day) {
			dates = append(dates, day.String()+" "+string(source))
		}
	}
	return dates
}

// newHistory returns a server with 40 days of users 1 and 2, who are friends.
// User 1 has no score on two of these days, which it returns. User 3 is
// nobody's friend.
func newHistory(t testing.TB, env *testenv.Env) (s *server, without []models.Date) {
	t.Helper()
	s = newServer(t, env)
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2"]}`), 200, nil)
	s.want(s.service("PUT", "/v1/users/3", `{"nickname":"Cho"}`), 200, nil)
	without = []models.Date{harness.NoonDay - 20, harness.NoonDay - 2}
	for day := harness.NoonDay - 39; day <= harness.NoonDay; day++ {
		scores := map[models.UserID]int{"1": 1000 + int(day-harness.NoonDay), "2": 2000}
		if slices.Contains(without, day) {
			delete(scores, "1")
		}
		s.uploadDay(day, scores)
	}
	s.archiveDue()
	return s, without
}

func TestHistoryOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testHistoryOverHTTP)
}

func testHistoryOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	s, without := newHistory(t, env)
	cold := harness.NoonDay - hotDays - 1 // the last archived day
	const path = "/v1/boards/steps/history"
	for _, tt := range []struct {
		name, query string
		want        []string
	}{
		{"the last 31 days", "", sources(harness.NoonDay-30, harness.NoonDay, cold, without...)},
		{"with empty parameters", "?from=&to=&for=", sources(harness.NoonDay-30, harness.NoonDay, cold, without...)},
		{"all days", "?from=2026-10-01&to=2026-11-20", sources(harness.NoonDay-39, harness.NoonDay, cold, without...)},
		{"from a day on", "?from=2026-11-15", sources(harness.NoonDay-5, harness.NoonDay, cold, without...)},
		{"up to a day", "?to=2026-11-15", sources(harness.NoonDay-35, harness.NoonDay-5, cold, without...)},
		{"one archived day", "?from=2026-11-10&to=2026-11-10", sources(harness.NoonDay-10, harness.NoonDay-10, cold)},
		{"one hot day", "?from=2026-11-17&to=2026-11-17", sources(harness.NoonDay-3, harness.NoonDay-3, cold)},
		{"a day without a score", "?from=2026-11-18&to=2026-11-18", []string{}},
		{"before anything", "?from=2020-01-01&to=2020-12-31", []string{}},
		{"days to come", "?from=2026-11-19&to=2026-12-31", sources(harness.NoonDay-1, harness.NoonDay, cold)},
		{"366 days", "?from=2025-11-20&to=2026-11-20", sources(harness.NoonDay-39, harness.NoonDay, cold, without...)},
		{"oneself", "?for=1", sources(harness.NoonDay-30, harness.NoonDay, cold, without...)},
		{"a friend", "?for=2", sources(harness.NoonDay-30, harness.NoonDay, cold)},
	} {
		var h history
		a := s.as("1", "GET", path+tt.query, nil)
		s.want(a, http.StatusOK, &h)
		if diff := cmp.Diff(tt.want, h.dates()); diff != "" || h.Partial {
			t.Errorf("%s: partial %v, -want +got:\n%s", tt.name, h.Partial, diff)
		}
		if len(tt.want) == 0 && !strings.Contains(string(a.body), `"entries":[]`) {
			t.Errorf("%s: %s", tt.name, a.body)
		}
	}
	var got map[string]any
	s.want(s.as("1", "GET", path+"?from=2026-11-16&to=2026-11-17", nil), http.StatusOK, &got)
	if !equalJSON(t, got, map[string]any{"partial": false, "entries": []any{
		map[string]any{
			"date": "2026-11-17", "score": 997, "reached_at": "2026-11-17T13:00:00.000Z", "global_rank": 2, "global_total": 2, "source": "hot",
		},
		map[string]any{
			"date": "2026-11-16", "score": 996, "reached_at": "2026-11-16T13:00:00.000Z", "global_rank": 2, "global_total": 2, "source": "archive",
		},
	}}) {
		t.Errorf("got %v", got)
	}
	s.refuse(s.service("GET", path+"?user_id=3&for=1", nil), 404, models.CodeNotFound)
	for _, query := range []string{"from=2026-11-20&to=2026-11-19", "from=2026-11-21", "from=2025-11-19&to=2026-11-20", "from=0001-01-01"} {
		a := s.as("1", "GET", path+"?"+query, nil)
		s.refuse(a, 422, models.CodeValidationFailed)
		if !strings.Contains(string(a.body), `"location":"query.from"`) {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	// A range without data is not an error, however long ago.
	for _, query := range []string{"to=0001-01-15", "from=0000-01-01&to=0000-02-01", "to=1970-01-01"} {
		var h history
		s.want(s.as("1", "GET", path+"?"+query, nil), http.StatusOK, &h)
		if len(h.Entries) != 0 || h.Entries == nil || h.Partial {
			t.Errorf("%s: %+v", query, h)
		}
	}
	// For somebody who is no friend the answer is 404, whether or not the user
	// exists.
	for _, stranger := range []string{"3", "4", "01", "auth0%7C5f7c"} {
		s.refuse(s.as("1", "GET", path+"?for="+stranger, nil), 404, models.CodeNotFound)
	}
	s.want(s.as("2", "DELETE", "/v1/friends/1", nil), http.StatusNoContent, nil)
	s.refuse(s.as("1", "GET", path+"?for=2", nil), 404, models.CodeNotFound)
	var own history
	s.want(s.as("1", "GET", "/v1/boards/private/history", nil), http.StatusOK, &own)
	if len(own.Entries) != 0 {
		t.Errorf("another board shows %+v", own)
	}
}

// checkWithoutRedis checks that calls for archived days go on while Redis is
// away, and that others are refused.
func checkWithoutRedis(s *server) {
	s.t.Helper()
	cold := harness.NoonDay - hotDays - 1
	var h history
	for query, want := range map[string][]string{
		"":       sources(harness.NoonDay-30, cold, cold, harness.NoonDay-20),
		"?for=2": sources(harness.NoonDay-30, cold, cold),
	} {
		s.want(s.as("1", "GET", "/v1/boards/steps/history"+query, nil), http.StatusOK, &h)
		if diff := cmp.Diff(want, h.dates()); diff != "" || !h.Partial {
			s.t.Errorf("%q: partial %v, -want +got:\n%s", query, h.Partial, diff)
		}
	}
	s.want(s.as("1", "GET", "/v1/boards/steps/history?to="+cold.String(), nil), http.StatusOK, &h)
	if h.Partial || len(h.Entries) != 30 {
		s.t.Errorf("of archived days alone %d are there, partial %v", len(h.Entries), h.Partial)
	}
	for _, call := range []string{"friends", "top", "around"} {
		var r models.Ranking
		s.want(s.as("1", "GET", "/v1/boards/steps/"+call+"?date="+cold.String(), nil), http.StatusOK, &r)
		if r.Source != models.SourceArchive || r.Total != 2 || len(r.Entries) != 2 || r.Me == nil || r.Me.Rank != 2 {
			s.t.Errorf("%s of an archived day: %+v", call, r)
		}
		s.refuse(s.as("1", "GET", "/v1/boards/steps/"+call, nil), 503, models.CodeUnavailable)
	}
	s.want(s.as("1", "GET", "/v1/boards/steps/me?date="+cold.String(), nil), http.StatusOK, nil)
	s.refuse(s.as("1", "GET", "/v1/boards/steps/me", nil), 503, models.CodeUnavailable)
	// Listing runs needs no Redis. Starting one does, as it looks for late scores.
	s.want(s.admin("GET", "/v1/admin/archives", nil), http.StatusOK, nil)
	s.refuse(s.admin("POST", "/v1/admin/archives", fmt.Sprintf(`{"board":"steps","bucket":%q}`, cold)), 503, models.CodeUnavailable)
}

// The same holds for the program, with a Redis that is killed and started
// again.
func TestArchivedDaysWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	env := harness.RealWithSecret(t)
	rdb := testenv.StartRedis(t)
	cfg := env.Config
	cfg.Redis.Addrs = []string{rdb.Addr()}
	cfg.Clock.Offset = time.Until(testenv.Noon)
	var csv strings.Builder
	csv.WriteString("user_id,date,steps\n")
	for day := harness.NoonDay - 39; day <= harness.NoonDay; day++ {
		if day != harness.NoonDay-20 {
			fmt.Fprintf(&csv, "1,%v,1000\n", day)
		}
		fmt.Fprintf(&csv, "2,%v,2000\n", day)
	}
	for what, text := range map[string]string{"steps": csv.String(), "friends": "1 2\n"} {
		mustRun(t, append([]string{"import", what, file(t, text)}, testenv.Flags(cfg)...)...)
	}
	p := testenv.Serve(t, cfg)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := &server{t: t, env: env, url: p.URL}
	whole := func() bool {
		var h history
		a := s.as("1", "GET", "/v1/boards/steps/history", nil)
		s.want(a, http.StatusOK, &h)
		if !h.Partial && len(h.Entries) != 30 {
			t.Errorf("the whole history is %s", a.body)
		}
		return !h.Partial
	}
	if !whole() {
		t.Error("with Redis, days are missing")
	}
	rdb.Kill()
	checkWithoutRedis(s)
	rdb.Start()
	testenv.Eventually(t, "the hot days are back", whole)
	p.Stop()
}

// historyEntry is a day of a history.
type historyEntry struct {
	Date        string
	Score       int
	ReachedAt   models.Timestamp `json:"reached_at"`
	GlobalRank  int              `json:"global_rank"`
	GlobalTotal int              `json:"global_total"`
	Source      models.Source
}
