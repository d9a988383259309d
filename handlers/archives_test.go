package handlers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/catalog"
)

// archives is a fake handlers.ArchiveService with the runs 3, 2 and 1.
type archives struct{ *recorder }

func run(id int64) models.ArchiveRun {
	finished := noon.Add(time.Minute)
	return models.ArchiveRun{
		ID: id, Board: "steps", Bucket: "20261116", Run: int(id), Shards: 2, State: models.ArchiveComplete, Attempts: 1,
		Moved: 10, Entries: 9, PointsSum: 90, StartedAt: noon, FinishedAt: &finished,
	}
}

func (s archives) Runs(_ context.Context, q archive.RunsQuery) ([]archive.ListedRun, error) {
	if err := s.record("Runs", fmt.Sprintf("%q %q %q before=%d limit=%d", q.Board, q.Bucket, q.State, q.Before, q.Limit)); err != nil {
		return nil, err
	}
	var list []archive.ListedRun
	for id := int64(3); id >= 1; id-- {
		if (q.Before == 0 || id < q.Before) && len(list) < q.Limit {
			list = append(list, archive.ListedRun{ArchiveRun: run(id), ScoreSum: 90})
		}
	}
	return list, nil
}

func (s archives) Start(_ context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	r := run(1)
	r.State, r.FinishedAt = models.ArchiveRunning, nil
	return r, s.record("Start", bucket.Board, bucket.Name)
}

func (s archives) Next(_ context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	return run(2), s.record("Next", bucket.Board, bucket.Name)
}

// ByName finds the bucket of 2026-11-16 only.
func (s buckets) ByName(_ context.Context, b *catalog.Board, name string) (*models.Bucket, error) {
	switch name {
	case "2026-11-16":
		return &models.Bucket{Board: b.Name, Name: "20261116"}, nil
	case "2026-11-15":
		return nil, fmt.Errorf("find: %w", catalog.ErrNoBucket)
	case "2026-11-14":
		return nil, errUnavailable
	default:
		return nil, models.Errorf(models.CodeValidationFailed, "not a day")
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Archives: archives{r}, Boards: boards{r, []*catalog.Board{newBoard(t, "steps", nil)}}, Buckets: buckets{r}}
	}
	const (
		list  = "GET /v1/admin/archives"
		start = "POST /v1/admin/archives"
	)
	body := func(board, bucket string) string { return `{"board":"` + board + `","bucket":"` + bucket + `"}` }
	answer := func(run, state, finished string) string {
		return `{"board":"steps","bucket":"20261116","run":` + run + `,"state":"` + state + `","attempts":1,"shards":2,"moved":10,"entries":9,"score_sum":90,` +
			`"error":"","started_at":"2026-11-20T04:00:00.000Z","finished_at":` + finished + `}`
	}
	finished := `"2026-11-20T04:01:00.000Z"`
	listed, started := []string{`Runs "" "" "" before=0 limit=51`}, []string{"Start steps 20261116"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"runs":[` + answer("3", "complete", finished) + `,` + answer("2", "complete", finished) + `,` +
			answer("1", "complete", finished) + `],"next_cursor":null}`},
		{"list some", "admin", list + "?board=steps&state=failed&limit=3", "", nil, []string{`Runs "steps" "" "failed" before=0 limit=4`}, "200 …"},
		{"list those of a day", "admin", list + "?board=steps&bucket=20261116", "", nil, []string{`Runs "steps" "20261116" "" before=0 limit=51`}, "200 …"},
		{"list by a board's cursor", "admin", list + "?board=steps&cursor=" + cursor(2, 1, "archives", "steps", "", ""), "", nil,
			[]string{`Runs "steps" "" "" before=2 limit=51`}, "200 …"},
		{"list by another board's cursor", "admin", list + "?board=steps&cursor=" + cursor(2, 1, "archives", "coins", "", ""), "", nil, nil, "400 invalid_cursor: …"},
		{"list by a state that is none", "admin", list + "?state=x", "", nil, nil, "422 validation_failed: query.state: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, an unknown error", "admin", list, "", errUnknown, listed, wantInternal},

		{"start", "admin", start, body("steps", "2026-11-16"), nil, started, `202 ` + answer("1", "running", "null")},
		{"a dry run", "admin", start + "?dry_run=true", body("steps", "2026-11-16"), nil, []string{"Next steps 20261116"},
			`200 ` + answer("2", "complete", finished)},
		{"a dry run of a hot day", "admin", start + "?dry_run=true", body("steps", "2026-11-16"), models.Errorf(models.CodeBucketHot, "too early"),
			[]string{"Next steps 20261116"}, "409 bucket_hot: too early"},
		{"start on an unknown board", "admin", start, body("nix", "2026-11-16"), nil, nil, "404 board_not_found: no board nix"},
		{"start of a day without a bucket", "admin", start, body("steps", "2026-11-15"), nil, nil,
			"404 not_found: nothing was ever written to 2026-11-15 of this board"},
		{"start, the bucket can't be read", "admin", start, body("steps", "2026-11-14"), nil, nil, wantUnavailable},
		{"start of no day", "admin", start, body("steps", "x"), nil, nil, "422 validation_failed: body.bucket: not a day"},
		{"start without a day", "admin", start, `{"board":"steps"}`, nil, nil, "422 validation_failed: …"},
		{"start of a hot day", "admin", start, body("steps", "2026-11-16"), models.Errorf(models.CodeBucketHot, "too early"), started, "409 bucket_hot: too early"},
		{"start while a run is under way", "admin", start, body("steps", "2026-11-16"), models.Errorf(models.CodeArchiveRunning, "wait"), started,
			"409 archive_running: wait"},
		{"start, an unknown error", "admin", start, body("steps", "2026-11-16"), errUnknown, started, wantInternal},
		{"start with a user's token", "1", start, body("steps", "2026-11-16"), nil, nil, "403 forbidden: this token may not make this call"},
	})
	checkPages(t, config, "admin", "GET /v1/admin/archives?limit=1",
		[]string{`Runs "" "" "" before=0 limit=2`, `Runs "" "" "" before=3 limit=2`, `Runs "" "" "" before=2 limit=2`})
}
