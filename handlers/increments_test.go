package handlers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

// increments is a fake handlers.IncrementService that returns results, or
// counts every increment if results is nil.
type increments struct {
	*recorder
	results []ledger.Result
}

func (s increments) Add(_ context.Context, board string, items []ledger.Increment) ([]ledger.Result, error) {
	if err := s.record("Add", board, items); err != nil || s.results != nil {
		return s.results, err
	}
	results := make([]ledger.Result, len(items))
	for i, item := range items {
		results[i] = ledger.Result{EventID: item.EventID, Status: ledger.Applied, Score: item.Amount, ReachedAt: models.TimestampOf(noon)}
	}
	return results, nil
}

const addIncrements = "POST /v1/boards/gifts/increments"

func TestAddIncrements(t *testing.T) {
	t.Parallel()
	const (
		gift    = `{"user_id":"1","delta":5,"event_id":"a"}`
		applied = `{"event_id":"a","status":"applied","score":5,"reached_at":"2026-11-20T04:00:00.000Z"}`
	)
	rejected := func(id, detail string) string {
		return `{"event_id":"` + id + `","status":"rejected","score":null,"reached_at":null,"code":"validation_failed","detail":"` + detail + `"}`
	}
	one := []string{"Add gifts [{User:1 Amount:5 Result:false EventID:a OccurredAt:<nil>}]"}
	config := func(r *recorder) handlers.Config { return handlers.Config{Increments: increments{recorder: r}} }
	runCases(t, config, []testCase{
		{"a single one", "service", addIncrements, gift, nil, one, `200 {"results":[` + applied + `]}`},
		{"a list", "service", addIncrements, `{"increments":[` + gift + `]}`, nil, one, `200 {"results":[` + applied + `]}`},
		{"a broken item", "service", addIncrements, `{"increments":[{"user_id":"2","event_id":"b"},` + gift + `]}`, nil, one,
			`200 {"results":[` + rejected("b", "body.increments[0].delta: is required, or score on boards that take the best") + `,` + applied + `]}`},
		{"an item without a user", "service", addIncrements, `{"increments":[` + gift + `,{"delta":1,"event_id":"b"}]}`, nil, one,
			`200 {"results":[` + applied + `,` + rejected("b", "body.increments[1].user_id: is required") + `]}`},
		{"an item without an id", "service", addIncrements, `{"increments":[` + gift + `,{"delta":1,"user_id":"2"}]}`, nil, one,
			`200 {"results":[` + applied + `,` + rejected("", "body.increments[1].event_id: is required") + `]}`},
		{"an item of another type", "service", addIncrements, `{"increments":[` + gift + `,{"user_id":"2","delta":"x","event_id":"b"}]}`, nil, one,
			`200 {"results":[` + applied + `,` + `{"event_id":"b","status":"rejected",…`},
		{"a fraction", "service", addIncrements, `{"user_id":"1","delta":1.5,"event_id":"a"}`, nil, nil, "422 validation_failed: body.delta: must be a whole number"},
		{"more than any score", "service", addIncrements, `{"user_id":"1","delta":99999999999999999999,"event_id":"a"}`, nil,
			[]string{"Add gifts [{User:1 Amount:9223372036854775807 Result:false EventID:a OccurredAt:<nil>}]"}, "200 …"},
		{"a single one without a delta", "service", addIncrements, `{"user_id":"1","event_id":"a"}`, nil, nil, "422 validation_failed: body.delta: is required, or score on boards that take the best"},
		{"a result", "service", addIncrements, `{"user_id":"1","score":0,"event_id":"a"}`, nil,
			[]string{"Add gifts [{User:1 Amount:0 Result:true EventID:a OccurredAt:<nil>}]"}, `200 {"results":[{"event_id":"a","status":"applied","score":0,…`},
		{"a delta and a result", "service", addIncrements, `{"user_id":"1","delta":5,"score":5,"event_id":"a"}`, nil, nil,
			"422 validation_failed: body: has delta or score, not both"},
		{"a time that is none", "service", addIncrements, `{"user_id":"1","delta":5,"event_id":"a","occurred_at":"yesterday"}`, nil, nil,
			"422 validation_failed: body.occurred_at: …"},
		{"both forms", "service", addIncrements, `{"user_id":"1","increments":[]}`, nil, nil,
			"422 validation_failed: body: send one increment, or increments, not both"},
		{"an empty list", "service", addIncrements, `{"increments":[]}`, nil, nil, "422 validation_failed: body.increments: has 1 to 1000 items"},
		{"too long a list", "service", addIncrements, `{"increments":[` + strings.Repeat(gift+",", 1000) + gift + `]}`, nil, nil,
			"422 validation_failed: body.increments: has 1 to 1000 items"},
		{"no JSON", "service", addIncrements, `x`, nil, nil, "400 invalid_request: the body is not JSON, or names a key twice"},
		{"a user's token", "1", addIncrements, gift, nil, nil, "403 forbidden: this token may not make this call"},
		{"a board of another kind", "service", addIncrements, gift, models.Errorf(models.CodeBoardKind, "send scores"), one, "409 board_kind: send scores"},
		{"the store is away", "service", addIncrements, gift, errUnavailable, one, wantUnavailable},
		{"an unknown error", "service", addIncrements, gift, errUnknown, one, wantInternal},
	})
}

// A rejected increment is refused with its own status if it is sent alone, and
// has a result of its own in a list.
func TestRejectedIncrements(t *testing.T) {
	t.Parallel()
	const item = `{"user_id":"1","delta":5,"event_id":"a"}`
	for _, tt := range []struct {
		err      error
		status   int
		location string // of a single increment
	}{
		{models.Invalid("delta", "must be 1 or more"), 422, "body.delta"},
		{models.Errorf(models.CodeScoreOutOfRange, "too much"), 422, "body.delta"},
		{models.Errorf(models.CodeEventIDConflict, "counted before"), 409, "body.event_id"},
	} {
		fake := increments{&recorder{}, []ledger.Result{{EventID: "a", Status: ledger.Rejected, Err: tt.err}}}
		registry := prometheus.NewRegistry()
		api := newAPI(t, handlers.Config{Increments: fake, Registry: registry})
		alone := send(t, api, "service", addIncrements, item)
		if alone.Code != tt.status || !strings.Contains(alone.Body.String(), `"location":"`+tt.location+`"`) {
			t.Errorf("%v, alone: %d %s", tt.err, alone.Code, alone.Body)
		}
		listed := send(t, api, "service", addIncrements, `{"increments":[`+item+`]}`)
		if listed.Code != 200 || !strings.Contains(listed.Body.String(), `"status":"rejected","score":null,"reached_at":null,"code":"`+string(models.CodeOf(tt.err))+`"`) {
			t.Errorf("%v, in a list: %d %s", tt.err, listed.Code, listed.Body)
		}
		if n := accepted(t, registry, "gifts"); n != 0 {
			t.Errorf("%v: %v increments are counted as accepted", tt.err, n)
		}
	}
}

// Only increments that are applied for the first time are counted as accepted.
func TestDuplicateIncrements(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	fake := increments{&recorder{}, []ledger.Result{
		{EventID: "a", Status: ledger.Duplicate, Score: 7, ReachedAt: models.TimestampOf(noon)},
		{EventID: "b", Status: ledger.Applied, Score: 9, ReachedAt: models.TimestampOf(noon)},
	}}
	api := newAPI(t, handlers.Config{Increments: fake, Registry: registry})
	got := send(t, api, "service", addIncrements, `{"increments":[{"user_id":"1","delta":5,"event_id":"a"},{"user_id":"1","delta":2,"event_id":"b"}]}`)
	want := `200 {"results":[{"event_id":"a","status":"duplicate","score":7,"reached_at":"2026-11-20T04:00:00.000Z"},` +
		`{"event_id":"b","status":"applied","score":9,"reached_at":"2026-11-20T04:00:00.000Z"}]}`
	if text := describe(t, got); text != want {
		t.Errorf("answered\n\t%s\nwant\n\t%s", text, want)
	}
	if n := accepted(t, registry, "gifts"); n != 1 {
		t.Errorf("%v increments are counted as accepted, want 1", n)
	}
}
