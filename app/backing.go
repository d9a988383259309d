package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
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

// backing is everything in which the two forms of the service differ: servers, or local. newBacking
// chooses one, and nothing else asks which it is. Each interface has what one part of Build calls.
type backing struct {
	platformBacking
	peopleBacking
	boardsBacking
	rankingsBacking
	processBacking
}

type platformBacking interface {
	// check refuses settings that the stores can't follow.
	check() error
	leases() *lease.Service
	clockGuard() *clock.Guard
	counter() limit.Counter
}

type peopleBacking interface {
	// copies returns the copies of users' records outside of this process; nil for none.
	copies() *directory.Copies
	// sets constructs the cache of friend sets and others.
	sets() cache.Copies
}

// boardsBacking's methods are called after those of peopleBacking.
type boardsBacking interface {
	// entries constructs what keeps the boards. It is called before the others.
	entries(rules *corrections.Rules, buckets *catalog.Buckets) board.Entries
	// source is where the archive finds entries.
	source() archive.Source
	// room returns the function that refuses to queue updates for which there is no memory; nil
	// for none.
	room() func(context.Context) error
	// reconcile raises what boards lack of the ledger.
	reconcile(replay recovery.Replay) jobs.Work
	// oneWriter reports whether nobody else can write to the database while somebody does.
	oneWriter() bool
}

// rankingsBacking's methods are called after those of boardsBacking.
type rankingsBacking interface {
	// near returns the copies of boards that rankings are read from; nil for none.
	near() ranking.NearCache
	// hot is the label, in metrics, of what is read from the boards.
	hot() string
	// passed constructs what remembers the places of users and tells their open streams who has
	// passed them.
	passed(users models.Finder, render passed.Render) (passed.States, *passed.Feed)
	// whole returns an error while a bucket may lack updates, of the ledger or of the queue.
	whole(ctx context.Context, bucket *models.Bucket) error
}

type processBacking interface {
	// load is the last step of Build.
	load(ctx context.Context, a *App) error
	// jobs and tasks return the jobs and the background work of these stores only.
	jobs(a *App) []jobs.Job
	tasks(a *App) []task
	// ready returns what /readyz says beside connections: errors that make it 503, and what is
	// degraded, both by name.
	ready(ctx context.Context) (checks, degraded map[string]error)
}

// newBacking returns the backing of the stores, which registers its metrics.
func newBacking(o Options, registry *prometheus.Registry) backing {
	if o.Stores.Redis == nil {
		l := newLocal(o, registry)
		return backing{l, l, l, l, l}
	}
	s := newServers(o, registry, keys.Builder{Prefix: o.Config.Redis.KeyPrefix})
	return backing{s, s, s, s, s}
}

// CheckStores checks that Postgres responds and has the schema that this binary
// needs, that no move to them is unfinished, and that Redis evicts nothing. For a process with a role it also checks
// that losses of Redis can be detected, and that Redis obeys the commands that boards rest
// on. With postgres.auto_migrate it applies pending migrations first. Local stores need no
// checks: they were opened with their schema.
func CheckStores(ctx context.Context, cfg config.Config, st *stores.Stores, roles Roles, log *slog.Logger) error {
	if st.Redis == nil {
		return nil
	}
	if err := st.SQL.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	if cfg.Postgres.AutoMigrate {
		applied, err := st.Migrate(ctx)
		if err != nil {
			return err
		}
		for _, m := range applied {
			log.Info("migrated", "version", m.Source.Version)
		}
	}
	if err := st.CheckSchema(ctx); err != nil {
		return err
	}
	if err := st.CheckMove(ctx); err != nil {
		return err
	}
	return checkBoards(ctx, cfg, st, roles, log)
}
