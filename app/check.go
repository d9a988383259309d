package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/services/recovery"
)

// CheckStores checks that Postgres responds and has the schema that this binary
// needs, and that Redis evicts nothing. For a process with a role it also checks
// that losses of Redis can be detected. With postgres.auto_migrate it applies
// pending migrations first.
func CheckStores(ctx context.Context, cfg config.Config, st *stores.Stores, roles Roles, log *slog.Logger) error {
	if err := st.SQL.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	if cfg.Postgres.AutoMigrate {
		applied, err := st.Migrate(ctx)
		if err != nil {
			return err
		}
		for _, m := range applied {
			log.Info("migrated", "version", m.Version)
		}
	}
	if err := st.CheckSchema(ctx); err != nil {
		return err
	}
	if err := checkRedis(ctx, st.Redis, log); err != nil {
		return err
	}
	if roles == (Roles{}) {
		return nil
	}
	return recovery.CheckRights(ctx, st.Redis)
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
