package handlers

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"

	"stepboard/models"
	"stepboard/services/audit"
)

// DeadLetterService keeps updates that were accepted into the queue and could
// not be applied.
type DeadLetterService interface {
	List(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error)
	Replay(ctx context.Context, id int64) error
	Delete(ctx context.Context, id int64) error
}

// deadLetterHandlers serves the dead letters to operators.
type deadLetterHandlers struct {
	deadLetters DeadLetterService
	cursors     CursorSealer
}

var listDeadLetters = operation{
	id:      "listDeadLetters",
	summary: "List what could not be applied",
	description: "Updates that were accepted into the queue and can't be applied, newest first, with the reason. " +
		"A message that can't be decoded is shown as it was queued.",
	errors: []models.Code{models.CodeInvalidCursor},
}

// deadLetter is a dead letter as operators see it. What the update says is null if the
// message can't be decoded, and the payload is null otherwise.
type deadLetter struct {
	ID        string            `json:"id" doc:"The dead letter's id in other calls"`
	Position  string            `json:"position" doc:"Its position in the queue"`
	Reason    string            `json:"reason" doc:"Why it can't be applied"`
	Board     *string           `json:"board" nullable:"true" doc:"The update's board; null if the message can't be decoded"`
	Bucket    *string           `json:"bucket" nullable:"true" doc:"The board's bucket: a day, such as 20261120"`
	UserID    *models.UserID    `json:"user_id" nullable:"true" doc:"The user; null also if no such user exists"`
	Score     *int64            `json:"score" nullable:"true" doc:"The user's total"`
	ReachedAt *models.Timestamp `json:"reached_at" format:"date-time" nullable:"true" doc:"When the total was reached"`
	Payload   *string           `json:"payload" nullable:"true" contentEncoding:"base64" doc:"The message as it was queued, if it can't be decoded; otherwise null"`
	QueuedAt  models.Timestamp  `json:"queued_at" format:"date-time" doc:"When it was accepted into the queue"`
	FailedAt  models.Timestamp  `json:"failed_at" format:"date-time" doc:"When applying it failed"`
}

func newDeadLetter(l models.DeadLetter) deadLetter {
	shown := deadLetter{
		ID: strconv.FormatInt(l.ID, 10), Position: l.Position, Reason: l.Reason,
		QueuedAt: models.TimestampOf(l.QueuedAt), FailedAt: models.TimestampOf(l.FailedAt),
	}
	if l.Update == nil {
		payload := base64.StdEncoding.EncodeToString(l.Payload)
		shown.Payload = &payload
		return shown
	}
	u := l.Update
	shown.Board, shown.Bucket, shown.Score, shown.ReachedAt = &u.Board, &u.Bucket, &u.Score, &u.ReachedAt
	if u.User != "" {
		shown.UserID = &u.User
	}
	return shown
}

type deadLettersOutput struct {
	Body struct {
		DeadLetters []deadLetter `json:"dead_letters" nullable:"false" doc:"This page, newest first"`
		NextCursor  *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
	}
}

func (h *deadLetterHandlers) list(ctx context.Context, in *struct{ Paging }) (*deadLettersOutput, error) {
	const scope = "dead-letters"
	before, err := in.beforeID(ctx, h.cursors, scope)
	if err != nil {
		return nil, err
	}
	list, err := h.deadLetters.List(ctx, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &deadLettersOutput{}
	out.Body.DeadLetters, out.Body.NextCursor = showPage(list, in.Limit, newDeadLetter, func(l models.DeadLetter) string {
		return cursorAfterID(h.cursors, l.ID, scope)
	})
	return out, nil
}

type deadLetterInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The dead letter's id"`
}

func (in *deadLetterInput) about() (audit.Entry, bool) {
	return audit.Entry{AuditEntry: models.AuditEntry{Target: strconv.FormatInt(in.ID, 10)}}, false
}

var replayDeadLetter = operation{
	id:      "replayDeadLetter",
	summary: "Apply a dead letter after all",
	description: "Applies the update and removes it from the list, once the reason for its failure is repaired. " +
		"If it still can't be applied, validation_failed says why.",
	status: http.StatusNoContent,
	errors: []models.Code{models.CodeNotFound},
}

func (h *deadLetterHandlers) replay(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, h.deadLetters.Replay(ctx, in.ID)
}

var deleteDeadLetter = operation{
	id:          "deleteDeadLetter",
	summary:     "Delete a dead letter",
	description: "Deletes the update for good. If it does not exist, nothing changes.",
	status:      http.StatusNoContent,
}

func (h *deadLetterHandlers) delete(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, h.deadLetters.Delete(ctx, in.ID)
}
