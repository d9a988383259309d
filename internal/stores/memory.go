package stores

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	err := EachServer(ctx, rdb, func(ctx context.Context, server redis.UniversalClient) error {
		used, err := memoryUsed(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		fullest = max(fullest, used)
		return err
	})
	return fullest, err
}

func memoryUsed(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	info := redis.NewInfoCmd(ctx, "info", "memory")
	err := rdb.Process(ctx, info)
	var refused redis.Error
	if errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the memory of redis: %w", err)
	}
	number := func(name string) float64 {
		n, _ := strconv.ParseFloat(info.Item("Memory", name), 64) // 0 if the server does not say
		return n
	}
	limit := number("maxmemory")
	if limit == 0 {
		return 0, nil
	}
	return (number("used_memory") - number("mem_not_counted_for_evict")) / limit, nil
}
