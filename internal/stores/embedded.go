package stores

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/migrations"
	"stepboard/models"
)

// expireInterval is how often the clock of the embedded Redis is moved forward.
// Its keys expire only then.
const expireInterval = time.Second

// embeddedTimeout bounds a command of the embedded Redis. It runs in this process
// and is never cut off, but interprets its scripts: thousands of updates at once may
// take seconds on a busy machine.
const embeddedTimeout = 30 * time.Second

// OpenEmbedded starts a Redis in this process and an SQL database in memory, with
// the schema applied. The services use them as they use the real ones. All data
// is lost when they close.
func OpenEmbedded(ctx context.Context, clock models.Clock) (*Stores, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	g, db, held, err := openMemoryDatabase(ctx, clock)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("open embedded database: %w", err)
	}
	stopExpiry := startExpiry(server)
	database := Database{Gorm: g, SQL: db}
	s := &Stores{
		Redis:    openRedis(config.Redis{Addrs: []string{server.Addr()}}, embeddedTimeout),
		Dialect:  migrations.SQLite,
		Database: database, Friends: database, Increments: database, Jobs: database, Archive: database, Probes: database,
		closeServers: func() {
			held.Close() // the error says that the database has closed it
			stopExpiry()
			server.Close()
		},
	}
	if _, err := s.Migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openMemoryDatabase opens a new database in memory. It exists as long as it has a
// connection: held is one for that, because a cancelled transaction closes its own.
// The other connection runs all statements, one at a time.
func openMemoryDatabase(ctx context.Context, clock models.Clock) (g *gorm.DB, db *sql.DB, held *sql.Conn, err error) {
	// The database has a name, so that a second connection reaches it.
	g, err = openGorm(sqlite.Open("file:"+rand.Text()+"?mode=memory&cache=shared"), clock)
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

// startExpiry moves the clock of the embedded Redis forward until stop is called.
func startExpiry(server *miniredis.Miniredis) (stop func()) {
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { runExpiry(server, stopped) })
	return func() {
		close(stopped)
		running.Wait()
	}
}

func runExpiry(server *miniredis.Miniredis, stop <-chan struct{}) {
	ticker := time.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			server.FastForward(expireInterval)
		case <-stop:
			return
		}
	}
}
