package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
)

// CheckStores checks that the stores can be relied on.
func CheckStores(ctx context.Context, cfg config.Config, st *stores.Stores, log *slog.Logger) error {
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
	return checkRedis(ctx, st.Redis, log)
}

// checkRedis refuses a Redis that may throw away what it must keep.
func checkRedis(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	err := stores.CheckRedis(ctx, rdb)
	if errors.Is(err, stores.ErrMayNotAsk) {
		log.Warn("redis does not tell its maxmemory-policy: make sure that it is noeviction, or boards may be thrown away")
		return nil
	}
	return err
}
