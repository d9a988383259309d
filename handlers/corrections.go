package handlers

import (
	"context"
	"net/http"
	"strconv"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/operations/audit"
)

// CorrectionService makes and lifts corrections of scores.
type CorrectionService interface {
	Create(ctx context.Context, r corrections.Request) (corrections.Entry, error)
	Lift(ctx context.Context, l corrections.Lifting) (corrections.Entry, error)
	List(ctx context.Context, q corrections.Query) ([]corrections.Entry, error)
}

// correctionHandlers serves corrections to operators.
type correctionHandlers struct {
	corrections CorrectionService
	cursors     CursorSealer
}

// DryRun is the parameter of calls that can say what they would do.
type DryRun struct {
	DryRun bool `query:"dry_run" doc:"Change nothing, and only say what would change"`
}

func (in DryRun) isDryRun() bool { return in.DryRun }

// status returns the status of a call that has succeeded: done, or 200 for a dry run.
func (in DryRun) status(done int) int {
	if in.DryRun {
		return http.StatusOK
	}
	return done
}

// correction is a correction as operators see it.
type correction struct {
	ID         *string               `json:"id" nullable:"true" doc:"The correction's id in other calls; null in a dry run"`
	Board      string                `json:"board" doc:"The board's name"`
	Date       *string               `json:"date" nullable:"true" format:"date" doc:"The day; null if it holds on all days from first_date on, and on event and rolling boards"`
	FirstDate  *string               `json:"first_date" nullable:"true" format:"date" doc:"The first day on which it holds; null on event and rolling boards"`
	UserID     *models.UserID        `json:"user_id" nullable:"true" doc:"The user; null if the user no longer exists"`
	Nickname   string                `json:"nickname" doc:"Empty while unset, without a user, and in the answer to createCorrection"`
	Kind       models.CorrectionKind `json:"kind" enum:"set,exclude" doc:"set: the score is replaced by one that ranks no better; exclude: the user is not ranked"`
	Score      *int64                `json:"score" nullable:"true" doc:"The score that is shown instead; null for exclude"`
	Before     *int64                `json:"before" nullable:"true" doc:"The user's score when the correction was made, on first_date if there is one; null without a score"`
	Reason     string                `json:"reason" doc:"Why it was made"`
	Message    string                `json:"message" doc:"What the user is told of it; empty for nothing"`
	Actor      string                `json:"actor" doc:"Who has made it: the token's sub, or --actor of the command"`
	CreatedAt  models.Timestamp      `json:"created_at" format:"date-time" doc:"When it was made"`
	State      correctionState       `json:"state" enum:"pending,applied" doc:"pending while archived days or events have to be ranked anew, for the correction or for its lifting"`
	LiftedAt   *models.Timestamp     `json:"lifted_at" nullable:"true" format:"date-time" doc:"When it was lifted; null while it holds"`
	LiftedBy   *string               `json:"lifted_by" nullable:"true" doc:"Who has lifted it; null while it holds"`
	LiftReason *string               `json:"lift_reason" nullable:"true" doc:"Why it was lifted; null while it holds"`
}

// correctionState says whether the archive has applied a correction.
type correctionState string

const (
	correctionPending correctionState = "pending"
	correctionApplied correctionState = "applied"
)

func correctionOf(e corrections.Entry) correction {
	c := correction{
		Board: e.Board, Kind: e.Kind, Score: e.Score, Before: e.BeforeScore, Reason: e.Reason, Message: e.Message, Actor: e.Actor,
		UserID: unlessZero(e.UserID), Nickname: e.Nickname, CreatedAt: models.TimestampOf(e.CreatedAt), State: correctionApplied,
	}
	if e.ID != 0 {
		c.ID = new(strconv.FormatInt(e.ID, 10))
	}
	if e.Days {
		day := e.Day.String()
		c.FirstDate = &day
		if e.Bucket != nil {
			c.Date = &day
		}
	}
	if e.Pending {
		c.State = correctionPending
	}
	if e.LiftedAt != nil {
		c.LiftedAt, c.LiftedBy, c.LiftReason = timestampIfAny(e.LiftedAt), &e.LiftedBy, &e.LiftReason
	}
	return c
}

var createCorrection = operation{
	id:      "createCorrection",
	summary: "Correct a score",
	description: "Lowers a user's score of a day (on a board with order low: raises it), such as `{\"board\":\"steps\",\"date\":\"2026-11-20\",\"user_id\":\"1001\",\"kind\":\"set\",\"score\":9000,\"reason\":\"the phone was shaken\"}`, " +
		"or excludes the user with `\"kind\":\"exclude\"`: from that day, or without a date from today on. Events and rolling boards take no date; on a rolling board a user can only be excluded. " +
		"It holds until it is lifted, whatever is reported or counted meanwhile. " +
		"Friend rankings show it within three seconds, global lists within ten. Archived days and events are ranked anew by a job; until then the state is pending. " +
		"correction_raises: the score would rank before the user's; correction_exists: another correction holds; " +
		"board_kind: the board takes no date, or it is a rolling board, whose scores can't be set; not_found: nothing was reported for that day.",
	otherStatus: http.StatusCreated,
	errors: []models.Code{models.CodeBoardNotFound, models.CodeUserNotFound, models.CodeNotFound, models.CodeBoardKind, models.CodeDateInFuture,
		models.CodeCorrectionRaises, models.CodeCorrectionExists},
}

type createCorrectionInput struct {
	DryRun
	Body newCorrection
}

// newCorrection is a correction to make.
type newCorrection struct {
	Board  string                `json:"board" doc:"The board's name" example:"steps"`
	Date   *string               `json:"date,omitempty" nullable:"true" doc:"The day, YYYY-MM-DD; without one an exclusion holds from today until it is lifted. Event and rolling boards take none" example:"2026-11-20"`
	UserID models.UserID         `json:"user_id" doc:"The user" example:"1001"`
	Kind   models.CorrectionKind `json:"kind" enum:"set,exclude" doc:"set makes the score worse, exclude removes the user from the ranking"`
	Score  *int64                `json:"score,omitempty" nullable:"true" minimum:"0" doc:"The score to show instead, which ranks no better than the user's; for set only" example:"9000"`
	Reason string                `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for other operators, and in the user's own export" example:"the phone was shaken"`
	// Message is for the user, unlike Reason.
	Message string `json:"message,omitempty" maxLength:"200" doc:"What the user is told of it: plain text without line breaks. The page shows no reasons" example:"These steps look like a shaken phone. Ask us if they were not."`
}

func (in *createCorrectionInput) about(e *audit.Entry) {
	e.User, e.Board, e.Reason = in.Body.UserID, in.Body.Board, in.Body.Reason
	if in.Body.Date != nil {
		e.Bucket = *in.Body.Date
	}
}

func (h *correctionHandlers) create(ctx context.Context, in *createCorrectionInput) (*statusOutput[correction], error) {
	operator, err := operatorFrom(ctx)
	if err != nil {
		return nil, err
	}
	b := in.Body
	r := corrections.Request{
		Board: b.Board, User: b.UserID, Kind: b.Kind, Score: b.Score, Reason: b.Reason, Message: b.Message, Actor: string(operator), DryRun: in.isDryRun(),
	}
	if b.Date != nil {
		day, err := models.ParseDate(*b.Date)
		if err != nil {
			return nil, models.Invalid("body.date", err.Error())
		}
		r.Date = &day
	}
	c, err := h.corrections.Create(ctx, r)
	return statusOutputOf(in.status(http.StatusCreated), correctionOf(c), err)
}

var liftCorrection = operation{
	id:      "liftCorrection",
	summary: "Lift a correction",
	description: "Ends a correction: all that was reported or counted for the user counts again, also what came while it held. " +
		"One that was lifted before stays as it is. Archived days and events are ranked anew by a job; until then the state is pending.",
	errors: []models.Code{models.CodeNotFound},
}

type liftCorrectionInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The correction's id"`
	DryRun
	Body correctionLifting
}

// correctionLifting says why a correction ends.
type correctionLifting struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for other operators, and in the user's own export" example:"it was a marathon"`
}

func (in *liftCorrectionInput) about(e *audit.Entry) {
	e.Target, e.Reason = strconv.FormatInt(in.ID, 10), in.Body.Reason
}

func (h *correctionHandlers) lift(ctx context.Context, in *liftCorrectionInput) (*output[correction], error) {
	operator, err := operatorFrom(ctx)
	if err != nil {
		return nil, err
	}
	c, err := h.corrections.Lift(ctx, corrections.Lifting{
		ID: in.ID, Reason: in.Body.Reason, Actor: string(operator), DryRun: in.isDryRun(),
	})
	return outputOf(correctionOf(c), err)
}

var listCorrections = operation{
	id:          "listCorrections",
	summary:     "List the corrections",
	description: "Every correction that was ever made, newest first; `?active=true` lists those that hold.",
}

type listCorrectionsInput struct {
	Board  string        `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"Corrections on this board only"`
	UserID models.UserID `query:"user_id" doc:"Corrections of this user only"`
	Date   string        `query:"date" format:"date" doc:"Corrections that concern this day only: those of the day, and exclusions from all days that include it. An event counts for its last day"`
	Active bool          `query:"active" doc:"Only those that hold"`
	Paging
}

type correctionPage struct {
	Corrections []correction `json:"corrections" nullable:"false" doc:"This page, newest first"`
	NextCursor  *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *correctionHandlers) list(ctx context.Context, in *listCorrectionsInput) (*output[correctionPage], error) {
	list, next, err := pageOf(ctx, h.cursors, in.Paging, correctionOf, func(after models.Cursor, limit int) ([]corrections.Entry, error) {
		return h.corrections.List(ctx, corrections.Query{
			Board: in.Board, User: in.UserID, Day: optionalDate(in.Date), Active: in.Active, Before: after.Key, Limit: limit,
		})
	}, "corrections", in.Board, string(in.UserID), in.Date, strconv.FormatBool(in.Active))
	return outputOf(correctionPage{list, next}, err)
}
