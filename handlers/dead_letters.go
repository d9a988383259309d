package handlers

import (
	"context"
	"strconv"

	"stepboard/models"
)

type deadLetter struct {
	ID       string           `json:"id" doc:"Names it in other calls"`
	Position string           `json:"position" doc:"Where in the queue it was"`
	Reason   string           `json:"reason" doc:"Why it can't be applied"`
	Payload  []byte           `json:"payload" contentEncoding:"base64" doc:"The message as it was"`
	QueuedAt models.Timestamp `json:"queued_at" format:"date-time" doc:"When it was accepted into the queue"`
	FailedAt models.Timestamp `json:"failed_at" format:"date-time" doc:"When it could not be applied"`
}

type deadLettersOutput struct {
	Body struct {
		DeadLetters []deadLetter `json:"dead_letters" nullable:"false" doc:"This page, newest first"`
		NextCursor  *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
	}
}

func (a *api) listDeadLetters(ctx context.Context, in *struct{ Paging }) (*deadLettersOutput, error) {
	const scope = "dead-letters"
	before, err := in.beforeID(scope)
	if err != nil {
		return nil, err
	}
	list, err := a.DeadLetters.List(ctx, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &deadLettersOutput{}
	page := list[:min(len(list), in.Limit)]
	out.Body.DeadLetters = make([]deadLetter, len(page))
	for i, l := range page {
		out.Body.DeadLetters[i] = deadLetter{
			ID: strconv.FormatInt(l.ID, 10), Position: l.Position, Reason: l.Reason, Payload: l.Payload,
			QueuedAt: models.TimestampOf(l.QueuedAt), FailedAt: models.TimestampOf(l.FailedAt),
		}
	}
	if len(list) > len(page) {
		cursor := nextByID(page[len(page)-1].ID, scope)
		out.Body.NextCursor = &cursor
	}
	return out, nil
}

type deadLetterInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The dead letter's id"`
}

func (a *api) replayDeadLetter(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, a.DeadLetters.Replay(ctx, in.ID)
}

func (a *api) deleteDeadLetter(ctx context.Context, in *deadLetterInput) (*struct{}, error) {
	return nil, a.DeadLetters.Delete(ctx, in.ID)
}
