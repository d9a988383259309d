package ledger

import (
	"context"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

// Purge deletes increments that were accepted more than retain ago, and totals
// that have expired, those of an event only once it is archived: until then they
// are its only complete copy. It returns how many rows these were. A deleted increment
// is forgotten: its id counts again. With retain 0 increments are kept for
// ever. It uses short transactions, after each of which it pauses for as long as that took, and
// rows that are left over after an error are deleted by the next call.
func (r *Reconciler) Purge(ctx context.Context, retain time.Duration) (rows int64, err error) {
	now := r.Clock()
	if retain > 0 {
		if rows, err = r.Store.deleteIncrements(ctx, now.Add(-retain)); err != nil {
			return rows, err
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
	return pause.Chunks(ctx, func(limit int) (int64, error) {
		page, err := r.Store.page(ctx, expired, after, limit)
		if err != nil || len(page) == 0 {
			return 0, err
		}
		before := after
		after = keyOf(page[len(page)-1])
		return r.Store.deleteTotals(ctx, expired, before, after)
	})
}
