package handlers_test

import (
	"context"
	"fmt"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// history is a fake handlers.HistoryService with one day.
type history struct{ *recorder }

func (s history) History(_ context.Context, q ranking.HistoryQuery) (*ranking.History, error) {
	days := "-" + q.Offset.String()
	if q.From != nil {
		days = q.From.String() + days
	}
	if q.To != nil {
		days += q.To.String()
	}
	if err := s.record("History", fmt.Sprintf("%s viewer=%v of=%v %s", q.Board, q.Viewer, q.User, days)); err != nil {
		return nil, err
	}
	day := ranking.Day{Date: models.DateOf(noon), Score: 5, ReachedAt: models.TimestampOf(noon), Rank: 2, Total: 3, Source: "archive"}
	return &ranking.History{Days: []ranking.Day{day}, Partial: true}, nil
}

func (s history) DaySums(_ context.Context, q ranking.HistoryQuery, goal int64) (ranking.DaySums, error) {
	average := int64(5)
	day := ranking.Day{Date: models.DateOf(noon), Score: 7}
	sums := ranking.DaySums{Week: 20, Month: 90, Average: &average, Best: &day, CurrentStreak: 2, LongestStreak: 3}
	if q.User == "1003" {
		sums = ranking.DaySums{}
	}
	return sums, s.record("DaySums", fmt.Sprintf("%s viewer=%v of=%v %s goal=%d", q.Board, q.Viewer, q.User, q.Offset, goal))
}

func TestSummary(t *testing.T) {
	t.Parallel()
	const (
		request = "GET /v1/boards/steps/summary"
		want    = `200 {"week":20,"month":90,"average":5,"best":{"date":"2026-11-20","score":7},"streak":{"current":2,"longest":3}}`
		none    = `200 {"week":0,"month":0,"average":null,"best":null,"streak":{"current":0,"longest":0}}`
	)
	config := func(r *recorder) handlers.Config { return handlers.Config{History: history{r}} }
	runCases(t, config, []testCase{
		{"one's own", "1001", request, "", nil, []string{"DaySums steps viewer=1001 of=1001  goal=1"}, want},
		{"a friend's", "1001", request + "?for=1002&goal=8000&utc_offset=%2B08:00", "", nil,
			[]string{"DaySums steps viewer=1001 of=1002 +08:00 goal=8000"}, want},
		{"without days", "1001", request + "?for=1003", "", nil, []string{"DaySums steps viewer=1001 of=1003  goal=1"}, none},
		{"a goal below zero", "1001", request + "?goal=-1", "", nil, nil, "422 validation_failed: query.goal: …"},
		{"from a day", "1001", request + "?from=2026-11-01", "", nil, nil, "422 validation_failed: query.from: …"},
		{"the store is away", "1001", request, "", errUnavailable, []string{"DaySums steps viewer=1001 of=1001  goal=1"}, wantUnavailable},
	})
}

func TestHistory(t *testing.T) {
	t.Parallel()
	const (
		request = "GET /v1/boards/steps/history"
		want    = `200 {"entries":[{"date":"2026-11-20","score":5,"reached_at":"2026-11-20T04:00:00.000Z",` +
			`"global_rank":2,"global_total":3,"source":"archive"}],"partial":true}`
	)
	config := func(r *recorder) handlers.Config { return handlers.Config{History: history{r}} }
	own := []string{"History steps viewer=1001 of=1001 -"}
	runCases(t, config, []testCase{
		{"one's own days", "1001", request, "", nil, own, want},
		{"a friend's days", "1001", request + "?for=1002&from=2026-10-01&to=2026-10-31", "", nil,
			[]string{"History steps viewer=1001 of=1002 2026-10-01-2026-10-31"}, want},
		{"a service for a user", "service", request + "?user_id=1001", "", nil, own, want},
		{"a service for nobody", "service", request, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"to today at an offset", "1001", request + "?utc_offset=%2B14:00", "", nil, []string{"History steps viewer=1001 of=1001 -+14:00"}, want},
		{"at no offset", "1001", request + "?utc_offset=%2B15:00", "", nil, nil, "422 validation_failed: query.utc_offset: …"},
		{"from no date", "1001", request + "?from=x", "", nil, nil, "422 validation_failed: query.from: …"},
		{"to no date", "1001", request + "?to=x", "", nil, nil, "422 validation_failed: query.to: …"},
		{"days of nobody", "1001", request + "?for=a%20b", "", nil, nil, "422 validation_failed: query.for: …"},
		{"days of a stranger", "1001", request, "", models.Errorf(models.CodeNotFound, "no friend"), own, "404 not_found: no friend"},
		{"the store is away", "1001", request, "", errUnavailable, own, wantUnavailable},
		{"an unknown error", "1001", request, "", errUnknown, own, wantInternal},
	})
}
