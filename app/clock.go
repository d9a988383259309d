package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/clock"
)

// guarded returns the job with a comparison of clocks before each run.
func guarded(job jobs.Job, guard *clock.Guard) jobs.Job {
	run := job.Run
	job.Run = func(ctx context.Context) (int64, error) {
		if err := guard.Compare(ctx); err != nil {
			return 0, err
		}
		return run(ctx)
	}
	return job
}

// guardedArchive is the archive with a comparison of clocks before runs that
// operators start.
type guardedArchive struct {
	*archive.Service
	guard *clock.Guard
}

// Start is like that of the archive, or returns CodeUnavailable.
func (g guardedArchive) Start(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	if err := g.guard.Compare(ctx); err != nil {
		return models.ArchiveRun{}, err
	}
	return g.Service.Start(ctx, bucket)
}

// guardedTotals finds the totals of increments, and refuses those of rolling boards
// while the clock is wrong: the hour of an increment decides for everybody which
// hours have left the window.
type guardedTotals struct {
	ledger.Catalog
	guard *clock.Guard
}

// ForIncrement implements ledger.Catalog.
func (g guardedTotals) ForIncrement(ctx context.Context, board string, now time.Time) (models.TotalRange, error) {
	totals, err := g.Catalog.ForIncrement(ctx, board, now)
	if err == nil && totals.Bucket.WindowHours > 0 {
		err = g.guard.Check()
	}
	return totals, err
}

// newClockCollector reports the drift of the clock.
func newClockCollector(guard *clock.Guard) prometheus.Collector {
	return newNumbers("stepboard_clock_", number{
		"drift_seconds", "How far this machine's clock is ahead of Postgres's, without clock.offset; negative if it is behind.",
		gauge, func() float64 { return guard.Drift().Seconds() }, nil,
	})
}
