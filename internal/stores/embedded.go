package stores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/glebarez/sqlite"

	"stepboard/config"
	"stepboard/migrations"
	"stepboard/models"
)

// expireInterval is how often the clock of the embedded Redis is moved forward.
// Its keys expire only then.
const expireInterval = time.Second

// OpenEmbedded starts a Redis in this process and an SQL database in memory, with
// the schema applied. The services use them as they use the real ones. All data
// is lost when they close.
func OpenEmbedded(ctx context.Context, clock models.Clock) (*Stores, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	// The database has a name, so that a second connection reaches it.
	g, err := openGorm(sqlite.Open("file:"+rand.Text()+"?mode=memory&cache=shared"), clock)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("open embedded database: %w", err)
	}
	db, err := g.DB()
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("open embedded database: %w", err)
	}
	// A database in memory exists as long as it has a connection. One is held for
	// that, because a cancelled transaction closes its own. The other one runs all
	// statements, one at a time.
	db.SetMaxOpenConns(2)
	held, err := db.Conn(ctx)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("open embedded database: %w", err)
	}

	stopClock := make(chan struct{})
	clockStopped := make(chan struct{})
	go func() {
		defer close(clockStopped)
		runExpiry(server, stopClock)
	}()
	s := &Stores{
		Redis:   OpenRedis(config.Redis{Addrs: []string{server.Addr()}}),
		Gorm:    g,
		SQL:     db,
		Dialect: migrations.SQLite,
		closeServers: func() {
			held.Close() // the error says that the database has closed it
			close(stopClock)
			<-clockStopped
			server.Close()
		},
	}
	if _, err := s.Migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
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
