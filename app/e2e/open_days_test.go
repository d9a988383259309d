package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// withLateWeek gives the board of steps a week of open days.
func withLateWeek(c *config.Config) { c.Boards[0].OpenDays = 7 }

// A phone that was offline uploads a week in one call. The day before is closed, and
// none of the week is archived while it takes uploads.
func TestAWeekOffline(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, withLateWeek)
	s.waitForStartJobs()
	first := models.DateOf(testenv.Noon)
	s.want(s.as("7", "POST", "/v1/boards/steps/scores", totalOf(first, 500)), 200, nil)
	env.Clock.Advance(7 * 24 * time.Hour)
	if due := s.stepsDue(); len(due) != 0 {
		t.Errorf("a day is due while it takes uploads: %+v", due[0])
	}
	var week string
	for d := first; d <= first+7; d++ {
		week += fmt.Sprintf(`,{"date":"%v","score":%d}`, d, 1000+d)
	}
	s.want(s.as("1001", "POST", "/v1/boards/steps/scores", `{"scores":[`+week[1:]+`]}`), 200, nil)
	older := fmt.Sprintf(`{"scores":[{"date":"%v","score":1}%s]}`, first-1, week)
	var answer struct {
		Accepted []any
		Rejected []struct {
			Index        int
			Date, Detail string
			Code         models.Code
		}
	}
	s.want(s.as("1002", "POST", "/v1/boards/steps/scores", older), 200, &answer)
	if len(answer.Accepted) != 8 || len(answer.Rejected) != 1 || answer.Rejected[0].Index != 0 || answer.Rejected[0].Code != models.CodeDateClosed {
		t.Errorf("a week and a day that is closed: %+v", answer)
	}
	var r models.Ranking
	s.want(s.as("1001", "GET", fmt.Sprintf("/v1/boards/steps/top?date=%v", first), nil), 200, &r)
	if r.Total != 3 || r.Final || r.Source != models.SourceHot || r.Me == nil || r.Me.Score != int64(1000+first) {
		t.Errorf("the first day: %+v", r)
	}

	env.Clock.Advance(24 * time.Hour)
	s.refuse(s.as("1002", "POST", "/v1/boards/steps/scores", totalOf(first, 1)), 422, models.CodeDateClosed)
	s.want(s.as("1002", "POST", "/v1/boards/steps/scores", totalOf(first+1, 1)), 200, nil)
	if due := s.stepsDue(); len(due) != 0 {
		t.Errorf("a day is due a day after it was closed: %+v", due[0])
	}
	env.Clock.Advance(24 * time.Hour)
	due := s.stepsDue()
	if len(due) != 1 || due[0].Day != first {
		t.Fatalf("%d days are due, want the first one", len(due))
	}
	if run, err := s.app.Archive.Archive(t.Context(), due[0], func(int64) {}); err != nil || run.Entries != 3 {
		t.Errorf("archived %+v, %v", run, err)
	}
	s.want(s.as("1001", "GET", fmt.Sprintf("/v1/boards/steps/top?date=%v", first), nil), 200, &r)
	if r.Total != 3 || !r.Final || r.Source != models.SourceArchive {
		t.Errorf("the first day, archived: %+v", r)
	}
}

// stepsDue returns the days of steps that the archive would move now.
func (s *server) stepsDue() []*models.Bucket {
	s.t.Helper()
	due := testenv.Must(s.app.Archive.Due(s.t.Context()))
	return slices.DeleteFunc(due, func(b *models.Bucket) bool { return b.Board != "steps" })
}

// totalOf returns the body of an upload for a day.
func totalOf(d models.Date, score int64) string {
	return fmt.Sprintf(`{"date":"%v","score":%d}`, d, score)
}
