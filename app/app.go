// Package app builds the service out of its parts, runs it and stops it.
package app

import (
	// Boards have time zones, on machines without a zone database too.
	_ "time/tzdata"

	"context"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/config"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/status"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/lease"
	"stepboard/services/rankings/stream"
)

const (
	// rewind is how far back the ledger's reconciler starts after a possible loss
	// in Redis, and at its regular runs: further than a transaction lasts, than a
	// restart of Redis loses, and than clocks differ.
	rewind = 10 * time.Minute
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
	// SessionSecret signs the tokens of sessions; empty means auth.hs256_secret.
	SessionSecret string
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

// App holds the services and what they are built on, by wings. The commands, the demo and
// the tests all use it. Its life is Build, Start or Run, Close.
type App struct {
	platform
	people
	boards
	rankings
	operations

	Handler http.Handler
	Metrics http.Handler // what Prometheus reads

	stores      *stores.Stores
	shipping    Shipping // nil if nothing is shipped
	shipEvery   time.Duration
	connections *connections     // to the listener of Run
	tls         *tls.Config      // of Run; nil for none
	scheduler   *jobs.Scheduler  // nil without a role that has jobs
	reporter    *status.Reporter // nil without a role

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
	a := &App{refresh: !o.KeepStoredBoards, tls: o.TLS, stores: o.Stores, shipping: o.Shipping, shipEvery: o.Config.Backup.Interval}
	if err := a.build(ctx, o); err != nil {
		if a.Directory != nil {
			a.Directory.Close()
		}
		a.closeQueue()
		return nil, err
	}
	return a, nil
}

// build constructs the wings, each upon those before it, and what serves and repeats their work.
func (a *App) build(ctx context.Context, o Options) (err error) {
	if a.platform, err = newPlatform(ctx, o); err != nil {
		return err
	}
	erasures := erasure.NewStore(o.Stores.Jobs.Gorm, o.Stores.Reports.Gorm)
	idKey, err := erasures.Key(ctx)
	if err != nil {
		return models.Unavailable("read the key of erasures", err)
	}
	known := catalog.New(catalog.NewStore(o.Stores.Gorm), o.Clock, o.Config.HotDays, o.Log)
	known.Definitions.Retain = o.Config.Ledger.Retain
	returned := func(ctx context.Context, rows []models.RowID) error { return a.Erasure.Return(ctx, rows) } // built later
	if a.people, err = newPeople(ctx, o, a.platform, known, idKey, returned); err != nil {
		return err
	}
	if a.boards, err = newBoards(ctx, o, a.platform, known, a.people); err != nil {
		return err
	}
	if a.rankings, err = newRankings(ctx, o, a.platform, a.people, a.boards, a.tellChanged); err != nil {
		return err
	}
	if err := a.buildOperations(o, erasures, idKey); err != nil {
		return err
	}
	if err := a.buildJobs(o); err != nil {
		return err
	}
	if err := a.buildHandler(o, idKey); err != nil {
		return err
	}
	return a.backing.load(ctx, a)
}
