package stores

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/libtnb/sqlite"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/migrations"
	"stepboard/models"
)

// embeddedTimeout bounds a command of the embedded Redis. It runs in this process
// and is never cut off, but interprets its scripts: thousands of updates at once may
// take seconds on a busy machine.
const embeddedTimeout = 30 * time.Second

// OpenEmbeddedRedis returns a client of an embedded Redis, which connects at its first use.
func OpenEmbeddedRedis(addr string) redis.UniversalClient {
	return openRedis(config.Redis{Addrs: []string{addr}}, embeddedTimeout)
}

// ConnectEmbedded connects to an embedded Redis, and to a database in the memory of this
// process, of any name. The database begins empty, without a schema, and exists until the
// last Stores of that name close. So several instances of the service in one process can
// share their stores, as long as no two of them use the database at the same time: their
// statements would be refused.
func ConnectEmbedded(ctx context.Context, redisAddr, database string, clock models.Clock) (*Stores, error) {
	s, err := openMemory(ctx, database, clock)
	if err != nil {
		return nil, err
	}
	s.Redis = OpenEmbeddedRedis(redisAddr)
	return s, nil
}

// ConnectPostgres connects to an embedded Redis and to a Postgres, with the connections of calls for
// all kinds of work. configure changes their settings. They connect at their first use.
func ConnectPostgres(
	ctx context.Context, redisAddr string, cfg config.Postgres, clock models.Clock, configure func(*pgxpool.Config),
) (*Stores, error) {
	pgConfig, err := postgresConfig(cfg, nil, embeddedTimeout)
	if err != nil {
		return nil, err
	}
	pgConfig.MaxConns = int32(cfg.MaxConns)
	maps.Copy(pgConfig.ConnConfig.RuntimeParams, fewRows)
	configure(pgConfig)
	database, err := openDatabase(ctx, pgConfig, embeddedTimeout, clock)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	s := &Stores{
		Redis: OpenEmbeddedRedis(redisAddr), Dialect: migrations.Postgres, Database: database, Friends: database,
		Increments: database, Reports: database, Jobs: database, Archive: database, Probes: database,
	}
	s.closeServers = s.closePools
	return s, nil
}

// openMemoryDatabase opens the database of a name in memory. It exists as long as it has
// a connection: held is one for that, because a cancelled transaction closes its own.
// The other connection runs all statements, one at a time.
func openMemoryDatabase(ctx context.Context, name string, clock models.Clock) (g *gorm.DB, db *sql.DB, held *sql.Conn, err error) {
	// Connections of the same name reach the same database.
	g, err = openGorm(sqlite.Open("file:"+name+"?mode=memory&cache=shared"), clock)
	if err != nil {
		return nil, nil, nil, err
	}
	if db, err = g.DB(); err != nil {
		return nil, nil, nil, err
	}
	db.SetMaxOpenConns(2)
	held, err = db.Conn(ctx)
	return g, db, held, err
}
