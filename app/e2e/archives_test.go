package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// archiveRun is a run as the API shows it.
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

// archiveRuns is a page of runs.
type archiveRuns struct {
	Runs       []archiveRun `json:"runs"`
	NextCursor *string      `json:"next_cursor"`
}

// archiveRuns reads a page of the runs.
func (s *server) archiveRuns(query string) archiveRuns {
	s.t.Helper()
	var page archiveRuns
	s.want(s.admin("GET", "/v1/admin/archives"+query, nil), http.StatusOK, &page)
	return page
}

// bucketOf returns the body that starts the archival of a day.
func bucketOf(board, day string) string { return fmt.Sprintf(`{"board":%q,"bucket":%q}`, board, day) }

// An administrator starts the archival of a day and reads the result.
func TestArchivesOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testArchivesOverHTTP)
}

func testArchivesOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	const path = "/v1/admin/archives"
	s := newServer(t, env)
	s.waitForStartJobs()
	s.uploadDay(harness.NoonDay, map[models.UserID]int{"1": 10, "2": 20, "3": 0})
	for _, bearer := range []string{harness.Token(t, "1", ""), harness.Token(t, "1", auth.ScopeService)} {
		s.refuse(s.call(bearer, "GET", path, nil), 403, models.CodeForbidden)
		s.refuse(s.call(bearer, "POST", path, bucketOf("steps", "2026-11-20")), 403, models.CodeForbidden)
	}
	s.refuse(s.call("", "GET", path, nil), 401, models.CodeUnauthenticated)
	if page := s.archiveRuns(""); page.Runs == nil || len(page.Runs) != 0 || page.NextCursor != nil {
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
		{"a day that is none", bucketOf("steps", "2026-02-30"), 422, models.CodeValidationFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			s.refuse(s.admin("POST", path, tt.body), tt.status, tt.code)
		})
	}
	if page := s.archiveRuns(""); len(page.Runs) != 0 {
		t.Errorf("refused calls have left %+v", page)
	}

	// The day becomes due an hour after midnight.
	env.Clock.Set(harness.NoonDay.UTC().Add(4*24*time.Hour - 8*time.Hour)) // the 24th, midnight in Shanghai
	s.refuse(s.admin("POST", path, bucketOf("steps", "2026-11-20")), 409, models.CodeBucketHot)
	env.Clock.Advance(time.Hour)
	var run archiveRun
	s.want(s.admin("POST", path, bucketOf("steps", "2026-11-20")), http.StatusAccepted, &run)
	if run.Board != "steps" || run.Bucket != "20261120" || run.Run != 1 || run.Attempts != 1 || run.State == models.ArchiveFailed {
		t.Errorf("begun: %+v", run)
	}
	testenv.Eventually(t, "the run is complete", func() bool {
		page := s.archiveRuns("?state=complete")
		return len(page.Runs) == 1
	})
	now := "2026-11-23T17:00:00.000Z"
	want := archiveRun{
		Board: "steps", Bucket: "20261120", Run: 1, State: models.ArchiveComplete, Attempts: 1, Shards: env.Config.Boards[0].Shards,
		Moved: 3, Entries: 3, ScoreSum: 30, StartedAt: now, FinishedAt: &now,
	}
	if diff := cmp.Diff(archiveRuns{Runs: []archiveRun{want}}, s.archiveRuns("")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// A complete run is not over yet: it still deletes the keys in Redis.
	testenv.Eventually(t, "the run is over", func() bool {
		return s.admin("POST", path, bucketOf("steps", "2026-11-20")).code() != models.CodeArchiveRunning
	})
	// Starting it again, however often, changes nothing.
	for range 50 {
		s.want(s.admin("POST", path, bucketOf("steps", "2026-11-20")), http.StatusAccepted, &run)
		if diff := cmp.Diff(want, run); diff != "" {
			t.Errorf("again -want +got:\n%s", diff)
		}
	}
	var r models.Ranking
	s.want(s.as("2", "GET", "/v1/boards/steps/top?date=2026-11-20", nil), http.StatusOK, &r)
	if r.Source != models.SourceArchive || r.Total != 3 || r.Me.Rank != 1 || !r.Final {
		t.Errorf("the day is answered as %+v", r)
	}
}
