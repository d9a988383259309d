package stores

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/models"
)

const (
	// archiveConns is how many connections archive runs have: one each for the two
	// runs of a process, for as long as they copy, and one for short statements.
	archiveConns = 3
	// patience is how long a caller waits for a connection. A client should get its
	// 503 before it gives up.
	patience = 2 * time.Second
	// jobPatience is how long a job waits for a connection.
	jobPatience = 10 * time.Second
	// busyFor is how long work counts as busy after a caller has waited in vain.
	busyFor = 10 * time.Second
)

// fewRows are settings for the statements of calls, each of which is about a few people among
// millions. They are to be looked up by an index even if Postgres has no statistics yet, as
// after an import: it would otherwise read all users for one person's friends. Compiling a
// statement, or starting more processes for it, takes longer than it does.
var fewRows = map[string]string{
	"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off",
	"jit": "off", "max_parallel_workers_per_gather": "0",
}

// ErrBusy means that every connection of a kind of work has been in use for too long.
var ErrBusy = errors.New("no connection to the database was free in time")

// Database holds the connections to the database that one kind of work uses.
type Database struct {
	Gorm *gorm.DB
	SQL  *sql.DB
	// Pool is the pool under SQL; nil with local stores.
	Pool *pgxpool.Pool
	// refusedAt is when a caller last waited for a connection in vain, in
	// milliseconds; nil with local stores.
	refusedAt *atomic.Int64
}

// Busy returns ErrBusy if a caller has waited for a connection in vain within
// busyFor.
func (d Database) Busy() error {
	if d.refusedAt != nil && time.Since(time.UnixMilli(d.refusedAt.Load())) < busyFor {
		return ErrBusy
	}
	return nil
}

// Work is a kind of work and its connections.
type Work struct {
	Name string
	Database
}

// Works returns all kinds of work.
func (s *Stores) Works() []Work {
	return []Work{
		{"increments", s.Increments}, {"friends", s.Friends}, {"lookups", s.Database}, {"reports", s.Reports},
		{"jobs", s.Jobs}, {"archive", s.Archive}, {"probes", s.Probes},
	}
}

// openPostgres opens the connections of each kind of work. Five kinds share
// max_conns equally. Callers wait for a connection for wait, if it is not 0.
func (s *Stores) openPostgres(
	ctx context.Context, cfg config.Postgres, clock models.Clock, traces trace.TracerProvider, wait time.Duration,
) error {
	pgConfig, err := postgresConfig(cfg, traces, cmp.Or(wait, postgresDial))
	if err != nil {
		return err
	}
	fifth := func(remainder int) int { return (cfg.MaxConns + remainder) / 5 }
	for _, work := range []struct {
		database *Database
		conns    int
		patience time.Duration
		plans    map[string]string
	}{
		{&s.Increments, fifth(4), patience, fewRows},
		{&s.Friends, fifth(3), patience, fewRows},
		{&s.Database, fifth(2), patience, fewRows},
		{&s.Reports, fifth(1), patience, fewRows},
		{&s.Jobs, fifth(0), jobPatience, nil},
		{&s.Archive, archiveConns, jobPatience, nil},
		{&s.Probes, 1, patience, nil},
	} {
		pgConfig := pgConfig.Copy()
		pgConfig.MaxConns = int32(work.conns)
		maps.Copy(pgConfig.ConnConfig.RuntimeParams, work.plans)
		if *work.database, err = openDatabase(ctx, pgConfig, cmp.Or(wait, work.patience), clock); err != nil {
			s.closePools()
			return fmt.Errorf("open postgres: %w", err)
		}
	}
	s.closeServers = s.closePools
	return nil
}

// openDatabase opens a pool, which connects at its first use.
func openDatabase(
	ctx context.Context, pgConfig *pgxpool.Config, patience time.Duration, clock models.Clock,
) (d Database, err error) {
	d.refusedAt = new(atomic.Int64)
	if d.Pool, err = pgxpool.NewWithConfig(ctx, pgConfig); err != nil {
		return d, err
	}
	d.SQL = sql.OpenDB(&connector{Connector: stdlib.GetPoolConnector(d.Pool), patience: patience, refusedAt: d.refusedAt})
	d.SQL.SetMaxIdleConns(0) // the pool keeps them
	d.Gorm, err = openGorm(postgres.New(postgres.Config{Conn: d.SQL}), clock)
	return d, err
}

// connector takes connections from a pool, and waits for one no longer than patience.
type connector struct {
	driver.Connector
	patience  time.Duration
	refusedAt *atomic.Int64
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	conn, err := c.Connector.Connect(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		c.refusedAt.Store(time.Now().UnixMilli())
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return conn, err
}

// closePools closes the pools. After closeTimeout it leaves that to the end of the
// process.
func (s *Stores) closePools() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var closing sync.WaitGroup
		for _, work := range s.Works() {
			if work.Pool != nil {
				closing.Go(work.Pool.Close)
			}
		}
		closing.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}
