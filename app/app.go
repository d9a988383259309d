package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stepboard/config"
	"stepboard/handlers"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/auth"
	"stepboard/services/batch"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/directory"
	"stepboard/services/friends"
	"stepboard/services/ingest"
	"stepboard/services/lease"
	"stepboard/services/ledger"
	"stepboard/services/limit"
	"stepboard/services/ranking"
	"stepboard/services/stream"
)

const (
	// drainTimeout bounds how long requests under way may take to finish once
	// the service is told to stop.
	drainTimeout = 15 * time.Second

	// rewind is how far the ledger's reconciler goes back when Redis may have
	// forgotten something, and from time to time: longer than any transaction
	// takes, than Redis forgets by restarting, and than clocks differ.
	rewind = 10 * time.Minute

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// Options is what an App is made of.
type Options struct {
	Config   config.Config
	Stores   *stores.Stores
	Clock    models.Clock
	Log      *slog.Logger
	Verifier *auth.Verifier
	// StreamLimits bounds those who watch rankings; it may be empty.
	StreamLimits stream.Limits
	// Traces gets traces of the calls, unless it is nil. It stays open: spans may
	// end until Close has returned.
	Traces *Traces
	// Extra adds routes, for `demo`.
	Extra func(*gin.Engine)
	// KeepStoredBoards says that a service may be running: its boards stay as it has
	// defined them. It takes no roles then.
	KeepStoredBoards bool
	Roles            Roles
}

// Roles is what a process does; several may share the work.
type Roles struct {
	// API answers requests, Consumer brings queued updates to the boards, Jobs
	// does what is done again and again.
	API, Consumer, Jobs bool
}

// AllRoles is what a process does unless it is told to do less.
func AllRoles() Roles { return Roles{API: true, Consumer: true, Jobs: true} }

// App is the service, wired. Tests, `demo` and `serve` use the same one.
type App struct {
	Catalog     *catalog.Catalog
	Boards      *board.Store
	Friends     *friends.Service
	Users       *directory.Service
	Ranking     *ranking.Service
	Streams     *stream.Service
	Archive     *archive.Service
	Ingest      *ingest.Service
	Ledger      *ledger.Service
	DeadLetters *ingest.DeadLetters
	Guard       *ingest.Guard // nil without a queue
	// Reconciler brings to the boards what they lack of the ledger.
	Reconciler *ledger.Reconciler
	Handler    http.Handler

	log      *slog.Logger
	stores   *stores.Stores
	verifier *auth.Verifier
	// persist takes updates that were accepted: into the queue, or to the boards
	// where there is none. It answers as board.Store.Raise does.
	persist func(context.Context, []models.Raise) []error
	writes  *batch.Batcher[models.Raise]
	batches *batch.Batcher[models.Raise]
	queue   ingest.Queue       // nil in direct mode
	stop    context.CancelFunc // ends the background work
	running sync.WaitGroup
}

// New wires the service and stores its boards' definitions. The App owns the
// stores from then on: Close closes them. On an error the caller still does.
func New(ctx context.Context, o Options) (*App, error) {
	keys := keys.Builder{Prefix: o.Config.Redis.KeyPrefix}
	a := &App{
		Catalog:  catalog.New(catalog.NewStore(o.Stores.Gorm), o.Clock, o.Config.HotDays, o.Log),
		Boards:   board.NewStore(o.Stores.Redis, keys, o.Clock),
		Friends:  friends.New(friends.NewStore(o.Stores.Gorm), friends.NewCache(o.Stores.Redis, keys), o.Log),
		Users:    directory.New(directory.NewStore(o.Stores.Gorm), o.Log),
		log:      o.Log,
		stores:   o.Stores,
		verifier: o.Verifier,
	}
	failed := func(err error) (*App, error) {
		a.closeQueue()
		a.Users.Close()
		return nil, err
	}
	define := a.Catalog.Define
	if o.KeepStoredBoards {
		define = a.Catalog.DefineMissing
	}
	if err := define(ctx, o.Config.BoardDefinitions()); err != nil {
		return failed(err)
	}
	queue, err := newQueue(ctx, o)
	if err != nil {
		return failed(err)
	}
	a.queue = queue
	leases := newLeases(o.Stores)
	a.Archive = archive.New(archive.NewStore(o.Stores.Gorm, o.Stores.Pool), a.Boards, leases, o.Clock, o.Log)
	registry := newRegistry(o.Stores)
	registry.MustRegister(newArchiveCollector(a.Archive))
	increments := ledger.NewStore(o.Stores.Gorm, o.Stores.Pool)
	a.Reconciler = ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: increments, Totals: a.Catalog, Boards: a.Boards, Detector: a.Boards.LossDetector("ledger"), Clock: o.Clock, Log: o.Log, Rewind: rewind,
	})
	scheduler, err := a.newScheduler(o, leases, registry, ledger.NewPurger(increments, a.Catalog, o.Clock))
	if err != nil {
		return failed(err)
	}
	a.persist = a.Boards.Raise
	if queue != nil {
		a.persist = ingest.Enqueue(queue)
		a.Guard = a.newGuard(o, leases)
		registry.MustRegister(newQueueCollector(queue))
	}
	a.persist = o.Traces.flushes(a.persist)
	a.writes = batch.New(writeBatch, writers, a.persist)
	a.batches = batch.New(writeBatch, batchWriters, a.persist)
	a.Ingest = ingest.New(a.Catalog, a.writes, a.batches, queue != nil, o.Clock)
	a.Ledger = ledger.New(increments, a.Catalog, a.Boards, o.Clock, o.Log)
	registry.MustRegister(newLedgerCollector(a.Ledger))
	letters := ingest.NewDeadLetterStore(o.Stores.Gorm)
	a.DeadLetters = ingest.NewDeadLetters(letters, a.Catalog, a.Boards)
	a.Ranking = ranking.New(a.Catalog, a.Boards, a.Archive, a.Friends, a.Users, o.Clock)
	a.Streams = stream.New(a.Ranking, o.StreamLimits)
	registry.MustRegister(newLiveCollector(a.Streams))
	limits := limit.New(limit.Limits{User: o.Config.Limits.UserPerMinute, Address: o.Config.Limits.AddressPerMinute}, limit.NewRedisCounter(o.Stores.Redis, keys))
	registry.MustRegister(newLimitCollector(limits))
	a.Handler, err = handlers.New(handlers.Deps{
		Streams: a.Streams, Limits: limits, TrustedProxies: o.Config.HTTP.TrustedProxies,
		Catalog: a.Catalog, Ingest: a.Ingest, Ranking: a.Ranking, Archive: a.Archive, Ledger: a.Ledger, DeadLetters: a.DeadLetters,
		Friends: a.Friends, Users: a.Users, ProbesOnly: !o.Roles.API,
		Verifier: o.Verifier, Ready: a.ready, Clock: o.Clock,
		Registry: registry, Log: o.Log, Version: Version, Extra: o.Extra,
		Traces: o.Traces.Provider(), Sampled: o.Traces.sampled,
	})
	if err != nil {
		a.writes.Close()
		a.batches.Close()
		a.Ledger.Close()
		return failed(err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.running.Go(func() { a.Catalog.Run(background) })
	if o.Roles.Jobs {
		a.running.Go(func() { scheduler.Run(background) })
	}
	if o.Roles.Consumer && queue != nil {
		consumer := a.newConsumer(o, letters, registry)
		a.running.Go(func() { consumer.Run(background) })
		a.running.Go(func() { a.Guard.Run(background) })
	}
	return a, nil
}

// ready asks the stores and the queue whether they answer.
func (a *App) ready(ctx context.Context) map[string]error {
	if a.queue == nil {
		return a.stores.Ready(ctx)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := a.queue.Lag(ctx)
		asked <- err
	}()
	checks := a.stores.Ready(ctx)
	checks["queue"] = <-asked
	return checks
}

func (a *App) closeQueue() {
	if a.queue != nil {
		a.queue.Close()
	}
}

// newScheduler plans the jobs, in the zones of the boards.
func (a *App) newScheduler(o Options, leases jobs.Leases, registry prometheus.Registerer, purger *ledger.Purger) (*jobs.Scheduler, error) {
	nightly, err := jobs.Zoned(o.Config.Jobs.ArchiveCron, a.Catalog.Zones, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("jobs.archive_cron: %w", err)
	}
	noted := a.Boards.LossDetector("friends")
	return jobs.New(leases, o.Clock, o.Log, registry, o.Traces.jobs(
		jobs.Archive(a.Archive, nightly, o.Config.Archive.RetainMonths),
		jobs.Reconcile(a.Reconciler, a.Catalog, a.Boards, o.Clock, o.Log, registry),
		jobs.Roll(a.Catalog, a.Boards, o.Clock),
		jobs.Friends(func(ctx context.Context) (int64, error) { return a.Friends.DropStale(ctx, noted, o.Clock()) }),
		jobs.Purge(func(ctx context.Context) (int64, error) { return purger.Purge(ctx, o.Config.Ledger.Retain) }),
	)...), nil
}

// newLeases gives leases by the database that everybody shares.
func newLeases(st *stores.Stores) *lease.Service {
	if st.Pool == nil {
		return lease.NewLocal()
	}
	return lease.NewPostgres(st.Pool.Config().ConnConfig)
}

// newRegistry measures the process and its connection pools.
func newRegistry(st *stores.Stores) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newRedisCollector(st.Redis),
	)
	if st.Pool != nil {
		registry.MustRegister(newPostgresCollector(st.Pool))
	} else {
		registry.MustRegister(collectors.NewDBStatsCollector(st.SQL, "stepboard"))
	}
	return registry
}

// Serve answers requests on the listener until ctx ends, then stops taking
// new ones and lets those under way finish.
func (a *App) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           a.Handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	// Streams never finish by themselves, and Shutdown would wait for them.
	server.RegisterOnShutdown(a.Streams.Close)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.log.Warn("requests were cut off", "error", err)
		return server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Close ends the service, in this order: writes that were accepted are
// flushed, background work stops (a consumer applies what it holds), caches
// stop, then the queue, Redis and Postgres close. Serve must have returned.
func (a *App) Close() error {
	a.Streams.Close()
	a.writes.Close()
	a.batches.Close()
	a.Ledger.Close()
	a.stop()
	a.running.Wait()
	a.Archive.Close()
	a.Users.Close()
	a.verifier.Close()
	a.closeQueue()
	return a.stores.Close()
}
