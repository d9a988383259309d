package ledger

import (
	"context"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

// How many rows one statement deletes: a tenth of a second, or a hundredth on SQLite, where
// uploads wait meanwhile.
const (
	postgresPurgeRows = 5000
	sqlitePurgeRows   = 500
)

// Purge deletes increments that were accepted more than retain ago, and totals
// that have expired, those of an event only once it is archived: until then they
// are its only complete copy. It returns how many rows these were. A deleted increment
// is forgotten: its id counts again. With retain 0 increments are kept for
// ever. It uses short transactions, after each of which it rests for as long as that took, and
// rows that are left over after an error are deleted by the next call.
func (r *Reconciler) Purge(ctx context.Context, retain time.Duration) (rows int64, err error) {
	now := r.Clock()
	if retain > 0 {
		for n := r.Store.purgeRows; n == r.Store.purgeRows; {
			began := time.Now()
			if n, err = r.Store.deleteIncrements(ctx, now.Add(-retain)); err != nil {
				return rows, err
			}
			rows += int64(n)
			if err := pause.Rest(ctx, began, 1); err != nil {
				return rows, err
			}
		}
	}
	ranges, err := r.Totals.ExpiredTotals(ctx, now, retain)
	if err != nil {
		return rows, err
	}
	for _, expired := range ranges {
		if expired.Bucket.WindowHours == 0 {
			archived, err := r.archived(ctx, expired.Bucket)
			if err != nil {
				return rows, err
			}
			if !archived {
				continue
			}
		}
		n, err := r.drop(ctx, expired)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// drop deletes the totals of a range, in the order of their keys, so that no
// page reads rows again that are deleted already.
func (r *Reconciler) drop(ctx context.Context, expired models.TotalRange) (rows int64, err error) {
	var after totalKey
	for {
		began := time.Now()
		page, err := r.Store.page(ctx, expired, after, r.Store.purgeRows)
		if err != nil || len(page) == 0 {
			return rows, err
		}
		upto := keyOf(page[len(page)-1])
		n, err := r.Store.deleteTotals(ctx, expired, after, upto)
		rows += n
		if err != nil || len(page) < r.Store.purgeRows {
			return rows, err
		}
		after = upto
		if err := pause.Rest(ctx, began, 1); err != nil {
			return rows, err
		}
	}
}
