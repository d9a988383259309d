package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/ledger"
	"stepboard/services/rankings/ranking"
)

// maxIncrements is the largest number of increments in one call.
const maxIncrements = 1000

// increment is an amount that is added to a user's score, or a result of which the best counts.
type increment struct {
	UserID     *models.UserID `json:"user_id" doc:"The user" example:"1001" required:"true" nullable:"false"`
	Delta      *wholeNumber   `json:"delta,omitempty" doc:"The amount to add, 1 or more; on events also 0, which puts a user without a score on the list. On boards that take the sum" example:"5" minimum:"0" nullable:"false"`
	Score      *wholeNumber   `json:"score,omitempty" doc:"The result, 0 to max_score, instead of delta. On boards that take the best" example:"980" minimum:"0" nullable:"false"`
	EventID    *string        `json:"event_id" doc:"Names the increment: the same id counts once on a board. 1 to 64 visible ASCII characters" example:"gift-2381" minLength:"1" maxLength:"64" required:"true" nullable:"false"`
	OccurredAt *time.Time     `json:"occurred_at,omitempty" doc:"When it happened, if that is not now: between the event's start and end, and at most its setting late ago. Events only" format:"date-time" example:"2026-12-01T12:00:00Z" nullable:"false"`
}

// increments is the body with several increments.
type increments struct {
	Increments []increment `json:"increments" doc:"Up to 1,000 increments" minItems:"1" maxItems:"1000" nullable:"false"`
}

// IncrementService counts increments.
type IncrementService interface {
	Add(ctx context.Context, board string, items []ledger.Increment) ([]ledger.Result, error)
}

// incrementHandlers serves increments.
type incrementHandlers struct {
	increments IncrementService
	rankings   *rankingHandlers
	accepted   *prometheus.CounterVec // by board
}

var addIncrements = operation{
	id:      "addIncrements",
	summary: "Add to scores",
	description: "Add to scores on event and rolling boards: `{\"user_id\":\"1001\",\"delta\":5,\"event_id\":\"gift-2381\"}`, or up to 1,000 increments as " +
		"`{\"increments\":[{\"user_id\":\"1001\",\"delta\":5,\"event_id\":\"gift-2381\"}]}`. " +
		"On boards that take the best, an increment has `score`, a result, instead of `delta`: the user's best counts. " +
		"On events it may say when it happened (`occurred_at`), up to the board's `late` afterwards and until `closes_at`. " +
		"An event_id counts once on a board. If the same increment is sent again, even after the event, its result is duplicate, with the score of the first time; " +
		"with another user_id or amount it is rejected as event_id_conflict; another occurred_at changes nothing. So after a time-out or a 503, send the same increments again. " +
		"In a list, each item is counted or rejected on its own, and its result says what is wrong with it; a single increment is refused with the status of its error. " +
		"Increments of one user that are counted together all have the reached_at of the latest and, where the best counts, the best score. " +
		"With a single increment, `?include=me` adds its user's score and places, as GET /v1/boards/{board}/me has them: never older than this increment.",
	bodies: []any{increment{}, increments{}},
	list:   true,
	errors: []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeEventIDConflict,
		models.CodeScoreOutOfRange, models.CodeEventNotOpen, models.CodeOccurredAtInvalid},
}

type incrementsInput struct {
	Board string `path:"board" doc:"The board's name" example:"gifts-spring"`
	IncludeMe
	RawBody []byte
}

// incrementResult is the result of one increment.
type incrementResult struct {
	EventID   string            `json:"event_id" doc:"The increment's id; empty if it could not be read"`
	Status    ledger.Status     `json:"status" enum:"applied,duplicate,rejected" doc:"applied: it is counted; duplicate: the same increment was counted before; rejected: it is not counted"`
	Score     *int64            `json:"score" nullable:"true" doc:"The user's score after it; for a duplicate, after the first time; null if it was rejected"`
	ReachedAt *models.Timestamp `json:"reached_at" nullable:"true" format:"date-time" doc:"The server's time at which that score was reached; null if it was rejected"`
	Code      models.Code       `json:"code,omitempty" doc:"Why it was rejected"`
	Detail    string            `json:"detail,omitempty" doc:"What a person should know and do about it"`
}

type incrementResults struct {
	Results []incrementResult  `json:"results" nullable:"false" doc:"The result of each increment, in the order in which they were sent"`
	Me      **ranking.Standing `json:"me,omitzero" doc:"With include=me: the place of the increment's user, with this increment; null if the board lacks it for now, or if the place can't be read in half a second"`
}

func (h *incrementHandlers) add(ctx context.Context, in *incrementsInput) (*output[incrementResults], error) {
	body, err := parseIncrements(in.RawBody)
	if err != nil {
		return nil, err
	}
	if body.list && in.Include != "" {
		return nil, models.Invalid("query.include", "is for a single increment: leave it out, or send user_id, delta and event_id")
	}
	results, err := h.increments.Add(ctx, in.Board, body.items)
	if err != nil {
		return nil, err
	}
	if !body.list && results[0].Err != nil {
		return nil, body.locate(0, results[0].Err, "body")
	}
	applied := 0
	for i := range results {
		if err := body.record(i, &results[i]); err != nil {
			return nil, err
		}
		if results[i].Status == ledger.Applied {
			applied++
		}
	}
	h.accepted.WithLabelValues(in.Board).Add(float64(applied))
	answer := incrementResults{Results: body.results}
	if in.Include != "" {
		answer.Me = new(*ranking.Standing)
		if !results[0].Unraised {
			*answer.Me = h.rankings.after(ctx, ranking.Query{Board: in.Board, Viewer: body.items[0].User})
		}
	}
	return &output[incrementResults]{answer}, nil
}

// incrementList is a decoded body.
type incrementList struct {
	list bool // sent as {"increments":[…]}
	// items are the increments that could be decoded, positions their positions in
	// the body.
	items     []ledger.Increment
	positions []int
	// results has one element for each item of the body. Those of items that could
	// not be decoded are filled in already.
	results []incrementResult
}

// record stores the result of an item. An error that is not about the item is returned instead.
func (l *incrementList) record(i int, r *ledger.Result) error {
	at := l.positions[i]
	if r.Err != nil {
		err := l.locate(i, r.Err, incrementLocation(at))
		var known *models.Error
		if !errors.As(err, &known) {
			return err
		}
		l.reject(at, r.EventID, known)
		return nil
	}
	l.results[at] = incrementResult{EventID: r.EventID, Status: r.Status, Score: &r.Score, ReachedAt: &r.ReachedAt}
	return nil
}

// reject stores the error of an item.
func (l *incrementList) reject(at int, eventID string, err *models.Error) {
	l.results[at] = incrementResult{EventID: eventID, Status: ledger.Rejected, Code: err.Code, Detail: err.Message}
}

func incrementLocation(i int) string { return "body.increments[" + strconv.Itoa(i) + "]" }

// parseIncrements parses a body: one valid increment, or a list whose broken
// items are rejected one by one.
func parseIncrements(body []byte) (*incrementList, error) {
	var in struct {
		Increments *[]jsontext.Value `json:"increments"`
		UserID     *jsontext.Value   `json:"user_id"`
		Delta      *jsontext.Value   `json:"delta"`
		Score      *jsontext.Value   `json:"score"`
		EventID    *jsontext.Value   `json:"event_id"`
		OccurredAt *jsontext.Value   `json:"occurred_at"`
	}
	if err := decodeBody(body, &in); err != nil {
		return nil, err
	}
	if in.Increments == nil {
		item, err := parseIncrement(body, func() string { return "body" })
		if err != nil {
			return nil, err
		}
		return &incrementList{items: []ledger.Increment{item}, positions: []int{0}, results: make([]incrementResult, 1)}, nil
	}
	if cmp.Or(in.UserID, in.Delta, in.Score, in.EventID, in.OccurredAt) != nil {
		return nil, models.Invalid("body", "send one increment, or increments, not both")
	}
	raw := *in.Increments
	if len(raw) < 1 || len(raw) > maxIncrements {
		return nil, models.Invalid("body.increments", fmt.Sprintf("has 1 to %d items", maxIncrements))
	}
	l := &incrementList{
		list: true, results: make([]incrementResult, len(raw)),
		items: make([]ledger.Increment, 0, len(raw)), positions: make([]int, 0, len(raw)),
	}
	for i, value := range raw {
		item, err := parseIncrement(value, func() string { return incrementLocation(i) })
		if err != nil {
			l.reject(i, eventIDOf(value), err)
			continue
		}
		l.items, l.positions = append(l.items, item), append(l.positions, i)
	}
	return l, nil
}

// parseIncrement parses an item. at returns its location in the body; most items need none.
func parseIncrement(raw []byte, at func() string) (ledger.Increment, *models.Error) {
	var item increment
	if err := json.Unmarshal(raw, &item, json.RejectUnknownMembers(true)); err != nil {
		return ledger.Increment{}, bodyError(at(), raw, err)
	}
	switch {
	case item.UserID == nil:
		return ledger.Increment{}, models.Invalid(at()+".user_id", "is required")
	case item.Delta == nil && item.Score == nil:
		return ledger.Increment{}, models.Invalid(at()+".delta", "is required, or score on boards that take the best")
	case item.Delta != nil && item.Score != nil:
		return ledger.Increment{}, models.Invalid(at(), "has delta or score, not both")
	case item.EventID == nil:
		return ledger.Increment{}, models.Invalid(at()+".event_id", "is required")
	}
	inc := ledger.Increment{User: *item.UserID, Result: item.Score != nil, EventID: *item.EventID}
	inc.Amount = int64(*cmp.Or(item.Delta, item.Score))
	if item.OccurredAt != nil {
		occurred := models.TimestampOf(*item.OccurredAt)
		inc.OccurredAt = &occurred
	}
	return inc, nil
}

// eventIDOf returns the event_id of an item that can't be decoded as a whole; ""
// if it has none.
func eventIDOf(raw jsontext.Value) string {
	var item struct {
		EventID jsontext.Value `json:"event_id"`
	}
	var id string
	if json.Unmarshal(raw, &item) != nil || json.Unmarshal(item.EventID, &id) != nil {
		return ""
	}
	return id
}

// locate adds the location in the body to the error of an item.
func (l *incrementList) locate(i int, err error, at string) error {
	var known *models.Error
	if !errors.As(err, &known) {
		return err
	}
	switch known.Code {
	case models.CodeValidationFailed:
		for _, f := range known.Fields {
			return models.Invalid(at+"."+f.Location, f.Message)
		}
	case models.CodeScoreOutOfRange:
		if l.items[i].Result {
			return known.At(at + ".score")
		}
		return known.At(at + ".delta")
	case models.CodeOccurredAtInvalid:
		return known.At(at + ".occurred_at")
	case models.CodeEventIDConflict:
		return known.At(at + ".event_id")
	}
	return err
}
