package app

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stepboard/handlers"
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
