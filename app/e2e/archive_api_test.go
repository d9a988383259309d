package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/lease"
)

// waitForStartJobs waits until the job that runs at the start is over, so that it does
// not archive what a test is about to.
func (s *server) waitForStartJobs() {
	s.t.Helper()
	testenv.Eventually(s.t, "the archive was looked after", func() bool {
		text := string(s.call("", "GET", "/metrics", nil).body)
		return strings.Contains(text, `stepboard_job_duration_seconds_count{job="archive"} 1`)
	})
}

// admin calls as an administrator.
func (s *server) admin(method, path string, body any) answer {
	s.t.Helper()
	return s.call(token(s.t, 1, auth.ScopeAdmin), method, path, body)
}

// live sets the clock to the evening of a day and uploads scores for it.
func (s *server) live(day models.Date, scores map[models.UserID]int) {
	s.t.Helper()
	s.env.Clock.Set(day.UTC().Add(13 * time.Hour))
	for user, score := range scores {
		s.want(s.as(user, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, day, score)), http.StatusOK, nil)
	}
}

// archiveDue moves what is due, as the job does.
func (s *server) archiveDue() {
	s.t.Helper()
	due, err := s.app.Archive.Due(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range due {
		if _, err := s.app.Archive.Archive(s.t.Context(), b, func(int64) {}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// history is what the call answers.
type history struct {
	Entries []place `json:"entries"`
	Partial bool    `json:"partial"`
}

// dates lists the days of a history, each with its source.
func (h history) dates() []string {
	dates := []string{}
	for _, e := range h.Entries {
		dates = append(dates, e.Date+" "+string(e.Source))
	}
	return dates
}

// noonDay is the day of testenv.Noon.
var noonDay = testenv.Must(models.ParseDate("2026-11-20"))

// sources lists days downward, from one to the other, as dates does: those
// after the given one are hot. without leaves days out.
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

// newHistory is a server with 40 days of users 1 and 2, who are friends; user 1
// did not walk on two of them. User 3 is a stranger.
func newHistory(t testing.TB, env *testenv.Env) (s *server, without []models.Date) {
	t.Helper()
	s = newServer(t, env)
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2"]}`), 200, nil)
	s.want(s.service("PUT", "/v1/users/3", `{"nickname":"Cho"}`), 200, nil)
	without = []models.Date{noonDay - 20, noonDay - 2}
	for day := noonDay - 39; day <= noonDay; day++ {
		scores := map[models.UserID]int{1: 1000 + int(day-noonDay), 2: 2000}
		if slices.Contains(without, day) {
			delete(scores, 1)
		}
		s.live(day, scores)
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
	cold := noonDay - hotDays - 1 // the last archived day
	const path = "/v1/boards/steps/history"
	for _, tt := range []struct {
		name, query string
		want        []string
	}{
		{"the last 31 days", "", sources(noonDay-30, noonDay, cold, without...)},
		{"with empty parameters", "?from=&to=&for=", sources(noonDay-30, noonDay, cold, without...)},
		{"all days", "?from=2026-10-01&to=2026-11-20", sources(noonDay-39, noonDay, cold, without...)},
		{"from a day on", "?from=2026-11-15", sources(noonDay-5, noonDay, cold, without...)},
		{"up to a day", "?to=2026-11-15", sources(noonDay-35, noonDay-5, cold, without...)},
		{"one archived day", "?from=2026-11-10&to=2026-11-10", sources(noonDay-10, noonDay-10, cold)},
		{"one hot day", "?from=2026-11-17&to=2026-11-17", sources(noonDay-3, noonDay-3, cold)},
		{"a day without a score", "?from=2026-11-18&to=2026-11-18", []string{}},
		{"before anything", "?from=2020-01-01&to=2020-12-31", []string{}},
		{"days to come", "?from=2026-11-19&to=2026-12-31", sources(noonDay-1, noonDay, cold)},
		{"366 days", "?from=2025-11-20&to=2026-11-20", sources(noonDay-39, noonDay, cold, without...)},
		{"oneself", "?for=1", sources(noonDay-30, noonDay, cold, without...)},
		{"a friend", "?for=2", sources(noonDay-30, noonDay, cold)},
	} {
		var h history
		a := s.as(1, "GET", path+tt.query, nil)
		s.want(a, http.StatusOK, &h)
		if diff := cmp.Diff(tt.want, h.dates()); diff != "" || h.Partial {
			t.Errorf("%s: partial %v, -want +got:\n%s", tt.name, h.Partial, diff)
		}
		if len(tt.want) == 0 && !strings.Contains(string(a.body), `"entries":[]`) {
			t.Errorf("%s: %s", tt.name, a.body)
		}
	}
	var got map[string]any
	s.want(s.as(1, "GET", path+"?from=2026-11-16&to=2026-11-17", nil), http.StatusOK, &got)
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
	// A backend acts for a user, and may see what that user may.
	var own, friends history
	s.want(s.service("GET", path+"?user_id=1", nil), http.StatusOK, &own)
	s.want(s.service("GET", path+"?user_id=1&for=2", nil), http.StatusOK, &friends)
	if len(own.Entries) != 29 || len(friends.Entries) != 31 || friends.Entries[0].Score != 2000 || friends.Entries[0].GlobalRank != 1 {
		t.Errorf("a backend sees %+v and %+v", own, friends)
	}
	s.refuse(s.service("GET", path+"?user_id=3&for=1", nil), 404, models.CodeNotFound)
	s.refuse(s.service("GET", path, nil), 422, models.CodeValidationFailed)
	s.refuse(s.as(1, "GET", path+"?user_id=2", nil), 403, models.CodeForbidden)
	s.refuse(s.admin("GET", path+"?user_id=1", nil), 403, models.CodeForbidden)
	s.refuse(s.call("", "GET", path, nil), 401, models.CodeUnauthenticated)
	// Who is no friend is nobody, whether or not there is such a user.
	for _, stranger := range []string{"3", "4", "9007199254740991"} {
		s.refuse(s.as(1, "GET", path+"?for="+stranger, nil), 404, models.CodeNotFound)
	}
	s.want(s.as(2, "DELETE", "/v1/friends/1", nil), http.StatusNoContent, nil)
	s.refuse(s.as(1, "GET", path+"?for=2", nil), 404, models.CodeNotFound)
	s.want(s.as(1, "GET", "/v1/boards/private/history", nil), http.StatusOK, &own)
	if len(own.Entries) != 0 {
		t.Errorf("another board shows %+v", own)
	}
}

func TestHistoriesThatAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testHistoriesThatAreRefused)
}

func testHistoriesThatAreRefused(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for query, location := range map[string]string{
		"from=2026-11-20&to=2026-11-19": "query.from",
		"from=2026-11-21":               "query.from", // after today
		"from=2025-11-19&to=2026-11-20": "query.from", // 367 days
		"from=0001-01-01":               "query.from",
		"from=2026-02-30":               "query.from",
		"from=yesterday":                "query.from",
		"from=2026-1-1":                 "query.from",
		"from=20261101":                 "query.from",
		"to=2026-11-31":                 "query.to",
		"to=2026-11-20T00:00:00Z":       "query.to",
		"to=99999-01-01":                "query.to",
		"for=0":                         "query.for",
		"for=01":                        "query.for",
		"for=-1":                        "query.for",
		"for=ann":                       "query.for",
		"for=9007199254740992":          "query.for",
		"form=2026-11-01":               "query.form",
		"limit=5":                       "query.limit",
		"date=2026-11-20":               "query.date",
	} {
		a := s.as(1, "GET", "/v1/boards/steps/history?"+query, nil)
		s.refuse(a, 422, models.CodeValidationFailed)
		if !strings.Contains(string(a.body), `"location":"`+location+`"`) {
			t.Errorf("%s: %s does not name %s", query, a.body, location)
		}
	}
	// Long ago there is nothing, and that is no error.
	for _, query := range []string{"to=0001-01-15", "to=0001-01-01", "from=0000-01-01&to=0000-02-01", "to=1969-12-31", "to=1970-01-01"} {
		var h history
		s.want(s.as(1, "GET", "/v1/boards/steps/history?"+query, nil), http.StatusOK, &h)
		if len(h.Entries) != 0 || h.Entries == nil || h.Partial {
			t.Errorf("%s: %+v", query, h)
		}
	}
	s.refuse(s.as(1, "GET", "/v1/boards/nix/history", nil), 404, models.CodeBoardNotFound)
	s.refuse(s.as(1, "POST", "/v1/boards/steps/history", nil), 405, models.CodeMethodNotAllowed)
}

// archivedGoesOn checks what is answered of archived days while Redis is away,
// and that the rest is refused.
func archivedGoesOn(s *server) {
	s.t.Helper()
	cold := noonDay - hotDays - 1
	var h history
	for query, want := range map[string][]string{
		"":       sources(noonDay-30, cold, cold, noonDay-20),
		"?for=2": sources(noonDay-30, cold, cold),
	} {
		s.want(s.as(1, "GET", "/v1/boards/steps/history"+query, nil), http.StatusOK, &h)
		if diff := cmp.Diff(want, h.dates()); diff != "" || !h.Partial {
			s.t.Errorf("%q: partial %v, -want +got:\n%s", query, h.Partial, diff)
		}
	}
	s.want(s.as(1, "GET", "/v1/boards/steps/history?to="+cold.String(), nil), http.StatusOK, &h)
	if h.Partial || len(h.Entries) != 30 {
		s.t.Errorf("of archived days alone %d are there, partial %v", len(h.Entries), h.Partial)
	}
	for _, call := range []string{"friends", "top", "around"} {
		var r models.Ranking
		s.want(s.as(1, "GET", "/v1/boards/steps/"+call+"?date="+cold.String(), nil), http.StatusOK, &r)
		if r.Source != models.SourceArchive || r.Total != 2 || len(r.Entries) != 2 || r.Me == nil || r.Me.Rank != 2 {
			s.t.Errorf("%s of an archived day: %+v", call, r)
		}
		s.refuse(s.as(1, "GET", "/v1/boards/steps/"+call, nil), 503, models.CodeUnavailable)
	}
	s.want(s.as(1, "GET", "/v1/boards/steps/me?date="+cold.String(), nil), http.StatusOK, nil)
	s.refuse(s.as(1, "GET", "/v1/boards/steps/me", nil), 503, models.CodeUnavailable)
	// What is archived is known without Redis; whether anything came late is
	// not.
	s.want(s.admin("GET", "/v1/admin/archives", nil), http.StatusOK, nil)
	s.refuse(s.admin("POST", "/v1/admin/archives", fmt.Sprintf(`{"board":"steps","bucket":%q}`, cold)), 503, models.CodeUnavailable)
}

func TestArchivedDaysWithoutRedis(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testArchivedDaysWithoutRedis)
}

func testArchivedDaysWithoutRedis(t *testing.T, env *testenv.Env) {
	t.Helper()
	s, _ := newHistory(t, env)
	if err := env.Redis.Close(); err != nil {
		t.Fatal(err)
	}
	archivedGoesOn(s)
}

// The same with the program, and a Redis that is killed and comes back.
func TestArchivedDaysWhileRedisIsDown(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	rdb := testenv.StartRedis(t)
	cfg := env.Config
	cfg.Redis.Addrs = []string{rdb.Addr()}
	cfg.Clock.Offset = time.Until(testenv.Noon)
	var csv strings.Builder
	csv.WriteString("user_id,date,steps\n")
	for day := noonDay - 39; day <= noonDay; day++ {
		if day != noonDay-20 {
			fmt.Fprintf(&csv, "1,%v,1000\n", day)
		}
		fmt.Fprintf(&csv, "2,%v,2000\n", day)
	}
	for what, text := range map[string]string{"steps": csv.String(), "friends": "1 2\n"} {
		succeed(t, append([]string{"import", what, file(t, text)}, testenv.Flags(cfg)...)...)
	}
	p := testenv.Serve(t, cfg)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := &server{t: t, env: env, url: p.URL}
	whole := func() bool {
		var h history
		a := s.as(1, "GET", "/v1/boards/steps/history", nil)
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
	archivedGoesOn(s)
	rdb.Start()
	testenv.Eventually(t, "the hot days are back", whole)
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// file writes a file of the test.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// archiveRun is a run as an administrator is told.
type archiveRun struct {
	Board      string              `json:"board"`
	Bucket     string              `json:"bucket"`
	Run        int                 `json:"run"`
	State      models.ArchiveState `json:"state"`
	Attempts   int                 `json:"attempts"`
	Shards     int                 `json:"shards"`
	Moved      int64               `json:"moved"`
	Entries    int64               `json:"entries"`
	ScoreSum   int64               `json:"score_sum"`
	Error      string              `json:"error"`
	StartedAt  string              `json:"started_at"`
	FinishedAt *string             `json:"finished_at"`
}

// archiveRuns is a page of them.
type archiveRuns struct {
	Runs       []archiveRun `json:"runs"`
	NextCursor *string      `json:"next_cursor"`
}

// list reads a page of the runs.
func (s *server) list(query string) archiveRuns {
	s.t.Helper()
	var page archiveRuns
	s.want(s.admin("GET", "/v1/admin/archives"+query, nil), http.StatusOK, &page)
	return page
}

// bucketOf is the body that asks for a day to be archived.
func bucketOf(board, day string) string { return fmt.Sprintf(`{"board":%q,"bucket":%q}`, board, day) }

// An administrator starts the archival of a day, and sees what became of it.
func TestArchivesOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testArchivesOverHTTP)
}

func testArchivesOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	const path = "/v1/admin/archives"
	s := newServer(t, env)
	s.waitForStartJobs()
	s.live(noonDay, map[models.UserID]int{1: 10, 2: 20, 3: 0})
	for _, bearer := range []string{token(t, 1, ""), token(t, 1, auth.ScopeService)} {
		s.refuse(s.call(bearer, "GET", path, nil), 403, models.CodeForbidden)
		s.refuse(s.call(bearer, "POST", path, bucketOf("steps", "2026-11-20")), 403, models.CodeForbidden)
	}
	s.refuse(s.call("", "GET", path, nil), 401, models.CodeUnauthenticated)
	if page := s.list(""); page.Runs == nil || len(page.Runs) != 0 || page.NextCursor != nil {
		t.Errorf("before any run: %+v", page)
	}

	env.Clock.Advance(24 * time.Hour)
	for _, tt := range []struct {
		name, body string
		status     int
		code       models.Code
	}{
		{"a hot day", bucketOf("steps", "2026-11-20"), 409, models.CodeBucketHot},
		{"a hot day without data", bucketOf("steps", "2026-11-19"), 404, models.CodeNotFound},
		{"a future day", bucketOf("steps", "2026-11-22"), 422, models.CodeDateInFuture},
		{"an unknown board", bucketOf("nix", "2026-11-20"), 404, models.CodeBoardNotFound},
		{"an unknown board and day", bucketOf("nix", "nix"), 404, models.CodeBoardNotFound},
		{"an old day without data", bucketOf("steps", "2016-04-12"), 404, models.CodeNotFound},
		{"a day that is none", bucketOf("steps", "2026-02-30"), 422, models.CodeValidationFailed},
		{"a bucket's name", bucketOf("steps", "20261120"), 422, models.CodeValidationFailed},
		{"no day", `{"board":"steps"}`, 422, models.CodeValidationFailed},
		{"no board", `{"bucket":"2026-11-20"}`, 422, models.CodeValidationFailed},
		{"nothing", `{}`, 422, models.CodeValidationFailed},
		{"an unknown field", `{"board":"steps","bucket":"2026-11-20","force":true}`, 422, models.CodeValidationFailed},
		{"a number", `{"board":"steps","bucket":20261120}`, 422, models.CodeValidationFailed},
		{"not JSON", `board=steps`, 400, models.CodeInvalidRequest},
		{"no body", ``, 400, models.CodeInvalidRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			s.refuse(s.admin("POST", path, tt.body), tt.status, tt.code)
		})
	}
	if page := s.list(""); len(page.Runs) != 0 {
		t.Errorf("refused calls have left %+v", page)
	}

	// Due at last.
	env.Clock.Set(noonDay.UTC().Add(4*24*time.Hour - 8*time.Hour)) // the 24th, midnight in Shanghai
	s.refuse(s.admin("POST", path, bucketOf("steps", "2026-11-20")), 409, models.CodeBucketHot)
	env.Clock.Advance(time.Hour)
	var run archiveRun
	s.want(s.admin("POST", path, bucketOf("steps", "2026-11-20")), http.StatusAccepted, &run)
	if run.Board != "steps" || run.Bucket != "20261120" || run.Run != 1 || run.Attempts != 1 || run.State == models.ArchiveFailed {
		t.Errorf("begun: %+v", run)
	}
	testenv.Eventually(t, "the run is complete", func() bool {
		page := s.list("?state=complete")
		return len(page.Runs) == 1
	})
	now := "2026-11-23T17:00:00.000Z"
	want := archiveRun{
		Board: "steps", Bucket: "20261120", Run: 1, State: models.ArchiveComplete, Attempts: 1, Shards: env.Config.Boards[0].Shards,
		Moved: 3, Entries: 3, ScoreSum: 30, StartedAt: now, FinishedAt: &now,
	}
	if diff := cmp.Diff(archiveRuns{Runs: []archiveRun{want}}, s.list("")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// The run is complete before it is over: it still drops what it has moved.
	testenv.Eventually(t, "the run is over", func() bool {
		return s.admin("POST", path, bucketOf("steps", "2026-11-20")).code() != models.CodeArchiveRunning
	})
	// Once more there is nothing to do, however often that is asked.
	for range 50 {
		s.want(s.admin("POST", path, bucketOf("steps", "2026-11-20")), http.StatusAccepted, &run)
		if diff := cmp.Diff(want, run); diff != "" {
			t.Errorf("again -want +got:\n%s", diff)
		}
	}
	var r models.Ranking
	s.want(s.as(2, "GET", "/v1/boards/steps/top?date=2026-11-20", nil), http.StatusOK, &r)
	if r.Source != models.SourceArchive || r.Total != 3 || r.Me.Rank != 1 || !r.Final {
		t.Errorf("the day is answered as %+v", r)
	}
}

// The list of runs comes in pages, of one board or state or of all.
func TestPagesOfArchives(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testPagesOfArchives)
}

func testPagesOfArchives(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	s.waitForStartJobs()
	for i := range 7 {
		s.live(noonDay+models.Date(i), map[models.UserID]int{1: i})
		s.want(s.as(1, "POST", "/v1/boards/private/scores", fmt.Sprintf(`{"date":%q,"score":1}`, noonDay+models.Date(i))), 200, nil)
	}
	env.Clock.Advance(4 * 24 * time.Hour)
	s.archiveDue() // 2026-11-20 to 2026-11-26, of two boards
	failed := models.ArchiveRun{
		Board: "steps", Bucket: "20261127", Run: 1, Shards: 1, State: models.ArchiveFailed, Attempts: 2, StartedAt: env.Clock.Now(), Error: "why",
	}
	if err := env.Gorm.Create(&failed).Error; err != nil {
		t.Fatal(err)
	}
	name := func(r archiveRun) string { return r.Board + " " + r.Bucket }
	read := func(query string, limit int) (names []string, pages int) {
		t.Helper()
		cursor := ""
		for {
			page := s.list(fmt.Sprintf("?limit=%d&cursor=%s%s", limit, cursor, query))
			pages++
			for _, r := range page.Runs {
				names = append(names, name(r))
			}
			if page.NextCursor == nil {
				return names, pages
			}
			cursor = *page.NextCursor
		}
	}
	all, _ := read("", 200)
	if len(all) != 15 || all[0] != "steps 20261127" {
		t.Fatalf("runs %v", all)
	}
	// Newest first: the days were archived in their order.
	days := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !strings.HasPrefix(n, "private") })
	if want := []string{"26", "25", "24", "23", "22", "21", "20"}; !slices.EqualFunc(days, want, func(n, day string) bool { return n == "private 202611"+day }) {
		t.Errorf("of one board %v", days)
	}
	for _, limit := range []int{1, 2, 5, 14, 15} {
		got, pages := read("", limit)
		if !slices.Equal(got, all) || pages != (15+limit-1)/limit {
			t.Errorf("in %d pages of %d: %v", pages, limit, got)
		}
		if got, _ := read("&board=private", limit); !slices.Equal(got, days) {
			t.Errorf("of one board in pages of %d: %v", limit, got)
		}
		if got, _ := read("&state=complete", limit); !slices.Equal(got, all[1:]) {
			t.Errorf("complete ones in pages of %d: %v", limit, got)
		}
	}
	if got, _ := read("&board=steps&state=failed", 50); !slices.Equal(got, all[:1]) {
		t.Errorf("failed: %v", got)
	}
	for _, query := range []string{"&state=running", "&board=nix", "&board=private&state=failed"} {
		if got, pages := read(query, 50); len(got) != 0 || pages != 1 {
			t.Errorf("%s: %v", query, got)
		}
	}
	page := s.list("?state=failed")
	if r := page.Runs[0]; r.Error != "why" || r.Attempts != 2 || r.FinishedAt != nil || r.Entries != 0 {
		t.Errorf("the failed run is %+v", r)
	}

	const path = "/v1/admin/archives?limit=2&cursor="
	cursor := *s.list("?limit=2").NextCursor
	s.want(s.admin("GET", path+cursor, nil), http.StatusOK, nil)
	flip := func(at int) string {
		other := byte('A')
		if cursor[at] == other {
			other = 'B'
		}
		return cursor[:at] + string(other) + cursor[at+1:]
	}
	for _, bad := range []string{
		flip(0), flip(2), flip(len(cursor) - 3), cursor[1:], cursor + "A", "nix", "%00",
		cursor + "&board=steps", cursor + "&state=complete", // of another list
	} {
		s.refuse(s.admin("GET", path+bad, nil), 400, models.CodeInvalidCursor)
	}
	for _, bad := range []string{"?limit=0", "?limit=201", "?state=done", "?state=FAILED", "?bucket=20261120"} {
		s.refuse(s.admin("GET", "/v1/admin/archives"+bad, nil), 422, models.CodeValidationFailed)
	}
}

// A day that somebody else is archiving is refused, and a database that does
// not answer is no fault of who asks.
func TestAnArchivalThatCantBegin(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	s.waitForStartJobs()
	s.live(noonDay, map[models.UserID]int{1: 10})
	env.Clock.Advance(5 * 24 * time.Hour)
	elsewhere := lease.NewPostgres(testenv.Must(pgx.ParseConfig(env.Config.Postgres.DSN)))
	err := elsewhere.Hold(t.Context(), "archive/steps/20261120", func(context.Context) error {
		s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("steps", "2026-11-20")), 409, models.CodeArchiveRunning)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.SQL.Close(); err != nil {
		t.Fatal(err)
	}
	env.Pool.Close()
	s.refuse(s.admin("GET", "/v1/admin/archives", nil), 503, models.CodeUnavailable)
	s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("steps", "2026-11-20")), 503, models.CodeUnavailable)
	s.refuse(s.as(1, "GET", "/v1/boards/steps/history", nil), 503, models.CodeUnavailable)
	s.refuse(s.as(1, "GET", "/v1/boards/steps/top?date=2026-11-20", nil), 503, models.CodeUnavailable)
}
