package ledger

import (
	"context"
	"time"

	"stepboard/models"
)

// purgeRows is how many rows one statement deletes: a tenth of a second.
const purgeRows = 5000

// Expiries knows which totals have expired.
type Expiries interface {
	// ExpiredTotals lists ranges of expired totals, each from Since to Total. These
	// are the hours of rolling boards that left the window days ago, and archived
	// events that ended more than retain ago; no events if retain is 0.
	ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) ([]models.TotalRange, error)
}

// Purger deletes expired rows of the ledger.
type Purger struct {
	store    *Store
	catalog  Expiries
	archived func(ctx context.Context, bucket *models.Bucket) (bool, error)
	clock    models.Clock
}

// NewPurger returns a purger. archived reports whether the archive has a bucket.
func NewPurger(store *Store, catalog Expiries, archived func(ctx context.Context, bucket *models.Bucket) (bool, error), clock models.Clock) *Purger {
	return &Purger{store: store, catalog: catalog, archived: archived, clock: clock}
}

// Purge deletes increments that were accepted more than retain ago, and totals
// that have expired, those of an event only once it is archived: until then they
// are its only complete copy. It returns how many rows these were. A deleted increment
// is forgotten: its id counts again. With retain 0 increments are kept for
// ever. It uses short transactions, and rows that are left over after an error
// are deleted by the next call.
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
	ranges, err := p.catalog.ExpiredTotals(ctx, now, retain)
	if err != nil {
		return rows, err
	}
	for _, r := range ranges {
		if r.Bucket.WindowHours == 0 {
			archived, err := p.archived(ctx, r.Bucket)
			if err != nil {
				return rows, err
			}
			if !archived {
				continue
			}
		}
		n, err := p.drop(ctx, r)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// drop deletes the totals of a range, in the order of their keys, so that no
// page reads rows again that are deleted already.
func (p *Purger) drop(ctx context.Context, r models.TotalRange) (rows int64, err error) {
	var after totalKey
	for {
		page, err := p.store.page(ctx, r, after, purgeRows)
		if err != nil || len(page) == 0 {
			return rows, err
		}
		upto := keyOf(page[len(page)-1])
		n, err := p.store.deleteTotals(ctx, r, after, upto)
		rows += n
		if err != nil || len(page) < purgeRows {
			return rows, err
		}
		after = upto
	}
}
