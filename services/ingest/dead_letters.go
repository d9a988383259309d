package ingest

import (
	"cmp"
	"context"

	"stepboard/models"
)

// DeadLetters lets an operator see and settle what could not be applied. Safe
// for concurrent use.
type DeadLetters struct {
	store   *DeadLetterStore
	buckets Buckets
	boards  Boards
}

// NewDeadLetters makes a service.
func NewDeadLetters(store *DeadLetterStore, buckets Buckets, boards Boards) *DeadLetters {
	return &DeadLetters{store: store, buckets: buckets, boards: boards}
}

// List is a page of letters, newest first, behind the given id; 0 begins at the
// newest. One query.
func (d *DeadLetters) List(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error) {
	return d.store.list(ctx, before, limit)
}

// Replay applies a letter after all and deletes it: its bucket may be there by
// now, or this version may know how to read it. CodeNotFound where there is no
// such letter, CodeValidationFailed where it still can't be applied. A letter
// that is applied twice changes nothing.
func (d *DeadLetters) Replay(ctx context.Context, id int64) error {
	letter, err := d.store.find(ctx, id)
	if err != nil {
		return err
	}
	raise, err := resolve(ctx, d.buckets, letter.Payload)
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

// Delete gives a letter up, for good. Where there is none nothing changes.
func (d *DeadLetters) Delete(ctx context.Context, id int64) error { return d.store.remove(ctx, id) }
