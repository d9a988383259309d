// Package stores opens what the services keep their data in: Redis and
// Postgres, or their embedded stand-ins for trying things out.
package stores

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"stepboard/config"
	"stepboard/migrations"
	"stepboard/models"
)

const (
	// Redis answers in well under a millisecond; a second without an answer
	// is an outage, and waiting longer only piles up requests.
	redisTimeout = time.Second
	// redisRetries is how often a command is tried again on another
	// connection. Every command may be: raising again changes nothing.
	redisRetries = 1

	// postgresDial bounds a connection attempt, where the DSN does not.
	postgresDial = 3 * time.Second
	// closeTimeout bounds how long closing waits for connections that are in
	// use or half open: a Postgres that hangs must not keep the process alive.
	closeTimeout = 5 * time.Second

	// idleTransaction ends a transaction whose process has stalled. It must
	// stay below the minute that a friend set's mark stands.
	idleTransaction = 20 * time.Second
	// statementTimeout bounds a statement.
	statementTimeout = 30 * time.Second
)

// Stores are the connections that everything shares.
type Stores struct {
	Redis   redis.UniversalClient
	Gorm    *gorm.DB
	SQL     *sql.DB
	Dialect migrations.Dialect
	// Pool is what lies under SQL where that is Postgres, else nil.
	Pool *pgxpool.Pool
	// closeUnder closes what lies under the connections.
	closeUnder func()
	closing    sync.Once
}

// Open makes the connections to Redis and Postgres; they connect when they are
// used. Every call that belongs to a trace gets a span there; a nil provider
// traces nothing.
func Open(ctx context.Context, cfg config.Config, clock models.Clock, traces trace.TracerProvider) (*Stores, error) {
	rdb, err := OpenTracedRedis(cfg.Redis, traces)
	if err != nil {
		return nil, err
	}
	s, err := openPostgres(ctx, cfg, clock, traces)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	s.Redis = rdb
	return s, nil
}

// OpenTracedRedis is OpenRedis with a span for every command or pipeline that
// belongs to a trace. A nil provider traces nothing.
func OpenTracedRedis(cfg config.Redis, traces trace.TracerProvider) (redis.UniversalClient, error) {
	rdb := OpenRedis(cfg)
	if traces == nil {
		return rdb, nil
	}
	// Arguments are left out: keys and members are users.
	err := redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(traces),
		redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace redis: %w", err), rdb.Close())
	}
	return rdb, nil
}

// OpenRedis makes a client of a Redis; it connects when it is used.
func OpenRedis(cfg config.Redis) redis.UniversalClient {
	// What it would print is answered as an error too, and logged with the
	// request that met it.
	redis.SetLogger(&logging.VoidLogger{})
	options := &redis.UniversalOptions{
		Addrs:            cfg.Addrs,
		MasterName:       cfg.MasterName,
		IsClusterMode:    cfg.Mode == "cluster",
		Username:         cfg.Username,
		Password:         cfg.Password,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		DialTimeout:      redisTimeout,
		// A refused connection is an answer: the command is tried again anyway.
		DialerRetries: 1,
		ReadTimeout:   redisTimeout,
		WriteTimeout:  redisTimeout,
		PoolTimeout:   redisTimeout,
		MaxRetries:    redisRetries,
		// Announced maintenance is a feature of hosted servers; asking for it
		// costs every new connection a command that Redis itself refuses.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cfg.TLS {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	rdb := redis.NewUniversalClient(options)
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.AddHook(slots{cluster})
	}
	return rdb
}

func openPostgres(ctx context.Context, cfg config.Config, clock models.Clock, traces trace.TracerProvider) (*Stores, error) {
	pgConfig, err := pgxpool.ParseConfig(cfg.Postgres.DSN)
	if err != nil {
		return nil, fmt.Errorf("postgres.dsn: %w", withoutDSN(err))
	}
	if pgConfig.ConnConfig.ConnectTimeout == 0 {
		pgConfig.ConnConfig.ConnectTimeout = postgresDial
	}
	pgConfig.MaxConns = int32(cfg.Postgres.MaxConns)
	params := pgConfig.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["idle_in_transaction_session_timeout"] = millis(idleTransaction)
	params["statement_timeout"] = millis(statementTimeout)
	if params["application_name"] == "" {
		params["application_name"] = "stepboard"
	}
	if traces != nil {
		// Statements are recorded, what stands for their $1 is not.
		pgConfig.ConnConfig.Tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(traces),
			otelpgx.WithMeterProvider(noop.NewMeterProvider()), otelpgx.WithQuerySpanNamePrefix())
	}
	pool, err := pgxpool.NewWithConfig(ctx, pgConfig)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	g, err := openGorm(postgres.New(postgres.Config{Conn: db}), clock)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open postgres: %w", err), db.Close())
	}
	return &Stores{Gorm: g, SQL: db, Dialect: migrations.Postgres, Pool: pool, closeUnder: func() { closePool(pool) }}, nil
}

// closePool closes the pool, or leaves it to the end of the process.
func closePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// withoutDSN keeps what is wrong with a DSN and leaves out the DSN, which the
// driver quotes with only some of its passwords hidden.
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

// openGorm sets what holds for every query: the service's clock, no
// transaction around single statements, no log of its own.
func openGorm(dialector gorm.Dialector, clock models.Clock) (*gorm.DB, error) {
	return gorm.Open(dialector, &gorm.Config{
		// Microseconds, as Postgres keeps them.
		NowFunc:                func() time.Time { return clock().UTC().Truncate(time.Microsecond) },
		TranslateError:         true,
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard,
	})
}

// Close closes Redis first, then SQL. Closing again does nothing.
func (s *Stores) Close() (err error) {
	s.closing.Do(func() {
		err = errors.Join(s.Redis.Close(), s.SQL.Close())
		s.closeUnder()
	})
	return err
}

// Ready asks both stores whether they answer.
func (s *Stores) Ready(ctx context.Context) map[string]error {
	sqlDone := make(chan error, 1)
	go func() { sqlDone <- s.SQL.PingContext(ctx) }()
	return map[string]error{"redis": s.Redis.Ping(ctx).Err(), "postgres": <-sqlDone}
}

// Migrate brings the schema up to date.
func (s *Stores) Migrate(ctx context.Context) ([]migrations.Applied, error) {
	m, err := migrations.New(ctx, s.SQL, s.Dialect)
	if err != nil {
		return nil, err
	}
	return m.Up(ctx)
}

// CheckSchema refuses a schema that is behind this binary.
func (s *Stores) CheckSchema(ctx context.Context) error {
	m, err := migrations.New(ctx, s.SQL, s.Dialect)
	if err != nil {
		return err
	}
	current, newest, err := m.Status(ctx)
	if err != nil {
		return err
	}
	if current < newest {
		return fmt.Errorf("the database's schema is at version %d and this binary needs %d: run stepboard migrate up, or set postgres.auto_migrate", current, newest)
	}
	return nil
}

// ErrMayNotAsk says that Redis keeps its configuration to itself.
var ErrMayNotAsk = errors.New("redis does not tell its maxmemory-policy")

// CheckRedis refuses a Redis that may throw boards away, be it any master of a
// cluster. ErrMayNotAsk where a server does not tell.
func CheckRedis(ctx context.Context, rdb redis.UniversalClient) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, checkServer)
	}
	return checkServer(ctx, rdb)
}

func checkServer[C redis.Cmdable](ctx context.Context, rdb C) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("connect to redis: %w", err)
	}
	values, err := rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	var refused redis.Error
	if errors.As(err, &refused) || (err == nil && len(values) == 0) {
		return ErrMayNotAsk
	}
	if err != nil {
		return fmt.Errorf("read redis configuration: %w", err)
	}
	if policy := values["maxmemory-policy"]; !strings.EqualFold(policy, "noeviction") {
		return fmt.Errorf("redis has maxmemory-policy %s and may throw boards away: set it to noeviction", policy)
	}
	return nil
}
