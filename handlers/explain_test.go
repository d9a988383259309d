package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// explanations is a fake handlers.ExplanationService.
type explanations struct {
	*recorder
	explanation ranking.Explanation
}

func (s explanations) Explain(_ context.Context, q ranking.Query) (*ranking.Explanation, error) {
	day := "today"
	if q.Date != nil {
		day = q.Date.String()
	}
	return &s.explanation, s.record("Explain", q.Board, q.Viewer, day)
}

func TestExplain(t *testing.T) {
	t.Parallel()
	const (
		own    = "GET /v1/boards/steps/me/explain"
		ofUser = "GET /v1/admin/users/1002/explain"
		none   = `200 {"board":"steps","date":"2026-11-20","score":null,"reached_at":null,"reported":null,"pending":null,"held":null,"correction":null,"open_until":"2026-11-20T04:00:00.000Z","final":false,"archived":false}`
		full   = `200 {"board":"steps","date":"2026-11-20","score":7,"reached_at":"2026-11-20T04:00:00.000Z",` +
			`"reported":{"score":9,"reached_at":"2026-11-20T04:00:00.000Z"},"pending":{"score":null,"reached_at":null},"held":{"score":70000,"reached_at":"2026-11-20T04:00:00.000Z","state":"rejected","message":"Too many"`
		corrected = `},"correction":{"kind":"exclude","since":"2026-11-20T04:00:00.000Z","message":"Ask us"`
		rest      = `},"open_until":"2026-11-20T04:00:00.000Z","final":true,"archived":true}`
	)
	config := func(e ranking.Explanation) func(*recorder) handlers.Config {
		e.Date, e.OpenUntil = 20_777, noon
		return func(r *recorder) handlers.Config { return handlers.Config{Explanations: explanations{r, e}} }
	}
	at := models.TimestampOf(noon)
	explained := ranking.Explanation{
		Exists: true, Score: &ranking.TimedScore{Score: 7, ReachedAt: at}, Reported: &ranking.TimedScore{Score: 9, ReachedAt: at}, Changes: true,
		Final: true, Archived: true,
		Held:       &models.Hold{Score: 70_000, ReachedAt: noon, State: models.HoldRejected, Reason: "a car", Message: "Too many", DecidedBy: "ann"},
		Correction: &models.Correction{Kind: models.CorrectionExclude, CreatedAt: noon, Reason: "shaken", Message: "Ask us", Actor: "ann"},
	}
	runCases(t, config(explained), []testCase{
		{"a user", "1001", own, "", nil, []string{"Explain steps 1001 today"}, full + corrected + rest},
		{"a day", "1001", own + "?date=2026-11-19", "", nil, []string{"Explain steps 1001 2026-11-19"}, full + corrected + rest},
		{"a service for a user", "service", own + "?user_id=1001", "", nil, []string{"Explain steps 1001 today"}, full + corrected + rest},
		{"a user for another", "1001", own + "?user_id=1002", "", nil, nil, "403 forbidden: a user acts only for oneself"},
		{"no date", "1001", own + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"an operator", "admin", ofUser + "?board=steps&date=2026-11-19", "", nil, []string{"Explain steps 1002 2026-11-19"}, full + `,"reason":"a car"` + corrected + `,"reason":"shaken"` + rest},
		{"an operator, of no board", "admin", ofUser, "", nil, nil, "422 validation_failed: query.board: …"},
		{"a user, as an operator", "1001", ofUser + "?board=steps", "", nil, nil, "403 forbidden: this token may not make this call"},
		{"a store that is away", "1001", own, "", errUnavailable, []string{"Explain steps 1001 today"}, wantUnavailable},
	})
	runCases(t, config(ranking.Explanation{}), []testCase{
		{"nothing", "1001", own, "", nil, []string{"Explain steps 1001 today"}, none},
		{"nobody", "admin", ofUser + "?board=steps", "", nil, []string{"Explain steps 1002 today"}, "404 user_not_found: there is no user 1002"},
	})
}
