package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/services/boards/catalog"
	"stepboard/services/platform/recovery"
)

// checkBoards is the part of CheckStores about Redis.
func checkBoards(ctx context.Context, cfg config.Config, st *stores.Stores, roles Roles, log *slog.Logger) error {
	if err := checkRedis(ctx, st.Redis, log); err != nil {
		return err
	}
	if roles == (Roles{}) {
		return nil
	}
	if err := recovery.CheckRights(ctx, st.Redis); err != nil {
		return err
	}
	return stores.TryRedis(ctx, st.Redis, keys.Builder{Prefix: cfg.Redis.KeyPrefix})
}

// CheckServers checks Postgres, Redis and the queue of the settings as a start of the service
// does, and changes nothing in them. With postgres.auto_migrate the schema may be older.
func CheckServers(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	st, err := stores.OpenForCommand(ctx, cfg, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.SQL.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	schema := st.CheckSchema(ctx)
	if schema == nil {
		err = warnOfBoards(ctx, cfg, st, time.Now().Add(cfg.Clock.Offset), log)
	} else if !cfg.Postgres.AutoMigrate {
		err = schema
	}
	if err != nil {
		return err
	}
	if err := checkBoards(ctx, cfg, st, AllRoles(), log); err != nil {
		return err
	}
	queue, err := newQueue(ctx, Options{Config: cfg, Stores: st, Machine: time.Now, Log: log}, cfg.HotDays, nil)
	if err == nil && queue != nil {
		queue.Close()
	}
	return err
}

// warnOfBoards logs a warning that names the boards that earlier settings have named and these do
// not: they still take uploads. Another one names the events that end later than these settings say.
func warnOfBoards(ctx context.Context, cfg config.Config, st *stores.Stores, now time.Time, log *slog.Logger) error {
	dropped, err := catalog.NewStore(st.Gorm).Dropped(ctx, cfg.BoardDefinitions(), now)
	if len(dropped) > 0 {
		log.WarnContext(ctx, "boards are not in the settings any more; they are served as before and take uploads", "boards", dropped)
	}
	later, failed := catalog.NewStore(st.Gorm).Later(ctx, cfg.BoardDefinitions())
	if len(later) > 0 {
		log.WarnContext(ctx, "events end later than the settings say, because an end only moves to a later time", "boards", later)
	}
	return errors.Join(err, failed)
}

// policyAge is how old the answer of a policyGuard may be.
const policyAge = time.Minute

// policyGuard looks again and again whether Redis may evict boards: its policy can be changed
// while it runs. Safe for concurrent use.
type policyGuard struct {
	redis redis.UniversalClient

	mu    sync.Mutex
	asked time.Time
	err   error
}

// check returns an error if Redis may evict boards. It asks once a minute. It returns nil if
// Redis does not respond, which other checks report, or does not reveal its policy.
func (g *policyGuard) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.asked) < policyAge {
		return g.err
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	err := stores.CheckRedis(ctx, g.redis)
	if err != nil && !errors.Is(err, stores.ErrEvicts) {
		err = nil
	}
	g.asked, g.err = time.Now(), err
	return err
}

// checkRedis returns an error if Redis may evict keys. If Redis does not reveal its
// policy, it logs a warning.
func checkRedis(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	err := stores.CheckRedis(ctx, rdb)
	if errors.Is(err, stores.ErrPolicyUnknown) {
		log.Warn("redis does not reveal its maxmemory-policy: make sure that it is noeviction, or it may evict boards")
		return nil
	}
	return err
}
