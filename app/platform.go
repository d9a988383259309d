package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stepboard/handlers"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/clock"
	"stepboard/services/platform/cursor"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/limit"
	"stepboard/services/platform/outcomes"
)

// platform holds what the services of all wings are built on.
type platform struct {
	log       *slog.Logger
	registry  *prometheus.Registry
	durations *handlers.Durations
	backing   backing
	clock     *clock.Guard // of the machine's clock
	leases    *lease.Service
	limits    *limit.Service
	cursors   *cursor.Sealer
	outbox    *outcomes.Outbox
	verifier  *auth.Verifier
}

// newPlatform constructs the platform, whose clock is within clock.Limit of Postgres's.
func newPlatform(ctx context.Context, o Options) (p platform, err error) {
	registry := newRegistry()
	stored := newBacking(o, registry)
	if err := stored.check(); err != nil {
		return p, err
	}
	p = platform{
		log: o.Log, registry: registry, durations: handlers.NewDurations(), backing: stored, clock: stored.clockGuard(),
		leases: cmp.Or(o.Leases, stored.leases()), outbox: newOutbox(o), verifier: o.Verifier,
		limits: limit.New(limit.Limits{
			User: o.Config.Limits.UserPerMinute, Address: o.Config.Limits.AddressPerMinute, Join: o.Config.Limits.JoinsPerMinute,
			Login: o.Config.Limits.LoginsPerMinute,
		}, stored.counter(), o.Log),
	}
	p.registry.MustRegister(newLimitCollector(p.limits))
	if err := p.clock.Compare(ctx); err != nil {
		return p, err
	}
	p.cursors, err = cursor.New(ctx, cursor.NewStore(o.Stores.Gorm), o.Clock)
	return p, err
}

// registerJobs registers what only processes with the role of jobs report.
func (p platform) registerJobs(o Options, collectors ...prometheus.Collector) {
	if o.Roles.Jobs {
		p.registry.MustRegister(collectors...)
	}
}

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewBuildInfoCollector(),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

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
		gauge, func(none) float64 { return guard.Drift().Seconds() }, nil,
	})
}
