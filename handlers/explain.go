package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// ExplanationService explains scores.
type ExplanationService interface {
	Explain(ctx context.Context, q ranking.Query) (*ranking.Explanation, error)
}

// explanationHandlers serves explanations of scores.
type explanationHandlers struct {
	explanations ExplanationService
}

// TimedScore is a score and when it was reached.
type TimedScore struct {
	Score     int64            `json:"score" doc:"The score" example:"12345"`
	ReachedAt models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was reached" example:"2026-11-20T13:00:00.123Z"`
}

// nextScore is what counts after a run of the archive.
type nextScore struct {
	Score     *int64            `json:"score" doc:"The score; null if none counts then"`
	ReachedAt *models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was reached; null without a score"`
}

func nextScoreOf(s *ranking.TimedScore) *nextScore {
	if s == nil {
		return &nextScore{}
	}
	return &nextScore{&s.Score, &s.ReachedAt}
}

// explainedCorrection is a correction as its user sees it.
type explainedCorrection struct {
	Kind    models.CorrectionKind `json:"kind" enum:"set,exclude" doc:"set: the score was replaced by one that ranks no better; exclude: the user is not ranked"`
	Since   models.Timestamp      `json:"since" format:"date-time" doc:"When it was made"`
	Message string                `json:"message" doc:"What an operator tells the user; empty for nothing"`
	Reason  *string               `json:"reason,omitempty" nullable:"false" doc:"Why it was made. For operators"`
}

// explainedHold is a held total as its user sees it.
type explainedHold struct {
	TimedScore
	State   models.HoldState `json:"state" enum:"open,rejected,released" doc:"open: nobody has looked at it; released: it counts like any other; rejected: it does not count"`
	Message string           `json:"message" doc:"What an operator tells the user; empty for nothing"`
	Reason  *string          `json:"reason,omitempty" nullable:"false" doc:"Why it was decided. For operators"`
}

// Explanation says why a score is what it is.
type Explanation struct {
	Board      string               `json:"board" doc:"The board's name" example:"steps"`
	Date       string               `json:"date" format:"date" doc:"The day" example:"2026-11-20"`
	Score      *int64               `json:"score" doc:"What counts; null without a score" example:"12345"`
	ReachedAt  *models.Timestamp    `json:"reached_at" format:"date-time" doc:"When it was reached; null without a score"`
	Reported   *TimedScore          `json:"reported" doc:"The best that was reported, if something else counts; null otherwise"`
	Pending    *nextScore           `json:"pending" doc:"What counts after the archive's next run, if that is something else; null otherwise"`
	Held       *explainedHold       `json:"held" doc:"The largest total of the user that was unusually large, and what became of it; null for none"`
	Correction *explainedCorrection `json:"correction" doc:"An operator's decision that holds; null for none"`
	OpenUntil  models.Timestamp     `json:"open_until" format:"date-time" doc:"Until when the day takes uploads"`
	Final      bool                 `json:"final" doc:"True once the day takes no more uploads"`
	Archived   bool                 `json:"archived" doc:"Whether the day is in the archive"`
}

// explanationOf returns the answer to a query, without what only operators see.
func explanationOf(board string, e *ranking.Explanation) Explanation {
	answer := Explanation{
		Board: board, Date: e.Date.String(), OpenUntil: models.TimestampOf(e.OpenUntil), Final: e.Final, Archived: e.Archived,
	}
	if s := e.Score; s != nil {
		answer.Score, answer.ReachedAt = &s.Score, &s.ReachedAt
	}
	if s := e.Reported; s != nil {
		answer.Reported = &TimedScore{s.Score, s.ReachedAt}
	}
	if e.Changes {
		answer.Pending = nextScoreOf(e.Next)
	}
	if h := e.Held; h != nil {
		answer.Held = &explainedHold{TimedScore: TimedScore{h.Score, models.TimestampOf(h.ReachedAt)}, State: h.State, Message: h.Message}
	}
	if c := e.Correction; c != nil {
		answer.Correction = &explainedCorrection{Kind: c.Kind, Since: models.TimestampOf(c.CreatedAt), Message: c.Message}
	}
	return answer
}

var explainOwn = operation{
	id:      "explainScore",
	summary: "Explain one's own score",
	description: "Why the user's score of a day is what it is, such as `?date=2026-11-19`: what counts and since when, what was reported if that is something else, " +
		"a held total, an operator's decision with its message, and until when the day can change. It is read from the stores, and names nobody else. Daily boards only.",
	errors: dayErrors(),
}

func (h *explanationHandlers) own(ctx context.Context, q ranking.Query, in *DayInput) (*output[Explanation], error) {
	e, err := h.explanations.Explain(ctx, q)
	if err != nil {
		return nil, err
	}
	return &output[Explanation]{explanationOf(in.Board, e)}, nil
}

var explainUser = operation{
	id:          "explainUserScore",
	summary:     "Explain a user's score",
	description: "What GET /v1/boards/{board}/me/explain tells the user, with the reason of a correction. Without a date it is the latest day that has begun anywhere.",
	errors:      []models.Code{models.CodeUserNotFound, models.CodeBoardNotFound, models.CodeBoardKind, models.CodeDateInFuture},
}

type explainUserInput struct {
	ID    models.UserID `path:"id" doc:"The user" example:"1001"`
	Board string        `query:"board" required:"true" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"The board's name" example:"steps"`
	Date  string        `query:"date" doc:"The day, YYYY-MM-DD; today if it is left out" format:"date"`
}

func (h *explanationHandlers) ofUser(ctx context.Context, in *explainUserInput) (*output[Explanation], error) {
	e, err := h.explanations.Explain(ctx, ranking.Query{Board: in.Board, Viewer: in.ID, Date: optionalDate(in.Date), Offset: models.EasternmostOffset()})
	switch {
	case err != nil:
		return nil, err
	case !e.Exists:
		return nil, models.NoUser(in.ID)
	}
	answer := explanationOf(in.Board, e)
	if e.Correction != nil {
		answer.Correction.Reason = &e.Correction.Reason
	}
	if e.Held != nil && e.Held.State != models.HoldOpen {
		answer.Held.Reason = &e.Held.Reason
	}
	return &output[Explanation]{answer}, nil
}
