package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/platform/clock"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/limit"
	"stepboard/services/platform/recovery"
	"stepboard/services/rankings/passed"
	"stepboard/services/rankings/ranking"
)

// local is the backing of one process with a data folder or a database in memory. What Redis
// would hold is in the memory of this process, and is lost only with it. So there are no loss
// detectors, no copies of what Redis has, and no streams of changes. There must be only one App
// on the stores, because no other one would hear of its changes.
type local struct {
	Options

	registry   *prometheus.Registry
	scores     *board.Local
	reconciled time.Time // when the boards had all that the ledger had; only load and the job use it
}

func newLocal(o Options, registry *prometheus.Registry) *local {
	registry.MustRegister(collectors.NewDBStatsCollector(o.Stores.SQL, "stepboard"))
	if o.Stores.Folder != nil {
		registry.MustRegister(newFileCollector(o.Stores))
	}
	return &local{Options: o, registry: registry}
}

func (l *local) check() error {
	switch {
	case l.Config.Rankings.MaxStaleness > 0:
		return errors.New("rankings.max_staleness is about copies of what Redis has; without Redis, rankings are read from memory and are always up to date")
	case l.Config.Ingest.Mode != "direct":
		return errors.New("ingest.mode must be direct without Redis")
	default:
		return nil
	}
}

func (*local) hot() string { return "memory" }

func (*local) leases() *lease.Service { return lease.NewLocal() }

// clockGuard compares nothing: the stores have the clock of the machine.
func (l *local) clockGuard() *clock.Guard { return clock.NewGuard(l.Machine, l.Elapsed, nil) }

func (l *local) counter() limit.Counter { return limit.NewLocalCounter(l.Elapsed) }

func (*local) copies() *directory.Copies { return nil }

func (l *local) sets() cache.Copies {
	sets := cache.NewLocal(int64(l.Config.Rankings.Memory), l.Config.Cache.SetsTTL, l.Elapsed)
	l.registry.MustRegister(newLocalSetsCollector(sets))
	return sets
}

func (l *local) entries(rules *corrections.Rules, _ *catalog.Buckets) board.Entries {
	l.scores = board.NewLocal(board.NewHotScores(l.Stores.Increments.Gorm), l.Clock, rules)
	return l.scores
}

func (l *local) passed(users models.Finder, render passed.Render) (passed.States, *passed.Feed) {
	return passed.NewLocalStates(l.Clock), passed.NewLocalFeed(users, render, l.Log)
}

func (*local) near() ranking.NearCache { return nil }

func (*local) room() func(context.Context) error { return nil }

func (l *local) source() archive.Source { return archive.FromTable(l.scores) }

// whole returns nil: boards are loaded before anything is served, and lose nothing.
func (*local) whole(context.Context, *models.Bucket) error { return nil }

// reconcile raises the increments of transactions that have committed although they seemed to
// fail. The boards lack no others.
func (l *local) reconcile(replay recovery.Replay) jobs.Work {
	return func(ctx context.Context) (int64, error) {
		restored, upto, err := replay(ctx, recovery.Loss{CheckpointedAt: l.reconciled})
		if err == nil {
			l.reconciled = upto
		}
		return restored, err
	}
}

// load fills the boards, which begin empty: from the hot scores, from the ledger, and by the
// corrections.
func (l *local) load(ctx context.Context, a *App) (err error) {
	if err := l.scores.Load(ctx); err != nil {
		return models.Unavailable("load the boards", err)
	}
	if l.reconciled, err = a.Reconciler.Load(ctx); err != nil {
		return err
	}
	_, err = a.Corrections.Apply(ctx)
	return err
}

func (*local) jobs(*App) []jobs.Job { return nil }

func (l *local) tasks(*App) []task {
	if l.Stores.Folder == nil {
		return nil
	}
	return []task{{name: "write-ahead log", round: l.Stores.Checkpoint, every: time.Minute, failed: "the write-ahead log could not be emptied"}}
}

func (*local) ready(context.Context) (checks, degraded map[string]error) { return nil, nil }

func (*local) oneWriter() bool { return true }

// newLocalSetsCollector reports the sets in memory by the names of newCirclesCollector.
func newLocalSetsCollector(l *cache.Local) prometheus.Collector {
	s := l.Stats()
	const found = "Sets of friends or members for rankings, by where they were found: in memory (near), or in SQL, because memory did " +
		"not have them (unknown)."
	return newNumbers("stepboard_near_circles_", append(
		counters("found_total", found, "found", map[string]*atomic.Int64{"near": &s.Found, "unknown": &s.Missing}),
		number{"bytes", "Memory of the copies of sets of friends and members.", gauge, func(none) float64 { bytes, _ := l.Size(); return float64(bytes) }, nil},
	)...)
}
