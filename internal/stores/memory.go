package stores

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// MemoryUsed returns the share of its maxmemory that Redis uses, counted as
// Redis counts before it refuses a write: at 1 or more it refuses. Of a cluster
// it returns that of the fullest master. It returns 0 for a server without a
// limit, and for one that does not reveal its memory. One round trip to each
// server.
func MemoryUsed(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	var (
		mu      sync.Mutex
		fullest float64
	)
	err := EachServer(ctx, rdb, func(ctx context.Context, server redis.Cmdable) error {
		used, err := memoryUsed(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		fullest = max(fullest, used)
		return err
	})
	return fullest, err
}

func memoryUsed(ctx context.Context, rdb redis.Cmdable) (float64, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	var refused redis.Error
	if errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the memory of redis: %w", err)
	}
	var used, limit, uncounted float64
	for line := range strings.Lines(info) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue // not a number
		}
		switch name {
		case "used_memory":
			used = value
		case "maxmemory":
			limit = value
		case "mem_not_counted_for_evict":
			uncounted = value
		}
	}
	if limit == 0 {
		return 0, nil
	}
	return (used - uncounted) / limit, nil
}
