package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// A process is killed at each step of an erasure. Another one finishes it: nothing that
// names the user is left in Postgres, and the archived day keeps its line.
func TestSoakErasureKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "erasure")) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			testKilledErasure(t, step)
		})
	}
}

func testKilledErasure(t *testing.T, step string) {
	t.Helper()
	env := harness.Real(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(p *testenv.Process, user, scope, method, path, body string) (int, string, error) {
		return harness.Request(t.Context(), client, harness.Token(t, models.UserID(user), scope), method, p.URL+path, body)
	}
	must := func(p *testenv.Process, user, scope, method, path, body string) string {
		t.Helper()
		status, text, err := call(p, user, scope, method, path, body)
		if err != nil || status >= 300 {
			t.Fatalf("%s %s: %d %s, %v", method, path, status, text, err)
		}
		return text
	}
	day := testenv.Must(models.ParseDate(harness.Today()))
	start := time.Now().Add(-time.Hour).UTC()
	boards := fmt.Sprintf(`--boards=[{`+harness.Steps+`}, {name: gifts, kind: event, max_score: 1000, start: %q, end: %q}]`,
		start.Format(time.RFC3339), start.AddDate(0, 0, 30).Format(time.RFC3339))
	first := testenv.Serve(t, env.Config, boards)
	for user, points := range map[string]int{"zed": 5000, "ann": 4000} {
		must(first, user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, day, points))
	}
	must(first, "ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", `{"user_id":"zed","delta":1,"event_id":"a"}`)
	must(first, "zed", "", "POST", "/v1/friends/requests", `{"user_id":"ann"}`)
	must(first, "ann", "", "POST", "/v1/friends/requests/zed/accept", "")
	must(first, "zed", "", "POST", "/v1/groups", `{"name":"walkers"}`)
	row := harness.Rows(t, env.Gorm, []models.UserID{"zed"})[0]
	first.Stop()

	later := env.Config
	later.Clock.Offset = 6 * 24 * time.Hour // the day is archived at the start
	archived := testenv.Serve(t, later, boards)
	testenv.Eventually(t, "the day is archived", func() bool {
		var r struct{ Source string }
		err := json.Unmarshal([]byte(must(archived, "ann", "", "GET", "/v1/boards/steps/top?date="+day.String(), "")), &r)
		return err == nil && r.Source == "archive"
	})
	archived.Stop()
	p := testenv.ServeUntil(t, step, later, boards)
	_, _, _ = call(p, "zed", "", "DELETE", "/v1/me", `{"confirm":"erase"}`)
	p.Killed()

	// Two minutes later the second sweep is due, and the third one another minute later.
	for minutes := 0; minutes <= 6; minutes += 2 {
		after := later
		after.Clock.Offset += time.Duration(minutes) * time.Minute
		p := testenv.Serve(t, after, boards)
		testenv.Eventually(t, "a sweep has ended", func() bool {
			var swept int64
			err := env.Gorm.Raw(`SELECT count(*) FROM erasures WHERE swept_at >= ? OR finished_at IS NOT NULL`,
				time.Now().Add(after.Clock.Offset-time.Minute)).Scan(&swept).Error
			return err == nil && swept == 1
		})
		p.Stop()
	}
	for _, where := range []string{
		"users WHERE user_id = ?", "friendships WHERE ? IN (user_id, friend_id)", "group_members WHERE user_id = ?",
		"archived_scores WHERE user_id = ?", "score_events WHERE user_id = ?", "score_totals WHERE user_id = ?",
		"erasures WHERE finished_at IS NULL AND row_id = ?",
	} {
		var left int64
		if err := env.Gorm.Raw("SELECT count(*) FROM "+where, row).Scan(&left).Error; err != nil || left != 0 {
			t.Errorf("%d left in %s, %v", left, where, err)
		}
	}
	last := testenv.Serve(t, later, boards)
	var top models.Ranking
	if err := json.Unmarshal([]byte(must(last, "ann", "", "GET", "/v1/boards/steps/top?date="+day.String(), "")), &top); err != nil {
		t.Fatal(err)
	}
	if len(top.Entries) != 2 || top.Entries[0].User != "" || top.Entries[0].Score != 5000 || top.Entries[1].User != "ann" {
		t.Errorf("the archived day is %+v", top.Entries)
	}
}
