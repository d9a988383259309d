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
	targets Targets
	boards  Boards
	records Records
}

// Records returns what is known of users.
type Records interface {
	// Records returns the record of each user, by position; one without a user id if
	// the user does not exist. CodeUnavailable if a store is away.
	Records(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error)
}

// NewDeadLetters returns the service over a store.
func NewDeadLetters(store *DeadLetterStore, targets Targets, boards Boards, records Records) *DeadLetters {
	return &DeadLetters{store: store, targets: targets, boards: boards, records: records}
}

// List returns a page of dead letters, newest first, behind the given id. 0
// begins at the newest. Each has its update, if that can be decoded. One query, and
// the lookup of the users.
func (d *DeadLetters) List(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error) {
	page, err := d.store.list(ctx, before, limit)
	if err != nil {
		return nil, err
	}
	var readable []int // positions
	var rows []models.RowID
	for i, deadLetter := range page {
		u, err := DecodeUpdate(deadLetter.Payload)
		if err != nil {
			continue
		}
		page[i].Update = &models.QueuedUpdate{Board: u.Board, Bucket: u.Bucket, Score: u.Score, ReachedAt: u.ReachedAt}
		readable, rows = append(readable, i), append(rows, u.User)
	}
	records, err := d.records.Records(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i, record := range records {
		page[readable[i]].Update.User = record.User
	}
	return page, nil
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
	raise, err := d.targets.resolve(ctx, deadLetter.Payload)
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
