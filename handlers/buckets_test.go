package handlers_test

import (
	"context"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/operations/status"
)

// bucketStates is a fake handlers.BucketLister with the days from 2026-11-20 back to
// 2026-11-18; only the last one is archived.
type bucketStates struct{ *recorder }

func (s bucketStates) Buckets(_ context.Context, q status.BucketQuery) ([]status.Bucket, error) {
	text := func(d *models.Date) string {
		if d == nil {
			return "-"
		}
		return d.String()
	}
	if err := s.record("Buckets", q.Board, text(q.From), text(q.To), q.Limit); err != nil {
		return nil, err
	}
	var list []status.Bucket
	for back := range models.Date(3) {
		day := models.DateOf(noon) - back
		if q.To != nil && day > *q.To || q.From != nil && day < *q.From || len(list) == q.Limit {
			continue
		}
		b := status.Bucket{
			Bucket: models.Bucket{
				Board: q.Board, Name: day.UTC().Format("20060102"), Day: day, StartsAt: noon, EndsAt: noon.Add(time.Hour),
				ClosesAt: noon.Add(2 * time.Hour), ColdAt: noon.Add(3 * time.Hour),
			},
			State: status.BucketOpen, Date: &day, Corrections: 2,
		}
		if back == 2 {
			last, total, sum := run(1), int64(9), int64(90)
			b.State, b.LastRun, b.Total, b.ScoreSum, b.Revision = status.BucketArchived, &last, &total, &sum, 4
		}
		list = append(list, b)
	}
	return list, nil
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{BucketStates: bucketStates{r}} }
	const (
		list  = "GET /v1/admin/boards/steps/buckets"
		times = `"starts_at":"2026-11-20T04:00:00.000Z","ends_at":"2026-11-20T05:00:00.000Z",` +
			`"closes_at":"2026-11-20T06:00:00.000Z","cold_at":"2026-11-20T07:00:00.000Z",`
		open = `"state":"open",` + times + `"total":null,"score_sum":null,"corrections":2,"revision":0,"last_run":null}`
		day  = `{"bucket":"20261120","date":"2026-11-20",` + open
	)
	listed := []string{"Buckets steps - - 51"}
	unknown := models.Errorf(models.CodeBoardNotFound, "no board steps")
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"buckets":[` + day + `,{"bucket":"20261119","date":"2026-11-19",` + open +
			`,{"bucket":"20261118","date":"2026-11-18","state":"archived",` + times +
			`"total":9,"score_sum":90,"corrections":2,"revision":4,"last_run":{"board":"steps","bucket":"20261116","run":1,…`},
		{"list one", "admin", list + "?from=2026-11-20&to=2026-11-20&limit=1", "", nil,
			[]string{"Buckets steps 2026-11-20 2026-11-20 2"}, `200 {"buckets":[` + day + `],"next_cursor":null}`},
		{"list by the cursor of other days", "admin", list + "?to=2026-11-20&cursor=" + cursor(1, 0, "buckets", "steps", "", ""), "", nil, nil,
			"400 invalid_cursor: …"},
		{"list from no day", "admin", list + "?from=x", "", nil, nil, "422 validation_failed: query.from: …"},
		{"list to no day", "admin", list + "?to=2026-02-30", "", nil, nil, "422 validation_failed: query.to: …"},
		{"an unknown board", "admin", list, "", unknown, listed, "404 board_not_found: no board steps"},
		{"with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
	})
	checkPages(t, config, "admin", list+"?limit=1", []string{
		"Buckets steps - - 2", "Buckets steps - 2026-11-19 2", "Buckets steps - 2026-11-18 2",
	})
}
