package ingest

import (
	"cmp"
	"context"

	"stepboard/models"
)

// DeadLetters lets operators list, replay and delete dead letters. Safe for
// concurrent use.
type DeadLetters struct {
	store   *DeadLetterStore
	buckets Buckets
	boards  Boards
}

// NewDeadLetters returns the service over a store.
func NewDeadLetters(store *DeadLetterStore, buckets Buckets, boards Boards) *DeadLetters {
	return &DeadLetters{store: store, buckets: buckets, boards: boards}
}

// List returns a page of dead letters, newest first, behind the given id. 0
// begins at the newest. One query.
func (d *DeadLetters) List(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error) {
	return d.store.list(ctx, before, limit)
}

// Replay applies a dead letter after all and deletes it: its bucket may exist
// by now, or this version may be able to decode it. CodeNotFound if there is no
// dead letter of this id, CodeValidationFailed if it still can't be applied.
// Applying one twice changes nothing.
func (d *DeadLetters) Replay(ctx context.Context, id int64) error {
	deadLetter, err := d.store.find(ctx, id)
	if err != nil {
		return err
	}
	raise, err := resolve(ctx, d.buckets, deadLetter.Payload)
	if models.CodeOf(err) == models.CodeUnavailable {
		return err
	}
	if err != nil {
		return models.Errorf(models.CodeValidationFailed, "it still can't be applied: %v", err)
	}
	if err := cmp.Or(d.boards.Raise(ctx, []models.Raise{raise})...); err != nil {
		return err
	}
	return d.store.remove(ctx, id)
}

// Delete deletes a dead letter for good. Without one it changes nothing.
func (d *DeadLetters) Delete(ctx context.Context, id int64) error { return d.store.remove(ctx, id) }
