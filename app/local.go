package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/keys"
	"stepboard/services/boards/board"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/platform/limit"
)

// The service has two forms. Usually many processes share Redis and Postgres. With local stores,
// a data folder or a database in memory, it is one process and has no Redis: what Redis would
// hold is in memory, and is lost only with the process that would ask for it. So there are no
// loss detectors, no copies of what Redis has, and no streams of changes. There must be only one
// App on local stores, because no other one would hear of its changes.

// local reports whether the stores are local.
func (o Options) local() bool { return o.Stores.Redis == nil }

// checkLocal refuses settings that local stores can't follow.
func (o Options) checkLocal() error {
	switch {
	case !o.local():
		return nil
	case o.Config.Rankings.MaxStaleness > 0:
		return errors.New("rankings.max_staleness is about copies of what Redis has; without Redis, rankings are read from memory and are always up to date")
	case o.Config.Ingest.Mode != "direct":
		return errors.New("ingest.mode must be direct without Redis")
	default:
		return nil
	}
}

// buildEntries constructs what keeps the boards.
func (a *App) buildEntries(o Options, names keys.Builder) {
	if o.local() {
		a.inMemory = board.NewLocal(board.NewHotScores(o.Stores.Increments.Gorm), o.Clock, a.rules)
		a.Entries = a.inMemory
		return
	}
	a.inRedis = board.NewStore(o.Stores.Redis, names, o.Clock, a.rules)
	a.Entries = a.inRedis
}

// newCopies returns the copies of users' records in Redis; nil for none.
func newCopies(o Options, names keys.Builder) *directory.Copies {
	if o.local() {
		return nil
	}
	return directory.NewCopies(o.Stores.Redis, names, o.Machine)
}

func newCounter(o Options, names keys.Builder) limit.Counter {
	if o.local() {
		return limit.NewLocalCounter(o.Elapsed)
	}
	return limit.NewRedisCounter(o.Stores.Redis, names)
}

// buildSets constructs the cache of friend sets and others.
func (a *App) buildSets(o Options, names keys.Builder) {
	if !o.local() {
		var near cache.Near
		if a.near {
			near = a.circles
		}
		a.copies = cache.NewStore(o.Stores.Redis, names, o.Config.Cache.SetsTTL, near)
		a.Sets = a.copies
		return
	}
	sets := cache.NewLocal(int64(o.Config.Rankings.Memory), o.Config.Cache.SetsTTL, o.Elapsed)
	a.Sets = sets
	a.registry.MustRegister(newLocalSetsCollector(sets))
}

// newLocalSetsCollector reports the sets in memory by the names of newCirclesCollector.
func newLocalSetsCollector(l *cache.Local) prometheus.Collector {
	type sets = *cache.Local
	const found = "Sets of friends or members for rankings, by where they were found: in memory (near), or in SQL, because memory did " +
		"not have them (unknown)."
	return newCollector("stepboard_near_circles_", func() sets { return l },
		figure[sets]{"found_total", found, counter, func(l sets) float64 { return float64(l.Stats().Found.Load()) }, prometheus.Labels{"found": "near"}},
		figure[sets]{"found_total", found, counter, func(l sets) float64 { return float64(l.Stats().Missing.Load()) }, prometheus.Labels{"found": "unknown"}},
		figure[sets]{"bytes", "Memory of the copies of sets of friends and members.", gauge, func(l sets) float64 { bytes, _ := l.Size(); return float64(bytes) }, nil},
	)
}
