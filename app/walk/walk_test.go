// Package walk_test walks through the whole service once: one test with processes that are
// killed, and one with a service in the process of the test, for the race detector.
package walk_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testenv.RemoveBinary()
		os.Exit(status)
	}))
}

// A day is uploaded, survives the process that has acknowledged it, is ranked, archived, and
// ranked again with the same answer.
func TestWalk(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	day := testenv.Must(models.ParseDate(harness.Today()))
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	backend := harness.Token(t, "backend", auth.ScopeService)
	p := testenv.Serve(t, env.Config)
	harness.Call(t, p, backend, "PUT", "/v1/users/1/friends", `{"friend_ids":["2","3","4"]}`, http.StatusOK)
	for user, score := range map[models.UserID]int{"1": 3_000, "2": 9_000, "3": 3_500, "5": 20_000} {
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, day, score)
		harness.Call(t, p, harness.Token(t, user, ""), "POST", "/v1/boards/steps/scores", body, http.StatusOK)
	}
	p.Kill()

	p = testenv.Serve(t, env.Config)
	hot := ranking(t, p, day)
	if got := fmt.Sprint(lines(hot)); got != "[1 2 9000 2 3 3500 3 1 3000]" || hot.Total != 3 || hot.Me == nil || hot.Me.Rank != 3 || hot.Source != models.SourceHot {
		t.Errorf("from Redis %s, %+v", got, hot)
	}
	p.Stop()

	later := env.Config
	later.Clock.Offset = time.Until(harness.DayBucket(t, env, day.String()).ColdAt.Add(2 * time.Hour)).Round(time.Second)
	p = testenv.Serve(t, later)
	if got := harness.Archive(t, append([]string{"archive"}, testenv.Flags(later)...)...); got.Status != 0 {
		t.Fatalf("archive: %+v", got)
	}
	cold := ranking(t, p, day)
	if cold.Source != models.SourceArchive || !cold.Final {
		t.Errorf("archived %+v", cold)
	}
	if diff := cmp.Diff(lines(hot), lines(cold)); diff != "" {
		t.Errorf("(-Redis +archive):\n%s", diff)
	}
}

// ranking returns the ranking of the friends of user 1.
func ranking(t *testing.T, p *testenv.Process, day models.Date) (r models.Ranking) {
	t.Helper()
	text := harness.Call(t, p, harness.Token(t, "1", ""), "GET", fmt.Sprintf("/v1/boards/steps/friends?date=%s", day), "", http.StatusOK)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// lines returns each entry as rank, user and score.
func lines(r models.Ranking) (lines []string) {
	for _, e := range r.Entries {
		lines = append(lines, fmt.Sprint(e.Rank, " ", e.User, " ", e.Score))
	}
	return lines
}
