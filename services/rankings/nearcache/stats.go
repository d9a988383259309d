package nearcache

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats counts what a Cache has done since it was made.
type Stats struct {
	// Answers counts the rankings that were computed from the cache, by their age.
	Answers prometheus.Histogram
	// Refused counts the rankings of current buckets that could not be.
	Refused atomic.Int64
	// Copies counts the shards of buckets that were begun to be copied.
	Copies atomic.Int64
	// StartedOver counts how often the copies of a shard were emptied, because its change
	// stream did not go on where it was read last.
	StartedOver atomic.Int64
	// Unordered counts the questions for ranks in current buckets that have no order list.
	Unordered atomic.Int64
	// Orders counts the order lists of shards that were made.
	Orders atomic.Int64
	// Bytes is the memory of the tables, and OrderBytes that of the order lists.
	Bytes, OrderBytes atomic.Int64
	// Unproven is for how long some current bucket could not be read from the cache.
	Unproven atomic.Int64 // nanoseconds
	// WithoutRoom is how many buckets do not fit into the memory.
	WithoutRoom atomic.Int64
	// OrdersWithoutRoom is how many buckets have no order lists because these do not fit.
	OrdersWithoutRoom atomic.Int64
}

func newStats() *Stats {
	return &Stats{Answers: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "stepboard_near_cache_answer_age_seconds",
		Help:    "Age of rankings that were computed from the near cache, when they were answered.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10},
	})}
}

// Stats returns the counters, which go on counting.
func (c *Cache) Stats() *Stats { return c.stats }

// watch notes what the tables look like now. Only run calls it.
func (c *Cache) watch() {
	now := c.o.Elapsed()
	var unproven time.Duration
	var withoutRoom int64
	for _, t := range *c.tables.Load() {
		if t.full.Load() {
			withoutRoom++
		}
		if asOf, ok := t.provenAt(nil); ok && now.Sub(asOf) <= c.o.MaxStaleness {
			t.readable = now
		}
		unproven = max(unproven, now.Sub(t.readable))
	}
	c.stats.Bytes.Store(c.budget.used.Load())
	c.stats.WithoutRoom.Store(withoutRoom)
	c.stats.Unproven.Store(int64(unproven))
}
