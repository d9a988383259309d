// Package stores opens the connections to Redis and Postgres, or local stores: the SQLite
// database of a data folder, or one in memory.
//
// Each kind of work has a pool of its own to Postgres (Database), so that a locked table holds
// up only the work that needs it. Calls never depend on Postgres's statistics, which an import
// makes wrong for minutes: the connections of calls may not join by hashing or merging, so every
// row is looked up by an index (see internal/visible). A test counts the rows that calls read
// without statistics, with them, and when nearly everybody hides.
//
// A client of a cluster learns of a new master by a redirection, which a dead master does not
// send. So it reloads the slots as soon as a node does not answer (hooks.go). While a slot
// moves, commands that neither owner can execute yet are retried.
//
// A data folder has one connection that writes, for which kinds of work wait in the order of their
// priority (conns.go), and others that read. Kinds of work have connections of their own in name
// only: each takes one of the folder's for a statement or a transaction (file_conn.go).
package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"stepboard/config"
	"stepboard/migrations"
	"stepboard/models"
)

const (
	// redisTimeout bounds dialing, reading and writing. Redis responds in well
	// under a millisecond: a second is an outage, and waiting longer only makes
	// requests pile up.
	redisTimeout = time.Second
	// redisRetries is how often a command is retried on another connection. All
	// commands can be: raising a score again changes nothing.
	redisRetries = 1

	// postgresDial bounds a connection attempt.
	postgresDial = 3 * time.Second
	// closeTimeout bounds how long closing waits for connections that are in use
	// or half open, so that a Postgres that hangs does not keep the process alive.
	closeTimeout = 5 * time.Second

	// idleTransaction is how long a transaction may be idle before Postgres ends
	// it, because its process has stalled. It must be less than the minute after
	// which the mark of a friend set expires.
	idleTransaction = 20 * time.Second
	// statementTimeout bounds a statement.
	statementTimeout = 30 * time.Second

	// An idle connection is probed after keepaliveIdle, and again at each
	// keepaliveInterval. It is closed after keepaliveCount probes without an answer.
	// By default the server would keep the transaction of a failed machine for more
	// than two hours.
	keepaliveIdle     = 15 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3
)

// Stores holds the connections that all services share.
type Stores struct {
	// Redis is nil if the stores are local: a data folder, or memory.
	Redis redis.UniversalClient
	// Folder is the data folder; nil for other stores.
	Folder *Folder
	// Queue is a client of the queue's Redis. If it is nil, the queue connects by itself, as
	// it does outside of tests. The queue closes it.
	Queue   redis.UniversalClient
	Dialect migrations.Dialect
	// Database is for lookups: definitions of boards, buckets, profiles and archived days.
	Database
	// Further kinds of work have connections of their own. Work that waits for a
	// locked table then takes none of the others'. With a database in memory all
	// use the same.
	Friends, Increments, Reports, Jobs, Archive, Probes Database
	// file is the folder's database; nil for other stores.
	file *file
	// copying is held while a backup is made.
	copying sync.Mutex
	// closeServers closes the pools or the database, after the connections.
	closeServers func()
	closing      sync.Once
}

// Open opens Redis and Postgres, which connect at their first use. Calls that
// belong to a trace get a span from traces; if it is nil, nothing is traced.
func Open(ctx context.Context, cfg config.Config, clock models.Clock, traces trace.TracerProvider) (*Stores, error) {
	return open(ctx, cfg, clock, traces, 0)
}

// commandPatience is how long a command waits for a connection to Postgres.
const commandPatience = 30 * time.Second

// OpenForCommand is Open for a command, which nobody expects an answer of within seconds: it
// waits longer for connections.
func OpenForCommand(ctx context.Context, cfg config.Config, clock models.Clock) (*Stores, error) {
	return open(ctx, cfg, clock, nil, commandPatience)
}

// open is Open with another patience for connections to Postgres, if it is not 0.
func open(
	ctx context.Context, cfg config.Config, clock models.Clock, traces trace.TracerProvider, wait time.Duration,
) (*Stores, error) {
	rdb, err := OpenTracedRedis(cfg.Redis, traces)
	if err != nil {
		return nil, err
	}
	s := &Stores{Redis: rdb, Dialect: migrations.Postgres}
	if err := s.openPostgres(ctx, cfg.Postgres, clock, traces, wait); err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return s, nil
}

// OpenTracedRedis is like OpenRedis with a span for every command or pipeline
// that belongs to a trace. If traces is nil, nothing is traced.
func OpenTracedRedis(cfg config.Redis, traces trace.TracerProvider) (redis.UniversalClient, error) {
	rdb := OpenRedis(cfg)
	if traces == nil {
		return rdb, nil
	}
	// Arguments are left out, because keys and members name users.
	err := redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(traces),
		redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace redis: %w", err), rdb.Close())
	}
	return rdb, nil
}

// The client also returns as errors what it would print. They are logged with their request. Its
// goroutines read the variable that this sets, so it is set before any of them runs.
var _ = silent()

func silent() bool {
	redis.SetLogger(&logging.VoidLogger{})
	return true
}

// OpenRedis returns a client of Redis, which connects at its first use.
func OpenRedis(cfg config.Redis) redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs:            cfg.Addrs,
		MasterName:       cfg.MasterName,
		IsClusterMode:    cfg.Mode == "cluster",
		Username:         cfg.Username,
		Password:         cfg.Password,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		DialTimeout:      redisTimeout,
		// Dialing is not retried, because the command is.
		DialerRetries: 1,
		ReadTimeout:   redisTimeout,
		WriteTimeout:  redisTimeout,
		// A caller that waits for less time than that has a deadline.
		ContextTimeoutEnabled: true,
		PoolTimeout:           redisTimeout,
		MaxRetries:            redisRetries,
		// Maintenance notifications are a feature of hosted servers. Subscribing
		// costs each new connection a command that Redis itself refuses.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cfg.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rdb := redis.NewUniversalClient(options)
	scripts := new(scriptHook)
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.AddHook(slotHook{cluster})
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(scripts) })
	} else {
		rdb.AddHook(scripts)
	}
	rdb.AddHook(pipelineHook{})
	return rdb
}

// postgresConfig returns the settings of every connection to Postgres. dial bounds a connection
// attempt, unless the DSN does.
func postgresConfig(cfg config.Postgres, traces trace.TracerProvider, dial time.Duration) (*pgxpool.Config, error) {
	pgConfig, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, fmt.Errorf("postgres.dsn: %w", withoutDSN(err))
	}
	if pgConfig.ConnConfig.ConnectTimeout == 0 {
		pgConfig.ConnConfig.ConnectTimeout = dial
	}
	params := pgConfig.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["idle_in_transaction_session_timeout"] = millis(idleTransaction)
	params["statement_timeout"] = millis(statementTimeout)
	setKeepalives(pgConfig.ConnConfig)
	if params["application_name"] == "" {
		params["application_name"] = "stepboard"
	}
	if traces != nil {
		// Spans have the statements without their arguments.
		pgConfig.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(traces),
			otelpgx.WithMeterProvider(noop.NewMeterProvider()), otelpgx.WithQuerySpanNamePrefix())
	}
	return pgConfig, nil
}

// setKeepalives lets both ends of a connection notice that the other machine has
// failed.
func setKeepalives(c *pgx.ConnConfig) {
	c.RuntimeParams["tcp_keepalives_idle"] = seconds(keepaliveIdle)
	c.RuntimeParams["tcp_keepalives_interval"] = seconds(keepaliveInterval)
	c.RuntimeParams["tcp_keepalives_count"] = strconv.Itoa(keepaliveCount)
	// Data that is not acknowledged stops the probes.
	c.RuntimeParams["tcp_user_timeout"] = millis(keepaliveIdle + keepaliveCount*keepaliveInterval)
	dialer := net.Dialer{
		Timeout:         c.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount},
	}
	c.DialFunc = dialer.DialContext
}

// withoutDSN returns the cause of a parse error without the DSN. The driver
// quotes the DSN and hides only some passwords.
func withoutDSN(err error) error {
	var parse *pgconn.ParseConfigError
	if !errors.As(err, &parse) {
		return err
	}
	if cause := parse.Unwrap(); cause != nil {
		return cause
	}
	return errors.New("is no connection string")
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d.Seconds()), 10) }

// openGorm configures gorm for all queries: the service's clock, no transaction
// around single statements, no log, and columns by name.
func openGorm(dialector gorm.Dialector, clock models.Clock) (*gorm.DB, error) {
	return gorm.Open(dialector, &gorm.Config{
		// Postgres stores microseconds.
		NowFunc:                func() time.Time { return clock().UTC().Truncate(time.Microsecond) },
		TranslateError:         true,
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		// A prepared SELECT * fails once when somebody adds a column.
		QueryFields: true,
		Logger:      logger.Discard,
	})
}

// Close closes Redis first, then the database, and unlocks the folder. Further calls do nothing.
func (s *Stores) Close() (err error) {
	s.closing.Do(func() {
		if s.Redis != nil {
			err = s.Redis.Close()
		}
		for _, work := range s.Works() {
			if work.SQL != nil {
				err = errors.Join(err, work.SQL.Close())
			}
		}
		s.closeServers()
	})
	return err
}

// Ready pings both stores and returns an error, or nil, for each. The connection to
// Postgres is its own.
func (s *Stores) Ready(ctx context.Context) map[string]error {
	if s.file != nil {
		return map[string]error{"database": s.readyFile(ctx)}
	}
	if s.Redis == nil {
		return map[string]error{"database": s.Probes.SQL.PingContext(ctx)}
	}
	sqlDone := make(chan error, 1)
	go func() { sqlDone <- s.Probes.SQL.PingContext(ctx) }()
	return map[string]error{"redis": s.Redis.Ping(ctx).Err(), "postgres": <-sqlDone}
}

// Analyze gathers statistics about tables that have grown. Until the database does so by itself,
// its plans rest on guesses.
func (s *Stores) Analyze(ctx context.Context, tables ...string) error {
	for _, table := range tables {
		if _, err := s.Jobs.SQL.ExecContext(ctx, "ANALYZE "+table); err != nil {
			return fmt.Errorf("analyze %s: %w", table, err)
		}
	}
	return nil
}

// Migrate applies pending migrations and returns them.
func (s *Stores) Migrate(ctx context.Context) ([]*goose.MigrationResult, error) {
	m, err := migrations.New(ctx, s.SQL, s.Dialect)
	if err != nil {
		return nil, err
	}
	return m.Up(ctx)
}

// SchemaVersions returns the version of the database's schema, and the one that this binary needs.
func (s *Stores) SchemaVersions(ctx context.Context) (current, newest int64, err error) {
	m, err := migrations.New(ctx, s.SQL, s.Dialect)
	if err != nil {
		return 0, 0, err
	}
	return m.Status(ctx)
}

// CheckSchema returns an error if the schema is older than this binary needs.
func (s *Stores) CheckSchema(ctx context.Context) error {
	current, newest, err := s.SchemaVersions(ctx)
	if err != nil {
		return err
	}
	if current < newest {
		return fmt.Errorf("the database's schema is at version %d and this binary needs %d: run stepboard migrate up, or set postgres.auto_migrate", current, newest)
	}
	return nil
}

// CheckMove returns an error if Postgres has only a part of a data folder.
func (s *Stores) CheckMove(ctx context.Context) error {
	var unfinished bool
	err := s.SQL.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM folder_moves) AND NOT EXISTS (SELECT FROM folder_moves WHERE part = 'complete')`).
		Scan(&unfinished)
	if err != nil {
		return fmt.Errorf("read folder_moves: %w", err)
	}
	if unfinished {
		return errors.New("the database has only a part of a data folder, whose move is not finished: run stepboard move again")
	}
	return nil
}

// ErrPolicyUnknown means that Redis does not let us read its configuration.
var ErrPolicyUnknown = errors.New("redis does not reveal its maxmemory-policy")

// ErrEvicts means that Redis may evict boards.
var ErrEvicts = errors.New("set maxmemory-policy to noeviction")

// CheckRedis returns an error if Redis, or any master of a cluster, does not
// respond, and ErrEvicts if it may evict boards. It returns ErrPolicyUnknown if a server does not
// reveal its policy.
func CheckRedis(ctx context.Context, rdb redis.UniversalClient) error {
	return EachServer(ctx, rdb, checkServer)
}

// EachServer calls do with a client of the server, or concurrently with those of a cluster's
// masters, and returns the first error.
func EachServer(ctx context.Context, rdb redis.UniversalClient, do func(context.Context, redis.UniversalClient) error) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return do(ctx, master) })
	}
	return do(ctx, rdb)
}

func checkServer(ctx context.Context, rdb redis.UniversalClient) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	values, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	var refused redis.Error
	if errors.As(err, &refused) || (err == nil && len(values) == 0) {
		return ErrPolicyUnknown
	}
	if err != nil {
		return fmt.Errorf("read redis configuration: %w", err)
	}
	if policy := values["maxmemory-policy"]; !strings.EqualFold(policy, "noeviction") {
		return fmt.Errorf("redis has maxmemory-policy %s and may evict boards: %w", policy, ErrEvicts)
	}
	return nil
}
