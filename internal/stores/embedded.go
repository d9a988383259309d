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

// expireEvery is how often the embedded Redis looks for keys that are past
// their time; it does so only when told.
const expireEvery = time.Second

// OpenEmbedded starts an in-process Redis and an SQL database in memory, with
// the schema applied. They serve the same code as the real ones and lose
// everything when they close.
func OpenEmbedded(ctx context.Context, clock models.Clock) (*Stores, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start embedded redis: %w", err)
	}
	// The database has a name, so that a second connection finds it.
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
	// A database in memory lives as long as it has a connection: one is kept
	// aside, as a transaction that is cancelled takes its own with it. With the
	// other one, work is done one thing at a time.
	db.SetMaxOpenConns(2)
	anchor, err := db.Conn(ctx)
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
		closeUnder: func() {
			anchor.Close() // its database has closed it
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
	ticker := time.NewTicker(expireEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			server.FastForward(expireEvery)
		case <-stop:
			return
		}
	}
}
