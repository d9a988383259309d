package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/recovery"
)

const (
	// pageTotals is how many totals are read at a time, ten megabytes. Each
	// page of recent ones costs a scan of all recent increments.
	pageTotals = 100_000
	// raiseTotals is how many totals are raised at a time.
	raiseTotals = 5000
	// quickRewind is how far a quick pass goes back: longer than any
	// transaction lasts, because the flush and the server's statement_timeout
	// end it before.
	quickRewind = time.Minute
)

// Totals knows which totals belong to which buckets.
type Totals interface {
	// TotalRanges lists where totals may be missing from Redis: of each slot those
	// from Since to Total.
	TotalRanges(ctx context.Context, now time.Time) ([]models.TotalRange, error)
	// ForTotal is the bucket that a total raises; catalog.ErrNoBucket for one
	// that raises none.
	ForTotal(ctx context.Context, board, total string) (*models.Bucket, error)
	// OfBucket returns the totals that make up the scores of a bucket.
	OfBucket(bucket *models.Bucket, now time.Time) (models.TotalRange, error)
	// ExpiredTotals lists ranges of expired totals, each from Since to Total. These
	// are the hours of rolling boards that left the window days ago, and archived
	// events that ended more than retain ago; no events if retain is 0.
	ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) ([]models.TotalRange, error)
}

// Reconciler raises the running totals that the boards lack: totals that a
// crash kept from them between the commit and the raise, totals that Redis has
// forgotten, or all. It also deletes expired rows of the ledger.
type Reconciler struct {
	ReconcilerOptions
	page int // how many totals are read at a time
	// thorough is when the last pass began that went back for Rewind, in
	// milliseconds.
	thorough atomic.Int64
}

// ReconcilerOptions holds the parts and settings of a reconciler.
type ReconcilerOptions struct {
	Store   *Store
	Totals  Totals
	Entries board.Entries
	Clock   models.Clock
	Log     *slog.Logger
	// Archived reports whether the archive has a bucket. The totals of an archived
	// bucket are not raised any more. If Archived is nil, no bucket is archived.
	Archived func(ctx context.Context, bucket *models.Bucket) (bool, error)
	// Rewind is how far a restarted Redis may be behind, and how much the
	// clocks of replicas may differ.
	Rewind time.Duration
}

// NewReconciler returns a reconciler.
func NewReconciler(o ReconcilerOptions) *Reconciler {
	return &Reconciler{ReconcilerOptions: o, page: pageTotals}
}

// Replay is the recovery.Replay of the ledger. It raises again every total that
// was added to since the checkpoint, and for Rewind before that: neither the
// order in which transactions were committed nor the length of an outage of
// Redis matters then. While Redis loses nothing, most passes go back for a minute
// only. If everything is lost, every total is raised. It returns how many entries
// it has raised. Safe to run twice at once, and to cut off.
//
// The checkpoint counts in the service's time, as increments do.
func (r *Reconciler) Replay(ctx context.Context, loss recovery.Loss) (restored int64, upto time.Time, err error) {
	now := r.Clock()
	ago := now.Sub(time.UnixMilli(r.thorough.Load()))
	quick := loss.Extent == recovery.NothingLost && ago >= 0 && ago < r.Rewind/2
	p := r.pass(func(int64) {})
	if loss.Extent == recovery.EverythingLost {
		r.Log.InfoContext(ctx, "the boards' Redis has nothing of the ledger; it gets everything")
		err = p.raiseAll(ctx, now)
	} else {
		since := r.rewound(loss.CheckpointedAt, now, quick)
		if loss.Extent == recovery.LastWritesLost {
			r.Log.WarnContext(ctx, "the boards' Redis may have forgotten increments; they are applied again", "since", since)
		}
		err = p.raiseSince(ctx, since)
	}
	if err != nil {
		return p.restored, now, fmt.Errorf("reconcile the boards with the ledger: %w", err)
	}
	if !quick {
		r.thorough.Store(now.UnixMilli())
	}
	if loss.Extent != recovery.NothingLost {
		failpoint.Hit("ledger.loss_replayed")
		// On an empty database the first start finds nothing to restore.
		level := slog.LevelInfo
		if p.restored > 0 {
			level = slog.LevelWarn
		}
		r.Log.Log(ctx, level, "totals that Redis had lost were restored from the ledger", "totals", p.totals, "restored", p.restored)
	}
	return p.restored, now, nil
}

// Load raises every total on boards that begin empty, in the memory of the only process. It
// returns the moment up to which they are now complete.
func (r *Reconciler) Load(ctx context.Context) (upto time.Time, err error) {
	now := r.Clock()
	err = r.pass(func(int64) {}).raiseAll(ctx, now)
	return now, models.Wrap("load the boards from the ledger", err)
}

// rewound returns how far back a pass goes: for Rewind before the checkpoint, or
// for quickRewind if that is less and the pass is a quick one. A checkpoint in
// the future, left by a clock that was set back since, counts as now.
func (r *Reconciler) rewound(checkpoint, now time.Time, quick bool) time.Time {
	if checkpoint.After(now) {
		checkpoint = now
	}
	if quick {
		return checkpoint.Add(-min(r.Rewind, quickRewind))
	}
	return checkpoint.Add(-r.Rewind)
}

// pass is one pass over totals.
type pass struct {
	*Reconciler
	// buckets caches the bucket that each total raises, nil for none.
	buckets          map[totalName]*models.Bucket
	progress         func(totals int64)
	totals, restored int64
}

func (r *Reconciler) pass(progress func(totals int64)) *pass {
	return &pass{Reconciler: r, buckets: make(map[totalName]*models.Bucket), progress: progress}
}

type totalName struct{ board, total string }

// eachRange calls do with each range of totals whose bucket the archive does not have.
func (p *pass) eachRange(ctx context.Context, now time.Time, do func(models.TotalRange) error) error {
	ranges, err := p.Totals.TotalRanges(ctx, now)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		archived, err := p.archived(ctx, r.Bucket)
		if err == nil && !archived {
			err = do(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// raiseAll raises the totals of every range.
func (p *pass) raiseAll(ctx context.Context, now time.Time) error {
	return p.eachRange(ctx, now, func(r models.TotalRange) error {
		return p.forEachPage(ctx, func(after totalKey) ([]models.ScoreTotal, error) {
			return p.Store.page(ctx, r, after, p.page)
		})
	})
}

// raiseSince raises the totals that were added to since a moment.
func (p *pass) raiseSince(ctx context.Context, moment time.Time) error {
	return p.forEachPage(ctx, func(after totalKey) ([]models.ScoreTotal, error) {
		return p.Store.recent(ctx, moment, after, p.page)
	})
}

// forEachPage reads page after page and raises each.
func (p *pass) forEachPage(ctx context.Context, read func(after totalKey) ([]models.ScoreTotal, error)) error {
	var after totalKey
	for {
		page, err := read(after)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(page, raiseTotals) {
			if err := p.raise(ctx, chunk); err != nil {
				return err
			}
		}
		if len(page) < p.page {
			return nil
		}
		after = keyOf(page[len(page)-1])
	}
}

func keyOf(t models.ScoreTotal) totalKey { return totalKey{t.Board, t.User, t.Total} }

// raise raises some totals. A total that can't be raised does not prevent the
// others.
func (p *pass) raise(ctx context.Context, totals []models.ScoreTotal) error {
	raises := make([]models.Raise, 0, len(totals))
	for _, t := range totals {
		bucket, err := p.bucket(ctx, t)
		if models.CodeOf(err) == models.CodeUnavailable {
			return err
		}
		if bucket == nil || t.ReachedAt.IsZero() {
			continue
		}
		if composite, ok := p.encode(ctx, bucket, t); ok {
			raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: t.User, Composite: composite}})
		}
	}
	if len(raises) > 0 {
		raised, err := p.Entries.RaiseAll(ctx, raises)
		if err != nil {
			return err
		}
		p.restored += raised
		failpoint.Hit("ledger.some_reconciled")
	}
	p.totals += int64(len(raises))
	p.progress(p.totals)
	return nil
}

// encode returns the composite of a total in its bucket; false if the bucket can't hold it.
func (p *pass) encode(ctx context.Context, bucket *models.Bucket, t models.ScoreTotal) (models.Composite, bool) {
	composite, err := score.Of(bucket).Encode(models.Points(t.Score), models.TimestampOf(t.ReachedAt))
	if err != nil {
		p.Log.ErrorContext(ctx, "a total of the ledger can't be encoded in its bucket", "board", t.Board, "total", t.Total, "error", err)
	}
	return composite, err == nil
}

// bucket returns the bucket that a total raises, or nil for none. A total of an
// unknown board raises none, which is logged once for each pass.
func (p *pass) bucket(ctx context.Context, t models.ScoreTotal) (*models.Bucket, error) {
	name := totalName{t.Board, t.Total}
	bucket, ok := p.buckets[name]
	if ok {
		return bucket, nil
	}
	bucket, err := p.Totals.ForTotal(ctx, t.Board, t.Total)
	if err == nil {
		var archived bool
		if archived, err = p.archived(ctx, bucket); archived {
			bucket = nil
		}
	}
	switch {
	case models.CodeOf(err) == models.CodeUnavailable:
		return nil, err
	case errors.Is(err, catalog.ErrNoBucket):
		bucket = nil
	case err != nil:
		p.Log.WarnContext(ctx, "the ledger has totals of a board that can't be used here", "board", t.Board, "total", t.Total, "error", err)
		bucket = nil
	}
	p.buckets[name] = bucket
	return bucket, nil
}

// archived reports whether the archive has the bucket.
func (r *Reconciler) archived(ctx context.Context, bucket *models.Bucket) (bool, error) {
	if r.Archived == nil || !bucket.Cold(r.Clock()) {
		return false, nil
	}
	return r.Archived(ctx, bucket)
}
