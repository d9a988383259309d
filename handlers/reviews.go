package handlers

import (
	"context"
	"strconv"

	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/reviews"
)

// ReviewService keeps the scores that operators should look at.
type ReviewService interface {
	List(ctx context.Context, q reviews.Query) ([]models.Review, error)
	Dismiss(ctx context.Context, d reviews.Dismissal) (models.Review, error)
}

// reviewHandlers serves the scores to look at to operators.
type reviewHandlers struct {
	reviews ReviewService
	cursors CursorSealer
}

var listReviews = operation{
	id:      "listReviews",
	summary: "List scores to look at",
	description: "Scores above the review_above of their board that nobody has looked at, newest first. A job finds them within " +
		"about a minute. A score that rises while it is on the list keeps its place.",
}

// review is a score to look at as operators see it.
type review struct {
	ID            string            `json:"id" doc:"The review's id in other calls"`
	Board         string            `json:"board" doc:"The board's name"`
	Date          *string           `json:"date" nullable:"true" format:"date" example:"2026-11-20" doc:"The day; null if the board has no days"`
	UserID        *models.UserID    `json:"user_id" nullable:"true" doc:"The user; null if no such user exists"`
	Nickname      string            `json:"nickname" doc:"Empty while unset, and without a user"`
	Score         int64             `json:"score" doc:"The highest score that was found; of a dismissed review the one that was looked at"`
	ReachedAt     models.Timestamp  `json:"reached_at" format:"date-time" doc:"When the highest score was reached"`
	FirstSeenAt   models.Timestamp  `json:"first_seen_at" format:"date-time" doc:"When a score above review_above was first found"`
	DismissedAt   *models.Timestamp `json:"dismissed_at" format:"date-time" nullable:"true" doc:"When it was dismissed; null while it is on the list"`
	DismissedBy   *models.UserID    `json:"dismissed_by" nullable:"true" doc:"The sub of the token by which it was dismissed; null likewise"`
	DismissReason *string           `json:"dismiss_reason" nullable:"true" doc:"The reason that was given; null likewise"`
}

func reviewOf(r models.Review) review {
	shown := review{
		ID: strconv.FormatInt(r.ID, 10), Board: r.Board, Date: dateIfAny(r.Date), UserID: unlessZero(r.User), Nickname: r.Nickname, Score: r.Score,
		ReachedAt: models.TimestampOf(r.ReachedAt), FirstSeenAt: models.TimestampOf(r.FirstSeenAt),
	}
	if r.DismissedAt != nil {
		shown.DismissedAt, shown.DismissedBy, shown.DismissReason = timestampIfAny(r.DismissedAt), &r.DismissedBy, &r.DismissReason
	}
	return shown
}

type listReviewsInput struct {
	Board  string        `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"Scores on this board only"`
	UserID models.UserID `query:"user_id" doc:"Scores of this user only"`
	Paging
}

type reviewPage struct {
	Reviews    []review `json:"reviews" nullable:"false" doc:"This page, newest first"`
	NextCursor *string  `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *reviewHandlers) list(ctx context.Context, in *listReviewsInput) (*output[reviewPage], error) {
	list, next, err := pageOf(ctx, h.cursors, in.Paging, reviewOf, func(after models.Cursor, limit int) ([]models.Review, error) {
		return h.reviews.List(ctx, reviews.Query{Board: in.Board, User: in.UserID, Before: after.Key, Limit: limit})
	}, "reviews", in.Board, string(in.UserID))
	return outputOf(reviewPage{list, next}, err)
}

var dismissReview = operation{
	id:      "dismissReview",
	summary: "Take a score off the list",
	description: "Says that somebody has looked at the score. It appears again if it rises further, on a rolling board also after the " +
		"hours of its window. A review that was dismissed before stays as it is.",
	errors: []models.Code{models.CodeNotFound},
}

type dismissInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The review's id"`
	DryRun
	Body *dismissal // nil without a body
}

// dismissal says what an operator has found.
type dismissal struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why the score is fine"`
	Score  *int64 `json:"score,omitempty" minimum:"0" doc:"The score that was looked at; if a higher one was found meanwhile, that appears again"`
}

func (in *dismissInput) about(e *audit.Entry) {
	e.Target = strconv.FormatInt(in.ID, 10)
	if in.Body != nil {
		e.Reason = in.Body.Reason
	}
}

func (h *reviewHandlers) dismiss(ctx context.Context, in *dismissInput) (*output[review], error) {
	operator, err := operatorFrom(ctx)
	if err != nil {
		return nil, err
	}
	d := reviews.Dismissal{ID: in.ID, By: operator, DryRun: in.isDryRun()}
	if in.Body != nil {
		d.Reason, d.Score = in.Body.Reason, in.Body.Score
	}
	r, err := h.reviews.Dismiss(ctx, d)
	return outputOf(reviewOf(r), err)
}
