package ingest

import (
	"cmp"
	"context"

	"stepboard/internal/column"
	"stepboard/models"
)

// DeadLetters lets operators list, replay and delete dead letters. Safe for
// concurrent use.
type DeadLetters struct {
	Store   *DeadLetterStore
	Targets Targets
	Entries Entries
	Records models.Describer
}

// DeadLetterQuery selects dead letters, newest first.
type DeadLetterQuery struct {
	// Board, Bucket and Reason select those that have exactly this; empty selects all.
	Board, Bucket, Reason string
	// Before is the id of the last dead letter of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// List returns a page of dead letters. Each has its update, if that can be decoded. One
// query, and the lookup of the users. CodeUnavailable.
func (d *DeadLetters) List(ctx context.Context, q DeadLetterQuery) ([]models.DeadLetter, error) {
	page, err := d.Store.list(ctx, q)
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
	records, err := d.Records.Records(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i, record := range records {
		u := page[readable[i]].Update
		u.User, u.Nickname = record.User, record.Nickname
	}
	return page, nil
}

// Replay applies a dead letter after all and deletes it: its bucket may exist
// by now, or this version may be able to decode it. CodeNotFound if there is no
// dead letter of this id, CodeValidationFailed if it still can't be applied.
// Applying one twice changes nothing. A dry run only checks that it can be applied.
func (d *DeadLetters) Replay(ctx context.Context, id int64, dryRun bool) error {
	deadLetter, err := d.Store.find(ctx, id)
	if err != nil {
		return err
	}
	raise, err := d.Targets.resolve(ctx, deadLetter.Payload)
	if models.CodeOf(err) == models.CodeUnavailable {
		return err
	}
	if err != nil {
		return models.Errorf(models.CodeValidationFailed, "it still can't be applied: %v", err)
	}
	if dryRun {
		return nil
	}
	if err := cmp.Or(d.Entries.Raise(ctx, []models.Raise{raise})...); err != nil {
		return err
	}
	return d.Store.remove(ctx, id)
}

// Delete deletes a dead letter for good. Without one it changes nothing. A dry run returns
// CodeNotFound without one.
func (d *DeadLetters) Delete(ctx context.Context, id int64, dryRun bool) error {
	if dryRun {
		_, err := d.Store.find(ctx, id)
		return err
	}
	return d.Store.remove(ctx, id)
}

// HandledDeadLetters counts what a call has done with the dead letters that it selects.
type HandledDeadLetters struct {
	// Done were applied or deleted; in a dry run, would be.
	Done int
	// Failed still can't be applied, and stay.
	Failed int
	// Last is the id of the last one looked at, behind which the next call goes on; 0 if
	// no more are selected.
	Last int64
}

// ReplaySelected applies the dead letters of a query, at most q.Limit, and deletes those
// that were applied. Two statements, one batch of raises, and the lookups of buckets and
// users. CodeUnavailable: some may have been applied, and a repeated call applies the
// others. A dry run only counts.
func (d *DeadLetters) ReplaySelected(ctx context.Context, q DeadLetterQuery, dryRun bool) (HandledDeadLetters, error) {
	page, handled, err := d.selected(ctx, q)
	if err != nil {
		return handled, err
	}
	var raises []models.Raise
	var ids []int64
	for _, deadLetter := range page {
		raise, err := d.Targets.resolve(ctx, deadLetter.Payload)
		if models.CodeOf(err) == models.CodeUnavailable {
			return handled, err
		}
		if err != nil {
			handled.Failed++
			continue
		}
		raises, ids = append(raises, raise), append(ids, deadLetter.ID)
	}
	handled.Done = len(ids)
	if dryRun || len(ids) == 0 {
		return handled, nil
	}
	if err := cmp.Or(d.Entries.Raise(ctx, raises)...); err != nil {
		return handled, err
	}
	return handled, d.Store.remove(ctx, ids...)
}

// DeleteSelected deletes the dead letters of a query for good, at most q.Limit. Two
// statements. CodeUnavailable. A dry run only counts.
func (d *DeadLetters) DeleteSelected(ctx context.Context, q DeadLetterQuery, dryRun bool) (HandledDeadLetters, error) {
	page, handled, err := d.selected(ctx, q)
	handled.Done = len(page)
	if err != nil || dryRun || len(page) == 0 {
		return handled, err
	}
	ids := column.Of(page, func(deadLetter models.DeadLetter) int64 { return deadLetter.ID })
	return handled, d.Store.remove(ctx, ids...)
}

// selected returns the dead letters of a query, and whether there are more.
func (d *DeadLetters) selected(ctx context.Context, q DeadLetterQuery) (page []models.DeadLetter, handled HandledDeadLetters, err error) {
	limit := q.Limit
	q.Limit++
	if page, err = d.Store.list(ctx, q); err == nil && len(page) > limit {
		page = page[:limit]
		handled.Last = page[limit-1].ID
	}
	return page, handled, err
}
