package app

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/services/people/cache"
	"stepboard/services/rankings/nearcache"
)

// newNearCacheCollector reports the copies of buckets in this process.
func newNearCacheCollector(c *nearcache.Cache) prometheus.Collector {
	type stats = *nearcache.Stats
	return newCollector("stepboard_near_cache_", c.Stats,
		figure[stats]{
			"refused_total", "Rankings of current buckets that were read from Redis, because the near cache could not prove that " +
				"its copy is fresh enough.", counter, func(s stats) float64 { return float64(s.Refused.Load()) }, nil,
		},
		figure[stats]{
			"copies_total", "Shards of buckets that the near cache has begun to copy.",
			counter, func(s stats) float64 { return float64(s.Copies.Load()) }, nil,
		},
		figure[stats]{
			"resets_total", "Shards that the near cache copies anew because their change stream did not go on where it was read last.",
			counter, func(s stats) float64 { return float64(s.StartedOver.Load()) }, nil,
		},
		figure[stats]{
			"bytes", "Memory of the near cache's copies of buckets.",
			gauge, func(s stats) float64 { return float64(s.Bytes.Load()) }, nil,
		},
		figure[stats]{
			"buckets_without_room", "Buckets that rankings.memory has no room for.",
			gauge, func(s stats) float64 { return float64(s.WithoutRoom.Load()) }, nil,
		},
		figure[stats]{
			"unordered_total", "Questions for top, around and me of current buckets that were read from Redis, because the near cache has no " +
				"order of the bucket yet, or no room for it.", counter, func(s stats) float64 { return float64(s.Unordered.Load()) }, nil,
		},
		figure[stats]{
			"orders_total", "Shards of buckets whose order the near cache has made.",
			counter, func(s stats) float64 { return float64(s.Orders.Load()) }, nil,
		},
		figure[stats]{
			"order_bytes", "Memory of the order of the near cache's copies of buckets.",
			gauge, func(s stats) float64 { return float64(s.OrderBytes.Load()) }, nil,
		},
		figure[stats]{
			"orders_without_room", "Buckets whose order rankings.order_memory has no room for, among those that were asked for it.",
			gauge, func(s stats) float64 { return float64(s.OrdersWithoutRoom.Load()) }, nil,
		},
		figure[stats]{
			"unproven_seconds", "For how long some bucket could not be read from the near cache.",
			gauge, func(s stats) float64 { return time.Duration(s.Unproven.Load()).Seconds() }, nil,
		},
	)
}

// newCirclesCollector reports the copies of friend sets and sets of members in this process.
func newCirclesCollector(c *cache.Circles) prometheus.Collector {
	type circles = *cache.Circles
	found := func(where string, count func(*cache.CircleStats) *atomic.Int64) figure[circles] {
		return figure[circles]{
			"found_total", "Sets of friends or members for rankings of current buckets, by where they were found: in memory (near), or in Redis " +
				"or SQL, because memory did not have them (unknown) or might have been too old (unproven).",
			counter, func(c circles) float64 { return float64(count(c.Stats()).Load()) }, prometheus.Labels{"found": where},
		}
	}
	return newCollector("stepboard_near_circles_", func() circles { return c },
		found("near", func(s *cache.CircleStats) *atomic.Int64 { return &s.Near }),
		found("unknown", func(s *cache.CircleStats) *atomic.Int64 { return &s.Unknown }),
		found("unproven", func(s *cache.CircleStats) *atomic.Int64 { return &s.Unproven }),
		figure[circles]{
			"resets_total", "How often all copies of a stream's sets were dropped, because entries of it may have been missed.",
			counter, func(c circles) float64 { return float64(c.Stats().StartedOver.Load()) }, nil,
		},
		figure[circles]{
			"bytes", "Memory of the copies of sets of friends and members.",
			gauge, func(c circles) float64 { bytes, _ := c.Bytes(); return float64(bytes) }, nil,
		},
	)
}
