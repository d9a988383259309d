package handlers

import (
	"context"
	"strconv"

	"stepboard/models"
	"stepboard/services/boards/holds"
	"stepboard/services/operations/audit"
)

// HoldService keeps held totals, about which operators decide.
type HoldService interface {
	List(ctx context.Context, q holds.Query) ([]models.Hold, error)
	Decide(ctx context.Context, d holds.Decision) (models.Hold, error)
}

// holdHandlers serves held totals to operators.
type holdHandlers struct {
	holds   HoldService
	cursors CursorSealer
}

var listHolds = operation{
	id:      "listHolds",
	summary: "List held totals",
	description: "Uploaded totals above the hold_above of their board, newest first: those about which nobody has decided, or of another state. " +
		"A user has one for a day, the largest. It counts only once it is released.",
}

// hold is a held total as operators see it.
type hold struct {
	ID        string           `json:"id" doc:"The hold's id in other calls"`
	Board     string           `json:"board" doc:"The board's name"`
	Date      string           `json:"date" format:"date" example:"2026-11-20" doc:"The day"`
	UserID    *models.UserID   `json:"user_id" nullable:"true" doc:"The user; null if no such user exists"`
	Nickname  string           `json:"nickname" doc:"Empty while unset, and without a user"`
	Score     int64            `json:"score" doc:"The largest total that was held; of a released hold the one that was released"`
	ReachedAt models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was uploaded"`
	Counting  *int64           `json:"counting" nullable:"true" doc:"The score that counts now; null for none, and after a decision also if it can't be read"`
	HeldAt    models.Timestamp `json:"held_at" format:"date-time" doc:"When a total of the day was first held"`
	State     models.HoldState `json:"state" enum:"open,rejected,released" doc:"open: nobody has decided; rejected: it does not count, but may be released; released: it and later totals of the day count"`
	Pending   bool             `json:"pending" doc:"Whether it is released and has yet to be written, because a store is away. An archived day shows it after the archive's next run"`

	DecidedAt *models.Timestamp `json:"decided_at" format:"date-time" nullable:"true" doc:"When it was decided; null while it is open"`
	DecidedBy *models.UserID    `json:"decided_by" nullable:"true" doc:"The sub of the token by which it was decided; null likewise"`
	Reason    *string           `json:"reason" nullable:"true" doc:"Why, for other operators, and in the user's own export; null likewise"`
	Message   *string           `json:"message" nullable:"true" doc:"What the user is told, or empty; null likewise"`
}

func holdOf(h models.Hold) hold {
	shown := hold{
		ID: strconv.FormatInt(h.ID, 10), Board: h.Board, Date: h.Day.String(), UserID: unlessZero(h.User), Nickname: h.Nickname,
		Score: h.Score, ReachedAt: models.TimestampOf(h.ReachedAt), Counting: h.Counting, HeldAt: models.TimestampOf(h.HeldAt), State: h.State,
		Pending: h.State == models.HoldReleased && h.WrittenAt == nil,
	}
	if h.DecidedAt != nil {
		shown.DecidedAt, shown.DecidedBy, shown.Reason, shown.Message = timestampIfAny(h.DecidedAt), &h.DecidedBy, &h.Reason, &h.Message
	}
	return shown
}

type listHoldsInput struct {
	State  models.HoldState `query:"state" enum:"open,rejected,released" default:"open" doc:"Those in this state"`
	Board  string           `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"Those on this board only"`
	UserID models.UserID    `query:"user_id" doc:"Those of this user only"`
	Paging
}

type holdPage struct {
	Holds      []hold  `json:"holds" nullable:"false" doc:"This page, newest first"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *holdHandlers) list(ctx context.Context, in *listHoldsInput) (*output[holdPage], error) {
	list, next, err := pageOf(ctx, h.cursors, in.Paging, holdOf, func(after models.Cursor, limit int) ([]models.Hold, error) {
		return h.holds.List(ctx, holds.Query{State: in.State, Board: in.Board, User: in.UserID, Before: after.Key, Limit: limit})
	}, "holds", string(in.State), in.Board, string(in.UserID))
	return outputOf(holdPage{list, next}, err)
}

var releaseHold = operation{
	id:      "releaseHold",
	summary: "Release a held total",
	description: "The total counts as if it had been uploaded then, and so do later totals of the user's day; on an archived day, after the archive's next run. " +
		"score is the total that was looked at: 409 if it is a larger one by now. A hold that was released before stays as it is.",
	errors: []models.Code{models.CodeNotFound, models.CodeHoldChanged},
}

var rejectHold = operation{
	id:      "rejectHold",
	summary: "Reject a held total",
	description: "What is above the board's hold_above stays out for the user's day, unless it is released later. " +
		"score is the total that was looked at: 409 if it is a larger one by now, or if the hold was released. A hold that was rejected before stays as it is.",
	errors: []models.Code{models.CodeNotFound, models.CodeHoldChanged},
}

type holdInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The hold's id"`
	DryRun
	Body holdDecision
}

// holdDecision says what an operator has looked at, and why it is decided so.
type holdDecision struct {
	Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for other operators, and in the user's own export" example:"a marathon"`
	Score   int64  `json:"score" minimum:"0" doc:"The total that was looked at" example:"98800"`
	Message string `json:"message,omitempty" maxLength:"200" doc:"What the user is told"`
}

func (in *holdInput) about(e *audit.Entry) {
	e.Target, e.Reason = strconv.FormatInt(in.ID, 10), in.Body.Reason
}

func (h *holdHandlers) release(ctx context.Context, in *holdInput) (*output[hold], error) {
	return h.decide(ctx, in, models.HoldReleased)
}

func (h *holdHandlers) reject(ctx context.Context, in *holdInput) (*output[hold], error) {
	return h.decide(ctx, in, models.HoldRejected)
}

func (h *holdHandlers) decide(ctx context.Context, in *holdInput, state models.HoldState) (*output[hold], error) {
	operator, err := operatorFrom(ctx)
	if err != nil {
		return nil, err
	}
	decided, err := h.holds.Decide(ctx, holds.Decision{
		ID: in.ID, State: state, Score: in.Body.Score, Reason: in.Body.Reason, Message: in.Body.Message, By: operator, DryRun: in.isDryRun(),
	})
	return outputOf(holdOf(decided), err)
}
