package ledger

import (
	"context"
	"math"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// lowerPage is how many entries of a board are compared at a time.
const lowerPage = 1000

// Rebuilt counts what Rebuild has done.
type Rebuilt struct {
	// Totals is the number of running totals that were raised.
	Totals int64
	// Lowered is the number of entries, in a rolling bucket of totals of an hour, that
	// were more than the ledger has.
	Lowered int64
}

// Rebuild makes the boards equal to the ledger: it lowers or removes entries that are
// more than the ledger has, and raises every total that the boards may lack. It calls
// progress with the number of raised totals on the way. Increments that are counted
// meanwhile are on the boards in the end. It does not touch archived buckets, nor hours
// that have left the window. It may be cut off, and run again.
func (r *Reconciler) Rebuild(ctx context.Context, progress func(totals int64)) (Rebuilt, error) {
	p := r.pass(progress)
	now := r.Clock()
	lowered, err := p.lowerAll(ctx, now)
	if err == nil {
		err = p.raiseAll(ctx, now)
	}
	return Rebuilt{p.totals, lowered}, models.Wrap("rebuild the boards from the ledger", err)
}

// lowerAll lowers the entries of every range that are more than the ledger has.
func (p *pass) lowerAll(ctx context.Context, now time.Time) (lowered int64, err error) {
	err = p.eachRange(ctx, now, func(r models.TotalRange) error {
		parts, err := p.Entries.Parts(ctx, r.Bucket)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if part.Total() < r.Since {
				continue // its totals may be deleted, and it will be drained
			}
			n, err := p.lowerPart(ctx, part)
			lowered += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	return lowered, err
}

// lowerPart lowers the entries of one part, page by page.
func (p *pass) lowerPart(ctx context.Context, part models.BoardPart) (lowered int64, err error) {
	behind := board.Top
	for {
		entries, err := p.Entries.ReadPart(ctx, part, behind, lowerPage)
		if err != nil {
			return lowered, err
		}
		n, err := p.lower(ctx, part, entries)
		lowered += n
		if err != nil || len(entries) < lowerPage {
			return lowered, err
		}
		behind = entries[len(entries)-1]
	}
}

// lower lowers those of the entries that are more than the ledger has. A total is
// raised only after it was committed, and totals only grow. So an entry that is more
// than the total that is read after it is not one of the ledger, or not any more. It
// hides increments that are counted before it is lowered; raiseAll, which follows, raises
// these totals again.
func (p *pass) lower(ctx context.Context, part models.BoardPart, entries []models.Entry) (int64, error) {
	users := column.Of(entries, func(e models.Entry) models.RowID { return e.User })
	totals, err := p.Store.totalsOf(ctx, models.TotalRange{Bucket: part.Bucket, Total: part.Total(), Since: part.Total()}, users)
	if err != nil {
		return 0, err
	}
	composites := make(map[models.RowID]models.Composite, len(totals))
	for _, t := range totals {
		composite, ok := p.encode(ctx, part.Bucket, t)
		if !ok {
			composite = math.MaxInt64 // the entry stays
		}
		composites[t.User] = composite
	}
	var lowerings []models.Lowering
	for _, e := range entries {
		if composite := composites[e.User]; e.Composite > composite {
			lowerings = append(lowerings, models.Lowering{Stored: e, Composite: composite})
		}
	}
	return p.Entries.Lower(ctx, part, lowerings)
}
