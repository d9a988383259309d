package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"stepboard/models"
)

const (
	// reconcileEvery is how long a board may lack what a crash kept from it.
	reconcileEvery = 15 * time.Second
	// reconcileDeadline leaves time to fill an empty Redis.
	reconcileDeadline = time.Hour
	// driftSample is how many users of each rolling board a pass recomputes.
	driftSample = 20
	// rollEvery is how soon after the hour rolling boards begin to settle.
	rollEvery = 5 * time.Second
	// rollDeadline bounds a pass. What is left over is drained by the next one.
	rollDeadline = 10 * time.Minute
	// purgeEvery and purgeDeadline are for what nobody waits for.
	purgeEvery    = 6 * time.Hour
	purgeDeadline = 2 * time.Hour
)

// Totals lists the boards that take increments.
type Totals interface {
	TotalRanges(ctx context.Context, now time.Time) ([]models.TotalRange, error)
}

// Windows are the buckets with a window.
type Windows interface {
	// Drain takes out of the scores what has left the window.
	Drain(ctx context.Context, bucket *models.Bucket) (drained int64, err error)
	// Drift recomputes a sample of the scores.
	Drift(ctx context.Context, bucket *models.Bucket, sample int) (checked, drifted int, err error)
}

// Reconcile mends boards that take increments; its rows are the entries that
// had to be mended. It also recomputes a sample of the scores of rolling
// boards, and reports those that are not the sum of their hours.
func Reconcile(reconcile func(ctx context.Context) (restored int64, err error), slots Totals, windows Windows, clock models.Clock, log *slog.Logger, registry prometheus.Registerer) Job {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "stepboard_rolling_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	checked := counter("checked_total", "Scores of rolling boards that were recomputed.")
	drifted := counter("drifted_total", "Those of them that were not the sum of their hours.")
	return Job{
		Name: "reconcile", Schedule: cron.Every(reconcileEvery), Deadline: reconcileDeadline, AtStart: true, Frequent: true,
		Run: func(ctx context.Context) (int64, error) {
			restored, err := reconcile(ctx)
			return restored, errors.Join(err, eachRollingBucket(ctx, slots, clock, func(bucket *models.Bucket) error {
				n, bad, err := windows.Drift(ctx, bucket, driftSample)
				checked.Add(float64(n))
				drifted.Add(float64(bad))
				if bad > 0 {
					log.ErrorContext(ctx, "scores of a rolling board are not the sums of their hours", "board", bucket.Board, "checked", n, "drifted", bad)
				}
				return err
			}))
		},
	}
}

// Roll settles rolling boards after the hour; its rows are the totals that it
// has taken out.
func Roll(slots Totals, windows Windows, clock models.Clock) Job {
	return Job{
		Name: "roll", Schedule: cron.Every(rollEvery), Deadline: rollDeadline, AtStart: true, Frequent: true,
		Run: func(ctx context.Context) (rows int64, err error) {
			err = eachRollingBucket(ctx, slots, clock, func(bucket *models.Bucket) error {
				n, err := windows.Drain(ctx, bucket)
				rows += n
				return err
			})
			return rows, err
		},
	}
}

// eachRollingBucket does something to every bucket with a window. One that fails does
// not stand in the others' way.
func eachRollingBucket(ctx context.Context, slots Totals, clock models.Clock, do func(*models.Bucket) error) error {
	list, err := slots.TotalRanges(ctx, clock())
	failed := []error{err}
	for _, slot := range list {
		if slot.Bucket.WindowHours > 0 {
			failed = append(failed, do(slot.Bucket))
		}
	}
	return errors.Join(failed...)
}

// Purge deletes what the ledger need not keep any more; its rows are what it
// has deleted.
func Purge(purge func(ctx context.Context) (rows int64, err error)) Job {
	return Job{Name: "purge", Schedule: cron.Every(purgeEvery), Deadline: purgeDeadline, AtStart: true, Frequent: true, Run: purge}
}
