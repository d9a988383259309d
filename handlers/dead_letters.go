package handlers

import (
	"context"
	"encoding/base64"
	"strconv"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/audit"
)

// DeadLetterService keeps updates that were accepted into the queue and could
// not be applied.
type DeadLetterService interface {
	List(ctx context.Context, q ingest.DeadLetterQuery) ([]models.DeadLetter, error)
	Replay(ctx context.Context, id int64, dryRun bool) error
	Delete(ctx context.Context, id int64, dryRun bool) error
	ReplaySelected(ctx context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error)
	DeleteSelected(ctx context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error)
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
	Nickname  string            `json:"nickname" doc:"Empty while unset, and without a user"`
	Score     *int64            `json:"score" nullable:"true" doc:"The user's total"`
	ReachedAt *models.Timestamp `json:"reached_at" format:"date-time" nullable:"true" doc:"When the total was reached"`
	Payload   *string           `json:"payload" nullable:"true" contentEncoding:"base64" doc:"The message as it was queued, if it can't be decoded; otherwise null"`
	QueuedAt  models.Timestamp  `json:"queued_at" format:"date-time" doc:"When it was accepted into the queue"`
	FailedAt  models.Timestamp  `json:"failed_at" format:"date-time" doc:"When applying it failed"`
}

func deadLetterOf(l models.DeadLetter) deadLetter {
	shown := deadLetter{
		ID: strconv.FormatInt(l.ID, 10), Position: l.Position, Reason: l.Reason,
		QueuedAt: models.TimestampOf(l.QueuedAt), FailedAt: models.TimestampOf(l.FailedAt),
	}
	if l.Update == nil {
		shown.Payload = new(base64.StdEncoding.EncodeToString(l.Payload))
		return shown
	}
	u := l.Update
	shown.Board, shown.Bucket, shown.UserID, shown.Nickname = &u.Board, &u.Bucket, unlessZero(u.User), u.Nickname
	shown.Score, shown.ReachedAt = &u.Score, &u.ReachedAt
	return shown
}

type deadLetterPage struct {
	DeadLetters []deadLetter `json:"dead_letters" nullable:"false" doc:"This page, newest first"`
	NextCursor  *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

type listDeadLettersInput struct {
	Board  string `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"Updates of this board only"`
	Bucket string `query:"bucket" pattern:"^[a-z0-9]+$" maxLength:"20" doc:"Updates of this bucket only, such as 20261120"`
	Reason string `query:"reason" pattern:"^[ -~]*$" maxLength:"500" doc:"Only those with exactly this reason"`
	Paging
}

func (h *deadLetterHandlers) list(ctx context.Context, in *listDeadLettersInput) (*output[deadLetterPage], error) {
	letters, next, err := pageOf(ctx, h.cursors, in.Paging, deadLetterOf, func(after models.Cursor, limit int) ([]models.DeadLetter, error) {
		return h.deadLetters.List(ctx, ingest.DeadLetterQuery{
			Board: in.Board, Bucket: in.Bucket, Reason: in.Reason, Before: after.Key, Limit: limit,
		})
	}, "dead-letters", in.Board, in.Bucket, in.Reason)
	return outputOf(deadLetterPage{letters, next}, err)
}

type deadLetterInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The dead letter's id"`
	DryRun
}

func (in *deadLetterInput) about(e *audit.Entry) { e.Target = strconv.FormatInt(in.ID, 10) }

var replayDeadLetter = operation{
	id:      "replayDeadLetter",
	summary: "Apply a dead letter after all",
	description: "Applies the update and removes it from the list, once the reason for its failure is repaired. " +
		"If it still can't be applied, validation_failed says why. With `?dry_run=true` it is only checked.",
	errors: []models.Code{models.CodeNotFound},
}

func (h *deadLetterHandlers) replay(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, h.deadLetters.Replay(ctx, in.ID, in.isDryRun())
}

var deleteDeadLetter = operation{
	id:          "deleteDeadLetter",
	summary:     "Delete a dead letter",
	description: "Deletes the update for good. If it does not exist, nothing changes. With `?dry_run=true` not_found says that it does not exist.",
	errors:      []models.Code{models.CodeNotFound},
}

func (h *deadLetterHandlers) delete(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, h.deadLetters.Delete(ctx, in.ID, in.isDryRun())
}

// maxSelected is how many dead letters a call handles at most.
const maxSelected = 1000

type selectedInput struct {
	DryRun
	Body deadLetterSelection
}

// deadLetterSelection selects dead letters.
type deadLetterSelection struct {
	Filter  filterStruct `json:"filter" doc:"Which dead letters; {} for all"`
	Through *string      `json:"through,omitempty" nullable:"true" pattern:"^[1-9][0-9]{0,17}$" doc:"The id of the newest one; left out: the newest that exists. Take it from the list that you have looked at, so that no later one is included"`
	Reason  string       `json:"reason,omitempty" maxLength:"500" doc:"Why, for other operators" example:"the board is back"`
}

// filterStruct is the filter of a deadLetterSelection. Clients know its schema by this name.
type filterStruct struct {
	Board  string `json:"board,omitempty" pattern:"^[a-z0-9-]*$" maxLength:"40" doc:"Updates of this board only"`
	Bucket string `json:"bucket,omitempty" pattern:"^[a-z0-9]*$" maxLength:"20" doc:"Updates of this bucket only" example:"20261120"`
	Reason string `json:"reason,omitempty" pattern:"^[ -~]*$" maxLength:"500" doc:"Only those with exactly this reason"`
}

func (in *selectedInput) about(e *audit.Entry) {
	f := in.Body.Filter
	e.Board, e.Bucket, e.Target, e.Reason = f.Board, f.Bucket, f.Reason, in.Body.Reason
}

// query returns what the call selects.
func (in *selectedInput) query() ingest.DeadLetterQuery {
	f := in.Body.Filter
	q := ingest.DeadLetterQuery{Board: f.Board, Bucket: f.Bucket, Reason: f.Reason, Limit: maxSelected}
	if in.Body.Through != nil {
		through, _ := strconv.ParseInt(*in.Body.Through, 10, 64) // its pattern says that it is a number
		q.Before = through + 1
	}
	return q
}

// handledDeadLetters says what a call has done with dead letters.
type handledDeadLetters struct {
	Done        int     `json:"done" doc:"How many were applied or deleted; in a dry run, how many would be"`
	Failed      int     `json:"failed" doc:"How many still can't be applied, and stay"`
	NextThrough *string `json:"next_through" nullable:"true" pattern:"^[1-9][0-9]{0,17}$" doc:"The through of the next call, which goes on with older ones; null if all were handled"`
}

var replayDeadLetters = operation{
	id:      "replayDeadLetters",
	summary: "Apply the dead letters of a filter",
	description: "Applies the updates that match, newest first, at most 1,000, and removes those that were applied from the list. " +
		"Call again with next_through as through until it is null.",
}

func (h *deadLetterHandlers) replaySelected(ctx context.Context, in *selectedInput) (*output[handledDeadLetters], error) {
	return handleSelected(ctx, in, h.deadLetters.ReplaySelected)
}

var deleteDeadLetters = operation{
	id:      "deleteDeadLetters",
	summary: "Delete the dead letters of a filter",
	description: "Deletes the updates that match for good, newest first, at most 1,000. " +
		"Call again with next_through as through until it is null.",
}

func (h *deadLetterHandlers) deleteSelected(ctx context.Context, in *selectedInput) (*output[handledDeadLetters], error) {
	return handleSelected(ctx, in, h.deadLetters.DeleteSelected)
}

// handleSelected makes one call of a service with what the input selects.
func handleSelected(
	ctx context.Context, in *selectedInput,
	handle func(context.Context, ingest.DeadLetterQuery, bool) (ingest.HandledDeadLetters, error),
) (*output[handledDeadLetters], error) {
	handled, err := handle(ctx, in.query(), in.isDryRun())
	if err != nil {
		return nil, err
	}
	out := &output[handledDeadLetters]{handledDeadLetters{Done: handled.Done, Failed: handled.Failed}}
	if handled.Last > 1 {
		out.Body.NextThrough = new(strconv.FormatInt(handled.Last-1, 10))
	}
	return out, nil
}
