package app

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/ingest"
	"stepboard/services/ledger"
	"stepboard/services/limit"
	"stepboard/services/stream"
)

// figure is a metric that is read off something when it is asked for.
type figure[S any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(S) float64
	labels     prometheus.Labels
}

// collector reports figures that are all read off at once.
type collector[S any] struct {
	read    func() S
	figures []figure[S]
	descs   []*prometheus.Desc
}

// newCollector makes a collector. The names of its figures begin with prefix.
func newCollector[S any](prefix string, read func() S, figures ...figure[S]) *collector[S] {
	c := &collector[S]{read: read, figures: figures}
	for _, f := range figures {
		c.descs = append(c.descs, prometheus.NewDesc(prefix+f.name, f.help, nil, f.labels))
	}
	return c
}

// Describe is part of prometheus.Collector.
func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect is part of prometheus.Collector.
func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	s := c.read()
	for i, f := range c.figures {
		ch <- prometheus.MustNewConstMetric(c.descs[i], f.kind, f.value(s))
	}
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// newRedisCollector reports the Redis connection pool.
func newRedisCollector(rdb redis.UniversalClient) prometheus.Collector {
	type stats = *redis.PoolStats
	return newCollector("stepboard_redis_pool_", rdb.PoolStats,
		figure[stats]{"connections", "Connections to Redis, idle ones included.", gauge, func(s stats) float64 { return float64(s.TotalConns) }, nil},
		figure[stats]{"idle_connections", "Connections to Redis that wait for work.", gauge, func(s stats) float64 { return float64(s.IdleConns) }, nil},
		figure[stats]{"hits_total", "Commands that found an idle connection.", counter, func(s stats) float64 { return float64(s.Hits) }, nil},
		figure[stats]{"misses_total", "Commands that found none.", counter, func(s stats) float64 { return float64(s.Misses) }, nil},
		figure[stats]{"timeouts_total", "Commands that waited for a connection in vain.", counter, func(s stats) float64 { return float64(s.Timeouts) }, nil},
	)
}

// newArchiveCollector reports what this process has archived.
func newArchiveCollector(a *archive.Service) prometheus.Collector {
	type stats = *archive.Stats
	ended := func(state models.ArchiveState) prometheus.Labels { return prometheus.Labels{"state": string(state)} }
	const runs = "Runs of the archive that have ended, by their state."
	return newCollector("stepboard_archive_", a.Stats,
		figure[stats]{"runs_total", runs, counter, func(s stats) float64 { return float64(s.Complete.Load()) }, ended(models.ArchiveComplete)},
		figure[stats]{"runs_total", runs, counter, func(s stats) float64 { return float64(s.Failed.Load()) }, ended(models.ArchiveFailed)},
		figure[stats]{"verification_failures_total", "Runs that failed because what was stored was not what was read.", counter, func(s stats) float64 { return float64(s.Unverified.Load()) }, nil},
		figure[stats]{"entries_moved_total", "Entries moved from Redis to the archive.", counter, func(s stats) float64 { return float64(s.Moved.Load()) }, nil},
		figure[stats]{"due_buckets", "Buckets that were due when the last archival began.", gauge, func(s stats) float64 { return float64(s.Due.Load()) }, nil},
	)
}

// newLedgerCollector reports what this process has counted.
func newLedgerCollector(l *ledger.Service) prometheus.Collector {
	type stats = *ledger.Stats
	status := func(s ledger.Status) prometheus.Labels { return prometheus.Labels{"status": string(s)} }
	const increments = "Increments that were answered, by what became of them; malformed ones are not among them."
	return newCollector("stepboard_ledger_", l.Stats,
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Applied.Load()) }, status(ledger.Applied)},
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Duplicates.Load()) }, status(ledger.Duplicate)},
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Rejected.Load()) }, status(ledger.Rejected)},
		figure[stats]{"flushes_total", "Transactions of increments.", counter, func(s stats) float64 { return float64(s.Flushes.Load()) }, nil},
		figure[stats]{"retries_total", "Transactions that were made again, as they had met others.", counter, func(s stats) float64 { return float64(s.Retries.Load()) }, nil},
		figure[stats]{"unraised_total", "Totals that did not reach Redis at once and were left to the reconciler.", counter, func(s stats) float64 { return float64(s.Unraised.Load()) }, nil},
	)
}

// newStreamCollector reports who watches rankings.
func newStreamCollector(l *stream.Service) prometheus.Collector {
	return newCollector("stepboard_streams_", l.Subscribers,
		figure[int]{"open", "Streams of rankings that are open.", gauge, func(n int) float64 { return float64(n) }, nil},
	)
}

// newLimitCollector reports the calls that were one too many.
func newLimitCollector(l *limit.Service) prometheus.Collector {
	type stats = *limit.Stats
	by := func(whose string) prometheus.Labels { return prometheus.Labels{"limit": whose} }
	const refused = "Calls that were refused as one too many, by the limit."
	return newCollector("stepboard_limits_", l.Stats,
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Users.Load()) }, by("user")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Addresses.Load()) }, by("address")},
		figure[stats]{"uncounted_total", "Calls that were let through uncounted, as Redis did not answer.", counter, func(s stats) float64 { return float64(s.Uncounted.Load()) }, nil},
	)
}

// queueCollector reports how far the consumers are behind. It asks the queue
// whenever it is asked.
type queueCollector struct {
	queue        ingest.Queue
	lag, age, up *prometheus.Desc
}

// lagTimeout bounds how long a scrape waits for the queue.
const lagTimeout = 2 * time.Second

func newQueueCollector(queue ingest.Queue) *queueCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("stepboard_ingest_"+name, help, nil, nil)
	}
	return &queueCollector{
		queue: queue,
		lag:   desc("lag_messages", "Messages that are not acknowledged yet, or come behind one that is not."),
		age:   desc("lag_seconds", "How long the oldest message has waited that is not acknowledged yet."),
		up:    desc("queue_up", "1 where the queue answers, else 0."),
	}
}

// Describe is part of prometheus.Collector.
func (c *queueCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.lag
	ch <- c.age
	ch <- c.up
}

// Collect is part of prometheus.Collector.
func (c *queueCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	lag, err := c.queue.Lag(ctx)
	if err != nil {
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1)
	ch <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, float64(lag.Messages))
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, lag.Oldest.Seconds())
}

// newPostgresCollector reports the Postgres connection pool. The database/sql
// over it keeps no connections of its own, so its figures say nothing.
func newPostgresCollector(pool *pgxpool.Pool) prometheus.Collector {
	type stats = *pgxpool.Stat
	return newCollector("stepboard_postgres_pool_", pool.Stat,
		figure[stats]{"max_connections", "Connections to Postgres that there may be.", gauge, func(s stats) float64 { return float64(s.MaxConns()) }, nil},
		figure[stats]{"connections", "Connections to Postgres, idle ones included.", gauge, func(s stats) float64 { return float64(s.TotalConns()) }, nil},
		figure[stats]{"idle_connections", "Connections to Postgres that wait for work.", gauge, func(s stats) float64 { return float64(s.IdleConns()) }, nil},
		figure[stats]{"acquired_connections", "Connections to Postgres that are at work.", gauge, func(s stats) float64 { return float64(s.AcquiredConns()) }, nil},
		figure[stats]{"acquires_total", "Times that a connection was taken.", counter, func(s stats) float64 { return float64(s.AcquireCount()) }, nil},
		figure[stats]{"empty_acquires_total", "Times that a connection was taken after waiting for one to be free or made.", counter, func(s stats) float64 { return float64(s.EmptyAcquireCount()) }, nil},
		figure[stats]{"canceled_acquires_total", "Times that somebody gave up waiting for a connection.", counter, func(s stats) float64 { return float64(s.CanceledAcquireCount()) }, nil},
		figure[stats]{"acquire_wait_seconds_total", "Time spent waiting for connections that were then taken.", counter, func(s stats) float64 { return s.EmptyAcquireWaitTime().Seconds() }, nil},
	)
}
