package ledger

import (
	"context"
	"time"

	"stepboard/models"
)

// purgeRows is how many rows one statement deletes: a tenth of a second.
const purgeRows = 5000

// Expiries knows which totals nobody asks for any more.
type Expiries interface {
	// ExpiredTotals lists them: of each slot the totals from Since to Total. These are
	// the hours of rolling boards that have left the window days ago, and events
	// that have ended more than retain ago and are archived; none of these where
	// retain is 0.
	ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) ([]models.TotalRange, error)
}

// Purger deletes what the ledger need not keep.
type Purger struct {
	store   *Store
	catalog Expiries
	clock   models.Clock
}

// NewPurger makes a purger.
func NewPurger(store *Store, catalog Expiries, clock models.Clock) *Purger {
	return &Purger{store: store, catalog: catalog, clock: clock}
}

// Purge deletes increments that were accepted more than retain ago, and totals
// that have expired; it tells how many rows that were. An increment that is
// deleted is forgotten: its id counts again. With retain 0 increments are kept
// for good. Short transactions; what is left over is deleted by the next call.
func (p *Purger) Purge(ctx context.Context, retain time.Duration) (rows int64, err error) {
	now := p.clock()
	if retain > 0 {
		for n := int64(purgeRows); n == purgeRows; {
			if n, err = p.store.deleteIncrements(ctx, now.Add(-retain), purgeRows); err != nil {
				return rows, err
			}
			rows += n
		}
	}
	slots, err := p.catalog.ExpiredTotals(ctx, now, retain)
	if err != nil {
		return rows, err
	}
	for _, slot := range slots {
		n, err := p.drop(ctx, slot)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// drop deletes a slot's totals, in the order of their names, so that none of
// those that are gone is looked at again.
func (p *Purger) drop(ctx context.Context, slot models.TotalRange) (rows int64, err error) {
	var after totalKey
	for {
		page, err := p.store.page(ctx, slot, after, purgeRows)
		if err != nil || len(page) == 0 {
			return rows, err
		}
		upto := keyOf(page[len(page)-1])
		n, err := p.store.deleteTotals(ctx, slot, after, upto)
		rows += n
		if err != nil || len(page) < purgeRows {
			return rows, err
		}
		after = upto
	}
}
