// Package app builds the service out of its parts, runs it and stops it.
package app

import (
	// Boards have time zones, on machines without a zone database too.
	_ "time/tzdata"

	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"stepboard/config"
	"stepboard/handlers"
	"stepboard/internal/repeats"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/phones"
	"stepboard/services/boards/results"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/importer"
	"stepboard/services/operations/reviews"
	"stepboard/services/operations/status"
	"stepboard/services/operations/wechat"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/clock"
	"stepboard/services/platform/cursor"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/limit"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/passed"
	"stepboard/services/rankings/ranking"
	"stepboard/services/rankings/stream"
)

const (
	// rewind is how far back the ledger's reconciler starts after a possible loss
	// in Redis, and at its regular runs: further than a transaction lasts, than a
	// restart of Redis loses, and than clocks differ.
	rewind = 10 * time.Minute
	// replayTimeout bounds the check whether Redis has lost queued updates.
	replayTimeout = 2 * time.Second
)

// Options holds what Build needs.
type Options struct {
	Config config.Config
	Stores *stores.Stores
	Clock  models.Clock
	// Machine is the machine's clock, without clock.offset; nil means time.Now.
	Machine models.Clock
	// Elapsed is the clock that the ages of what a process knows are measured by; nil means
	// time.Now, whose differences are those of the monotonic clock.
	Elapsed models.Clock
	// Random decides the row ids of archived scores of erased users, and how long the near
	// cache waits after a loss; nil means a source that nobody can foresee.
	Random   models.Random
	Log      *slog.Logger
	Verifier *auth.Verifier
	// Leases are taken by jobs; nil means those of the stores.
	Leases *lease.Service
	// StreamLimits limits streams of rankings. The zero value means the defaults.
	// PerAddress comes from Config.
	StreamLimits stream.Limits
	// TLS encrypts the connections of Run, if it is not nil; NewTLS makes it.
	TLS *tls.Config
	// Traces records traces, unless it is nil. The caller closes it after Close,
	// because spans may end until then.
	Traces *Traces
	// Shipping copies the data folder's database to backup.to; nil if nothing does. The App closes it.
	Shipping Shipping
	// Extra adds routes to the handler; may be nil. The demo uses it.
	Extra func(*gin.Engine)
	// KeepStoredBoards keeps the definitions of boards that are stored already. It
	// is for commands that may run at the same time as the service, with no roles.
	KeepStoredBoards bool
	Roles            Roles
}

// Shipping is a shipping.Shipper.
type Shipping interface {
	Step(ctx context.Context) error
	Tend(ctx context.Context) error
	Status() shipping.Status
	Close() error
}

// Roles says what a process does. Several processes may have the same role.
type Roles struct {
	// API serves requests, Consumer applies queued updates to the boards, Jobs
	// runs the scheduled jobs.
	API, Consumer, Jobs bool
}

// AllRoles returns all roles, which a process has by default.
func AllRoles() Roles { return Roles{API: true, Consumer: true, Jobs: true} }

// App holds the services and what they are built on. The commands, the demo and
// the tests all use it. Its life is Build, Start or Run, Close.
type App struct {
	Catalog      *catalog.Catalog
	Entries      board.Entries
	Friends      *friends.Service
	Privacy      *privacy.Service
	Groups       *groups.Service
	Teams        *teams.Service
	Sets         cache.Copies
	Directory    *directory.Service
	NearCache    ranking.NearCache // nil unless rankings.max_staleness is set
	Ranking      *ranking.Service
	Likes        *likes.Service
	Streams      *stream.Service
	Archive      *archive.Service
	Corrections  *corrections.Service
	Ingest       *ingest.Service
	Ledger       *ledger.Service
	Importer     *importer.Service
	DeadLetters  *ingest.DeadLetters
	Reviews      *reviews.Service
	Holds        *holds.Service
	Competitions *competitions.Service
	Deliveries   *outcomes.Deliveries
	Notices      *notices.Service
	Phones       *phones.Service
	WeChat       *wechat.Service
	Erasure      *erasure.Service
	Audit        *audit.Service
	Replayer     *ingest.Replayer // nil without a queue
	Reconciler   *ledger.Reconciler
	Handler      http.Handler
	Metrics      http.Handler // what Prometheus reads

	log         *slog.Logger
	digests     *digests.Service
	passed      *passed.Service
	states      passed.States
	passing     *passed.Feed
	outbox      *outcomes.Outbox
	webhooks    *outcomes.Store
	push        *outcomes.Push // nil without Web Push
	deliverer   *outcomes.Deliverer
	deliver     bool // whether this process delivers webhooks
	stores      *stores.Stores
	verifier    *auth.Verifier
	writer      *ingest.Writer // of uploads
	increments  *ledger.Store
	rules       *corrections.Rules
	decisions   *corrections.Store
	leases      *lease.Service
	cursors     *cursor.Sealer
	limits      *limit.Service
	registry    *prometheus.Registry
	durations   *handlers.Durations
	backing     backing
	clock       *clock.Guard     // of the machine's clock
	queue       ingest.Queue     // nil in direct mode
	consumer    *ingest.Consumer // nil without a queue or the role
	scheduler   *jobs.Scheduler  // nil without a role that has jobs
	reporter    *status.Reporter // nil without a role
	shipping    Shipping         // nil if nothing is shipped
	shipEvery   time.Duration
	connections *connections // to the listener of Run
	tls         *tls.Config  // of Run; nil for none

	// refresh is false for commands, which read the definitions of boards once.
	// Their standard error is for one line, not for a log of failed refreshes.
	refresh  bool
	starting sync.Once
	stop     context.CancelFunc // ends the background work; nil before Start
	running  sync.WaitGroup     // the background work
}

// Build constructs the service and stores its boards' definitions. It returns an
// error if the machine's clock differs from Postgres's by more than clock.Limit.
// With local stores it also loads the boards.
// Nothing runs in the background before Start. The App owns the stores and the
// verifier from then on: Close closes them. On an error they remain the caller's.
func Build(ctx context.Context, o Options) (*App, error) {
	if o.Machine == nil {
		o.Machine = time.Now
	}
	if o.Elapsed == nil {
		o.Elapsed = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	registry := newRegistry()
	stored := newBacking(o, registry)
	if err := stored.check(); err != nil {
		return nil, err
	}
	bounds, err := newConnections(o.Config.HTTP.MaxConnections, o.Config.HTTP.TrustedProxies)
	if err != nil {
		return nil, err
	}
	a := &App{
		refresh: !o.KeepStoredBoards, connections: bounds, tls: o.TLS,
		log: o.Log, stores: o.Stores, shipping: o.Shipping, shipEvery: o.Config.Backup.Interval, verifier: o.Verifier,
		backing: stored, leases: cmp.Or(o.Leases, stored.leases()), registry: registry, durations: handlers.NewDurations(), clock: stored.clockGuard(),
	}
	if err := a.clock.Compare(ctx); err != nil {
		return nil, err
	}
	a.registry.MustRegister(newConnectionsCollector(a.connections))
	if a.shipping != nil {
		a.registry.MustRegister(newBackupCollector(a.shipping.Status))
	}
	if err := a.build(ctx, o); err != nil {
		if a.Directory != nil {
			a.Directory.Close()
		}
		a.closeQueue()
		return nil, err
	}
	return a, nil
}

// build constructs the services, each after those that it depends on.
func (a *App) build(ctx context.Context, o Options) error {
	a.outbox = newOutbox(o)
	erasures := erasure.NewStore(o.Stores.Jobs.Gorm, o.Stores.Reports.Gorm)
	idKey, err := erasures.Key(ctx)
	if err != nil {
		return models.Unavailable("read the key of erasures", err)
	}
	a.buildBoards(o, idKey)
	if err := a.defineBoards(ctx, o); err != nil {
		return err
	}
	if err := a.Corrections.Refresh(ctx); err != nil {
		return err
	}
	if err := a.loadUsers(ctx, o); err != nil {
		return err
	}
	if err := a.buildNotices(ctx, o); err != nil {
		return err
	}
	if err := a.buildWebhooks(o); err != nil {
		return err
	}
	a.buildLedger(o)
	if err := a.buildIngest(ctx, o); err != nil {
		return err
	}
	a.Phones = phones.New(phones.Options{
		Store: phones.NewStore(o.Stores.Gorm), Boards: a.Catalog.Definitions, Directory: a.Directory, Uploads: a.Ingest, Clock: o.Clock,
	})
	a.buildErasure(o, erasures, idKey)
	if err := a.buildWeChat(o, idKey); err != nil {
		return err
	}
	a.buildRanking(o)
	if err := a.buildJobs(o); err != nil {
		return err
	}
	o.StreamLimits.PerAddress = o.Config.Limits.StreamsPerAddress
	a.Streams = stream.New(a.Ranking, a.passing, o.StreamLimits)
	a.registry.MustRegister(newStreamCollector(a.Streams))
	if err := a.buildHandler(o); err != nil {
		return err
	}
	return a.backing.load(ctx, a)
}

// buildBoards constructs the services of boards, users, friendships and the archive. idKey is
// the key of directory.IDHash.
func (a *App) buildBoards(o Options, idKey []byte) {
	a.Catalog = catalog.New(catalog.NewStore(o.Stores.Gorm), o.Clock, o.Config.HotDays, o.Log)
	a.Catalog.Definitions.Retain = o.Config.Ledger.Retain
	copies := a.backing.copies()
	a.Directory = directory.New(directory.Options{
		Store: directory.NewStore(o.Stores.Gorm), Copies: copies,
		Memory: int64(o.Config.Directory.Memory), Log: o.Log, Elapsed: o.Elapsed, IDKey: idKey,
		Return: func(ctx context.Context, rows []models.RowID) error { return a.Erasure.Return(ctx, rows) }, // built later
	})
	a.registry.MustRegister(newDirectoryCollector(a.Directory, copies != nil))
	a.rules = corrections.NewRules(a.Directory.Erased())
	a.Entries, a.Sets = a.backing.boards(a.rules, a.Catalog.Buckets)
	a.NearCache = a.backing.near()
	a.limits = limit.New(limit.Limits{
		User: o.Config.Limits.UserPerMinute, Address: o.Config.Limits.AddressPerMinute, Join: o.Config.Limits.JoinsPerMinute,
		Login: o.Config.Limits.LoginsPerMinute,
	}, a.backing.counter(), o.Log)
	a.registry.MustRegister(newLimitCollector(a.limits))
	requests := friends.Limits{Pending: o.Config.Friends.MaxPending, PerDay: o.Config.Friends.RequestsPerDay, Joins: a.limits}
	friendships := friends.NewStore(o.Stores.Friends.Gorm, a.outbox)
	a.Friends = friends.New(friendships, a.Sets, a.Directory, requests, o.Log)
	a.registry.MustRegister(newFriendsCollector(a.Friends))
	a.Privacy = privacy.New(privacy.NewStore(o.Stores.Friends.Gorm), a.Sets, a.Friends, a.Directory, o.Config.Limits.HidingsPerHour, o.Log)
	a.buildGroups(o)
	archives := archive.NewStore(archive.StoreOptions{
		Runs: o.Stores.Archive.Gorm, Pool: o.Stores.Archive.Pool, Reads: o.Stores.Gorm, Reports: o.Stores.Reports.Gorm,
		Outbox: a.outbox, Random: o.Random,
	})
	a.Archive = archive.New(archives, a.backing.source(), a.leases, o.Clock, o.Log)
	a.registry.MustRegister(newArchiveCollector(a.Archive))
	a.Audit = audit.New(audit.NewStore(o.Stores.Gorm), a.Directory, o.Clock, o.Log)
	a.Reviews = reviews.New(reviews.NewStore(o.Stores.Jobs.Gorm), a.Catalog, a.Entries, a.Directory, o.Clock)
	if o.Roles.Jobs {
		a.registry.MustRegister(newReviewsCollector(a.Reviews))
	}
	a.buildCorrections(o)
}

// buildGroups constructs the services of groups and of competitions, in which groups are teams.
func (a *App) buildGroups(o Options) {
	var store *teams.Store
	store, a.Teams = a.newTeams(o, o.Stores.Friends)
	a.Groups = groups.New(groups.NewStore(o.Stores.Friends.Gorm, store), a.Sets, a.Privacy.Sets(), a.Directory, a.limits, o.Log)
}

// newTeams returns a service of competitions over the connections of a kind of work.
func (a *App) newTeams(o Options, work stores.Database) (*teams.Store, *teams.Service) {
	store := teams.NewStore(work.Gorm, func(board string) (models.Date, error) {
		b, err := a.Catalog.Definitions.Board(board)
		if err != nil {
			return 0, err
		}
		return b.Today(o.Clock()), nil
	})
	return store, teams.New(store, func(board string) error {
		b, err := a.Catalog.Definitions.Board(board)
		if err == nil {
			err = b.RequireDays()
		}
		if err == nil {
			err = b.RequireHigh("competitions")
		}
		return err
	}, a.Directory, a.limits)
}

// buildCorrections constructs the services that make boards agree with the ledger and with
// the corrections.
func (a *App) buildCorrections(o Options) {
	a.increments = ledger.NewStore(o.Stores.Jobs.Gorm, o.Stores.Increments.Gorm, o.Stores.Increments.Pool)
	a.Reconciler = ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: a.increments, Totals: a.Catalog.Buckets, Entries: a.Entries, Archived: a.Archive.Complete,
		Clock: o.Clock, Log: o.Log, Rewind: rewind,
	})
	a.decisions = corrections.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm, o.Random)
	a.Corrections = corrections.New(corrections.Options{
		Store: a.decisions, Rules: a.rules, Catalog: a.Catalog, Entries: a.Entries, Archive: a.Archive,
		Ledger: a.Reconciler, Directory: a.Directory, Clock: o.Clock, Log: o.Log,
	})
	a.registry.MustRegister(newCorrectionsCollector(a.Corrections))
}

// defineBoards stores the definitions of the settings' boards, and logs which stored boards
// the settings no longer name.
func (a *App) defineBoards(ctx context.Context, o Options) error {
	if o.KeepStoredBoards {
		return a.Catalog.Definitions.DefineMissing(ctx, o.Config.BoardDefinitions())
	}
	if err := a.Catalog.Definitions.Define(ctx, o.Config.BoardDefinitions()); err != nil {
		return err
	}
	return warnOfBoards(ctx, o.Config, o.Stores, o.Clock(), o.Log)
}

// loadUsers loads who was erased and the keys of cursors.
func (a *App) loadUsers(ctx context.Context, o Options) (err error) {
	if err := a.Directory.LoadErased(ctx); err != nil {
		return err
	}
	a.cursors, err = cursor.New(ctx, cursor.NewStore(o.Stores.Gorm), o.Clock)
	return err
}

// buildRanking constructs the services of rankings, likes, digests, competitions and of who has passed whom.
func (a *App) buildRanking(o Options) {
	given := likes.NewStore(o.Stores.Friends.Gorm, a.outbox)
	a.Ranking = ranking.New(ranking.Options{
		Catalog: a.Catalog, Entries: a.Entries, Archive: a.Archive, Friends: a.Friends, Groups: a.Groups,
		Privacy: a.Privacy, Directory: a.Directory, Cursors: a.cursors, Likes: given, NearCache: a.NearCache, Corrections: a.Corrections, Holds: a.Holds, Clock: o.Clock,
		Rules: a.rules, Whole: a.backing.whole, HistoryDays: o.Config.Friends.HistoryDays,
	})
	a.Likes = likes.New(likes.Options{
		Store: given, Rankings: a.Ranking, Catalog: a.Catalog, Directory: a.Directory, Cursors: a.cursors, Clock: o.Clock,
	})
	a.registry.MustRegister(newRankingCollector(a.Ranking, a.backing.hot()))
	a.digests = digests.New(digests.Options{
		Store: digests.NewStore(o.Stores.Jobs.Gorm, a.outbox), Catalog: a.Catalog, Rankings: a.Ranking,
		Likes: likes.NewStore(o.Stores.Jobs.Gorm, nil), Clock: o.Clock, Log: o.Log,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newDigestsCollector(a.digests, o.Clock))
	}
	a.passed = passed.New(passed.Options{
		Wanting: notices.NewStore(o.Stores.Jobs.Gorm), States: a.states, Catalog: a.Catalog, Rankings: a.Ranking,
		Store: passed.NewStore(o.Stores.Jobs.Gorm, a.outbox), Feed: a.passing, Clock: o.Clock, Log: o.Log,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newPassedCollector(a.passed))
	}
	_, defined := a.newTeams(o, o.Stores.Jobs)
	a.Competitions = competitions.New(competitions.Options{
		Calls:   competitions.Data{Store: competitions.NewStore(o.Stores.Gorm, nil), Definitions: a.Teams},
		Jobs:    competitions.Data{Store: competitions.NewStore(o.Stores.Jobs.Gorm, a.outbox), Definitions: defined},
		Catalog: a.Catalog, Entries: a.Entries, Archive: a.Archive, Rules: a.rules, Privacy: a.Privacy, Directory: a.Directory,
		Cursors: a.cursors, RetainMonths: o.Config.Archive.RetainMonths, Memory: int64(o.Config.Rankings.Memory) / 8, Clock: o.Clock, Log: o.Log,
		Tell: a.tellChanged,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newCompetitionsCollector(a.Competitions, o.Clock))
	}
}

// tellChanged writes to the audit log that a day of a final competition has changed since.
func (a *App) tellChanged(ctx context.Context, c models.Competition) error {
	finish, err := a.Audit.Begin(ctx, audit.Entry{AuditEntry: models.AuditEntry{
		Actor: "job competitions", Action: "competition changed", Board: c.Board, Target: string(c.ID),
		Reason: "a day was archived again since the competition became final",
	}})
	if err == nil {
		finish(nil)
	}
	return err
}

// buildLedger constructs the service that counts increments.
func (a *App) buildLedger(o Options) {
	a.Ledger = ledger.New(a.increments, guardedTotals{a.Catalog.Buckets, a.clock}, a.Directory, a.Entries, o.Clock, o.Log)
	a.registry.MustRegister(newLedgerCollector(a.Ledger))
}

// buildIngest constructs the services of uploads, which go to the boards directly
// or through the queue.
func (a *App) buildIngest(ctx context.Context, o Options) (err error) {
	if a.queue, err = newQueue(ctx, o, a.Catalog.Buckets.DaysHot(), a.backing.room()); err != nil {
		return err
	}
	targets := ingest.Targets{Buckets: a.Catalog.Buckets, Users: a.Directory}
	deadLetters := ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm)
	a.DeadLetters = ingest.NewDeadLetters(deadLetters, targets, a.Entries, a.Directory)
	a.writer = ingest.Direct(a.Entries, o.Traces.flushes)
	if a.queue != nil {
		a.writer = ingest.Queued(a.queue, o.Traces.flushes)
		a.Replayer = ingest.NewReplayer(ingest.ReplayerOptions{
			Queue: a.queue, Targets: targets, Entries: a.Entries, Clock: o.Machine, Log: o.Log,
			Rewind: o.Config.Ingest.Rewind,
		})
		a.registry.MustRegister(newQueueCollector(a.queue))
		if o.Roles.Consumer {
			a.consumer = ingest.NewConsumer(ingest.ConsumerOptions{
				Queue: a.queue, Targets: targets, Entries: a.Entries, DeadLetters: deadLetters, Clock: o.Clock, Log: o.Log,
				Interval: o.Config.Ingest.FlushInterval, Batch: o.Config.Ingest.BatchSize, Registry: a.registry,
			})
		}
	}
	held := holds.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm)
	a.Ingest = ingest.New(a.Catalog, a.Directory, held, a.writer, o.Clock)
	a.Holds = holds.New(holds.Options{
		Store: held, Catalog: a.Catalog, Entries: a.Entries, Archive: a.Archive, Rules: a.rules, Directory: a.Directory,
		Write: a.writer.Raise, RetainMonths: o.Config.Archive.RetainMonths, Clock: o.Clock, Log: o.Log,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newHoldsCollector(a.Holds))
	}
	a.Importer = &importer.Service{
		Friends: a.Friends, Directory: a.Directory, Buckets: a.Catalog.Buckets, Entries: a.Entries, Archive: a.Archive,
		RaiseHot: a.writer.Raise, RaiseCold: a.Entries.Raise, Analyze: o.Stores.Analyze, OneWriter: a.backing.oneWriter(), Clock: o.Clock, Log: o.Log,
	}
	return nil
}

// buildJobs constructs the scheduler with the jobs of the process's roles. Their
// schedules are in the time zones of the boards. The jobs of the other roles
// only show their metrics.
func (a *App) buildJobs(o Options) error {
	nightly, err := jobs.Zoned(o.Config.Jobs.ArchiveCron, a.Catalog.Definitions.Zones, o.Clock)
	if err != nil {
		return fmt.Errorf("jobs.archive_cron: %w", err)
	}
	reconcile := a.backing.reconcile(a.Reconciler.Replay)
	list := o.Traces.jobs(
		guarded(jobs.Archive(a.Archive, nightly, o.Config.Archive.RetainMonths, a.Teams.Earliest), a.clock),
		guarded(jobs.Reconcile(reconcile, a.Catalog.Buckets, a.Entries, o.Clock, o.Log, a.registry), a.clock),
		guarded(jobs.Correct(a.Corrections.Apply), a.clock),
		guarded(jobs.CorrectArchive(a.Corrections.PendingBuckets, a.Archive), a.clock),
		guarded(jobs.Roll(a.Catalog.Buckets, a.Entries, o.Clock), a.clock),
		guarded(jobs.Purge(
			func(ctx context.Context) (int64, error) { return a.Reconciler.Purge(ctx, o.Config.Ledger.Retain) },
			a.Friends.ForgetDeclined,
			a.deliverer.Purge,
			a.Erasure.Forget,
			func(ctx context.Context) (int64, error) { return purgeLikes(ctx, o) },
			a.Holds.Purge,
		), a.clock),
		guarded(jobs.Finish(func(ctx context.Context) (finished int64, err error) {
			// The boards have all increments of a final event once they are reconciled.
			if finished, err = a.Catalog.Buckets.Finish(ctx); finished > 0 && err == nil {
				_, err = reconcile(ctx)
			}
			return finished, err
		}), a.clock),
		jobs.Reviews(a.Reviews.Find),
		guarded(jobs.Holds(a.Holds.Write), a.clock),
		guarded(jobs.Competitions(a.Competitions.Run), a.clock),
		guarded(jobs.Erase(a.Erasure.Run), a.clock),
	)
	if a.outbox.Wants(models.OutcomeBoardFinal) {
		events := results.NewEvents(a.outbox, o.Stores.Jobs.Gorm, o.Clock)
		list = append(list, o.Traces.jobs(guarded(jobs.Results(events.Announce), a.clock))...)
	}
	if o.Config.Jobs.DigestCron != "" && a.outbox.Wants(models.OutcomeDigestReady) {
		due, err := jobs.FirstFiring(o.Config.Jobs.DigestCron)
		if err != nil {
			return fmt.Errorf("jobs.digest_cron: %w", err)
		}
		run := func(ctx context.Context) (int64, error) { return a.digests.Run(ctx, due) }
		list = append(list, o.Traces.jobs(guarded(jobs.Digest(run), a.clock))...)
	}
	if every := o.Config.Passed.Every; every > 0 {
		list = append(list, o.Traces.jobs(guarded(jobs.Passed(every, a.passed.Run), a.clock))...)
	}
	for i := range list {
		list[i].MetricsOnly = !o.Roles.Jobs
	}
	list = append(list, a.backing.jobs(a)...)
	scheduler := jobs.New(a.leases, o.Clock, o.Log, a.registry, list...)
	if o.Roles != (Roles{}) {
		a.scheduler = scheduler
		a.reporter = a.newReporter(o)
		scheduler.Ended = a.reporter.JobEnded
	}
	return nil
}

// purgeLikes deletes the likes of days that the archive has dropped.
func purgeLikes(ctx context.Context, o Options) (int64, error) {
	if o.Config.Archive.RetainMonths == 0 {
		return 0, nil
	}
	return likes.NewStore(o.Stores.Jobs.Gorm, nil).Purge(ctx, archive.FirstKept(o.Clock(), o.Config.Archive.RetainMonths))
}

// buildHandler constructs the HTTP handler and its rate limits.
func (a *App) buildHandler(o Options) (err error) {
	a.Metrics = handlers.Metrics(a.registry)
	state := status.New(status.NewStore(o.Stores.Gorm), a.Archive, a.Catalog.Definitions, a.Entries, o.Clock)
	a.Handler, err = handlers.New(handlers.Config{
		Scores: a.Ingest, Increments: a.Ledger, Boards: a.Catalog.Definitions, Buckets: a.Catalog.Buckets,
		Rankings: a.Ranking, Absent: a.Ranking, Likes: a.Likes, History: a.Ranking, Explanations: a.Ranking, Streams: a.Streams,
		Friends: a.Friends, FriendRequests: a.Friends, Invites: a.Friends, Groups: a.Groups, Competitions: a.Competitions, CompetitionDefinitions: a.Teams, Profiles: a.Directory, Privacy: a.Privacy,
		Push: a.Notices, Phones: a.Phones, WeChat: a.WeChat, Logins: a.limits,
		Cursors:  a.cursors,
		Archives: guardedArchive{a.Archive, a.clock}, DeadLetters: a.DeadLetters, Reviews: a.Reviews, Holds: a.Holds,
		Corrections: a.Corrections, Deliveries: a.Deliveries, Erasures: a.Erasure, Audit: a.Audit,
		Status: state, BucketStates: state, Users: a.newSupport(o), Queue: a.queueLag(),
		CheckErasures: a.Directory.CheckErasures,
		Tokens:        o.Verifier, Limits: a.limits, TrustedProxies: o.Config.HTTP.TrustedProxies,
		LimitAddresses: o.Config.Limits.AddressPerMinute > 0 || o.Config.Limits.StreamsPerAddress > 0 ||
			len(o.Config.WeChat.Apps) > 0 && o.Config.Limits.LoginsPerMinute > 0,
		BasePath: o.Config.HTTP.BasePath, Origins: o.Config.HTTP.CORSOrigins,
		ProbesOnly: !o.Roles.API, MetricsElsewhere: o.Config.HTTP.MetricsAddr != "", Ready: a.ready, Clock: o.Clock,
		Registry: a.registry, Durations: a.durations, Grafana: o.Config.Page.GrafanaURL, Login: o.Config.Page.LoginURL, Folder: o.Config.Data.Dir != "", Log: o.Log, Requests: repeats.Unbounded(o.Log), Version: Version(), Extra: o.Extra,
		Traces: o.Traces.Provider(), Sampled: o.Traces.sampled,
	})
	return err
}

// ready returns an error, or nil, for each store, for what the backing checks and for the queue.
// Work is degraded that finds no free connection, what a wrong clock would harm, and copies that are
// behind.
func (a *App) ready(ctx context.Context) handlers.Readiness {
	found := handlers.Readiness{Degraded: make(map[string]error)}
	var checks, degraded map[string]error
	var lag error
	var others sync.WaitGroup
	others.Go(func() { checks, degraded = a.backing.ready(ctx) })
	if a.queue != nil {
		others.Go(func() { _, lag = a.queue.Lag(ctx) })
	}
	found.Stores = a.stores.Ready(ctx)
	others.Wait()
	maps.Copy(found.Stores, checks)
	maps.Copy(found.Degraded, degraded)
	if a.queue != nil {
		found.Stores["queue"] = lag
	}
	for _, work := range a.stores.Works() {
		if err := work.Busy(); err != nil {
			found.Degraded[work.Name] = err
		}
	}
	if err := a.clock.Check(); err != nil {
		found.Degraded["clock"] = err
	}
	if a.shipping != nil {
		if err := behind(a.shipping.Status(), a.shipEvery); err != nil {
			found.Degraded["backup"] = err
		}
	}
	return found
}

func (a *App) closeQueue() {
	if a.queue != nil {
		a.queue.Close()
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
