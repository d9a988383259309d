package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
)

const (
	// reconcileEvery bounds how long a board lacks increments that a crash kept
	// from it.
	reconcileEvery = 15 * time.Second
	// reconcileDeadline leaves time to fill an empty Redis.
	reconcileDeadline = time.Hour
	// driftSample is how many users of each rolling board a run recomputes.
	driftSample = 20
	// rollEvery is how soon after the hour rolling boards begin to drain it.
	rollEvery = 5 * time.Second
	// rollDeadline bounds a run. Hours that are left over are drained by the
	// next one.
	rollDeadline = 10 * time.Minute
	// purgeEvery and purgeDeadline are long, because nothing waits for a purge.
	purgeEvery    = 6 * time.Hour
	purgeDeadline = 2 * time.Hour
)

// Reconcile returns the job that restores what boards lack of the ledger. Its
// rows are the entries that it has raised. It also recomputes a sample of the
// scores of rolling boards, and reports those that are not the sum of their
// hours.
func Reconcile(reconcile Work, totals *catalog.Buckets, entries board.Maintainer, clock models.Clock, log *slog.Logger, registry prometheus.Registerer) Job {
	drifted := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "stepboard_rolling_drifted_total", Help: "Recomputed scores that were not the sum of their hours.",
	})
	registry.MustRegister(drifted)
	return frequent("reconcile", reconcileEvery, reconcileDeadline, func(ctx context.Context) (int64, error) {
		restored, err := reconcile(ctx)
		return restored, errors.Join(err, eachRollingBucket(ctx, totals, clock, func(bucket *models.Bucket) error {
			n, bad, err := entries.Drift(ctx, bucket, driftSample)
			drifted.Add(float64(bad))
			if bad > 0 {
				log.ErrorContext(ctx, "scores of a rolling board are not the sums of their hours", "board", bucket.Board, "checked", n, "drifted", bad)
			}
			return err
		}))
	})
}

// Roll returns the job that drains rolling boards after the hour. Its rows are
// the hourly totals that it has subtracted.
func Roll(totals *catalog.Buckets, entries board.Maintainer, clock models.Clock) Job {
	return frequent("roll", rollEvery, rollDeadline, func(ctx context.Context) (rows int64, err error) {
		err = eachRollingBucket(ctx, totals, clock, func(bucket *models.Bucket) error {
			n, err := entries.Drain(ctx, bucket)
			rows += n
			return err
		})
		return rows, err
	})
}

// eachRollingBucket calls do for every bucket with a window, the others as well
// if one fails.
func eachRollingBucket(ctx context.Context, totals *catalog.Buckets, clock models.Clock, do func(*models.Bucket) error) error {
	ranges, err := totals.TotalRanges(ctx, clock())
	failed := []error{err}
	for _, r := range ranges {
		if r.Bucket.WindowHours > 0 {
			failed = append(failed, do(r.Bucket))
		}
	}
	return errors.Join(failed...)
}

// Purge returns the job that deletes rows which have expired. Its rows are those that it
// has deleted. If one of the purges fails, the others still run.
func Purge(purges ...Work) Job {
	return frequent("purge", purgeEvery, purgeDeadline, func(ctx context.Context) (rows int64, err error) {
		for _, purge := range purges {
			n, failed := purge(ctx)
			rows, err = rows+n, errors.Join(err, failed)
		}
		return rows, err
	})
}
