package app

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
)

const (
	// memoryReserve is the share of the boards' Redis that stays free for applying
	// updates if the stream of updates is in the same Redis. Applying needs more
	// memory than appending: without a reserve the stream would take the last of
	// it, and nothing could be applied any more.
	memoryReserve = 0.1
	// memoryTimeout bounds one question for the memory that Redis uses.
	memoryTimeout = 2 * time.Second
)

// memoryGuard finds out whether the boards' Redis has the memory for uploads.
type memoryGuard struct {
	redis redis.UniversalClient
	// limit is the share of the memory from which on uploads are refused.
	limit float64
}

// newMemoryGuard returns the guard of the boards' Redis.
func newMemoryGuard(rdb redis.UniversalClient, cfg config.Config) *memoryGuard {
	if cfg.Ingest.Mode == "redis" && !ownStream(cfg) {
		return &memoryGuard{rdb, 1 - memoryReserve}
	}
	return &memoryGuard{rdb, 1}
}

// check returns an error if uploads are refused. It returns nil if Redis does not
// respond, which other checks report.
func (g *memoryGuard) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	used, err := stores.MemoryUsed(ctx, g.redis)
	if err != nil {
		return nil
	}
	if used >= g.limit {
		return fmt.Errorf("redis uses %.0f %% of its maxmemory, and uploads are refused from %.0f %% on", 100*used, 100*g.limit)
	}
	return nil
}

// redisState holds the figures that a scrape reports of the boards' Redis.
type redisState struct{ memoryUsed, mayEvict float64 }

// newMemoryCollector reports the memory and the policy of the boards' Redis. Each scrape asks
// for its memory.
func newMemoryCollector(g *memoryGuard, p *policyGuard) prometheus.Collector {
	read := func(ctx context.Context) (s redisState) {
		if used, err := stores.MemoryUsed(ctx, g.redis); err == nil { // other metrics report that Redis does not respond
			s.memoryUsed = used
		}
		if p.check(ctx) != nil {
			s.mayEvict = 1
		}
		return s
	}
	return newAskingCollector("stepboard_redis_", read,
		figure[redisState]{"memory_used_ratio", "Share of its maxmemory that the boards' Redis uses; of a cluster, the fullest master's. 0 without a limit.", gauge,
			func(s redisState) float64 { return s.memoryUsed }, nil},
		figure[redisState]{"may_evict", "1 if the maxmemory-policy of the boards' Redis lets it evict boards, otherwise 0. It is asked once a minute.", gauge,
			func(s redisState) float64 { return s.mayEvict }, nil},
	)
}
