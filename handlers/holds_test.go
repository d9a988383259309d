package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/holds"
)

// held is a fake handlers.HoldService with the open holds 2, of user "a|b", and 1, of a user that
// does not exist.
type held struct{ *recorder }

func (s held) List(_ context.Context, q holds.Query) ([]models.Hold, error) {
	if err := s.record("List", q.State, q.Board, q.User, q.Before, q.Limit); err != nil {
		return nil, err
	}
	counting := int64(8000)
	var list []models.Hold
	for _, h := range []models.Hold{
		{ID: 2, Board: "steps", Day: models.DateOf(noon), User: "a|b", Nickname: "Ann", Score: 98_800, ReachedAt: noon, HeldAt: noon, Counting: &counting, State: models.HoldOpen},
		{ID: 1, Board: "steps", Day: models.DateOf(noon), Score: 98_700, ReachedAt: noon, HeldAt: noon, State: models.HoldOpen},
	} {
		if (q.Before == 0 || h.ID < q.Before) && len(list) < q.Limit {
			list = append(list, h)
		}
	}
	return list, nil
}

func (s held) Decide(_ context.Context, d holds.Decision) (models.Hold, error) {
	err := s.record("Decide", d.ID, d.State, d.Score, d.Reason, d.Message, d.By, d.DryRun)
	return models.Hold{
		ID: d.ID, Board: "steps", Day: models.DateOf(noon), Score: d.Score, ReachedAt: noon, HeldAt: noon, State: d.State,
		DecidedAt: &noon, DecidedBy: d.By, Reason: d.Reason, Message: d.Message,
	}, err
}

func TestHolds(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Holds: held{r}} }
	const (
		list    = "GET /v1/admin/holds"
		release = "POST /v1/admin/holds/2/release"
		reject  = "POST /v1/admin/holds/2/reject"
		body    = `{"reason":"a marathon","score":98800}`
		at      = `"2026-11-20T04:00:00.000Z"`
		open    = `"held_at":` + at + `,"state":"open","pending":false,"decided_at":null,"decided_by":null,"reason":null,"message":null}`
		both    = `{"id":"2","board":"steps","date":"2026-11-20","user_id":"a|b","nickname":"Ann","score":98800,"reached_at":` + at + `,"counting":8000,` + open +
			`,{"id":"1","board":"steps","date":"2026-11-20","user_id":null,"nickname":"","score":98700,"reached_at":` + at + `,"counting":null,` + open
	)
	decided := func(state, pending, message string) string {
		return `200 {"id":"2","board":"steps","date":"2026-11-20","user_id":null,"nickname":"","score":98800,"reached_at":` + at +
			`,"counting":null,"held_at":` + at + `,"state":"` + state + `","pending":` + pending + `,"decided_at":` + at +
			`,"decided_by":"alice","reason":"a marathon","message":"` + message + `"}`
	}
	listed, released := []string{"List open   0 51"}, []string{"Decide 2 released 98800 a marathon  alice false"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"holds":[` + both + `],"next_cursor":null}`},
		{"list those of a board", "admin", list + "?board=steps&state=rejected&limit=2", "", nil, []string{"List rejected steps  0 3"}, `200 …`},
		{"list those of a user", "admin", list + "?user_id=a%7Cb", "", nil, []string{"List open  a|b 0 51"}, `200 …`},
		{"list by the cursor of another state", "admin", list + "?cursor=" + cursor(3, 0, "holds", "rejected", "", ""), "", nil, nil, "400 invalid_cursor: …"},
		{"list a state that is none", "admin", list + "?state=all", "", nil, nil, "422 validation_failed: query.state: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
		{"release", "admin", release, body, nil, released, decided("released", "true", "")},
		{"reject with a message", "admin", reject, `{"reason":"a marathon","score":98800,"message":"a car?"}`, nil,
			[]string{"Decide 2 rejected 98800 a marathon a car? alice false"}, decided("rejected", "false", "a car?")},
		{"a dry run", "admin", release + "?dry_run=true", body, nil, []string{"Decide 2 released 98800 a marathon  alice true"}, `200 …`},
		{"without a reason", "admin", release, `{"score":98800}`, nil, nil, "422 validation_failed: body: …"},
		{"without the score", "admin", release, `{"reason":"x"}`, nil, nil, "422 validation_failed: body: …"},
		{"another score by now", "admin", release, body, models.Errorf(models.CodeHoldChanged, "look again"), released, "409 hold_changed: look again"},
		{"one that does not exist", "admin", release, body, models.Errorf(models.CodeNotFound, "none"), released, "404 not_found: none"},
		{"without a name", "admin without a sub", release, body, nil, nil, "403 forbidden: this call is recorded: …"},
		{"with a user's token", "1", release, body, nil, nil, "403 forbidden: this token may not make this call"},
		{"an unknown error", "admin", release, body, errUnknown, released, wantInternal},
	})
	checkPages(t, config, "admin", "GET /v1/admin/holds?limit=1&board=steps", []string{"List open steps  0 2", "List open steps  2 2"})
}
