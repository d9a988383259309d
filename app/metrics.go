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
)

// redisCollector reports the Redis connection pool.
type redisCollector struct {
	rdb                               redis.UniversalClient
	total, idle, hits, misses, expiry *prometheus.Desc
}

func newRedisCollector(rdb redis.UniversalClient) *redisCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("stepboard_redis_pool_"+name, help, nil, nil)
	}
	return &redisCollector{
		rdb:    rdb,
		total:  desc("connections", "Connections to Redis, idle ones included."),
		idle:   desc("idle_connections", "Connections to Redis that wait for work."),
		hits:   desc("hits_total", "Commands that found an idle connection."),
		misses: desc("misses_total", "Commands that found none."),
		expiry: desc("timeouts_total", "Commands that waited for a connection in vain."),
	}
}

// Describe is part of prometheus.Collector.
func (c *redisCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect is part of prometheus.Collector.
func (c *redisCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.rdb.PoolStats()
	ch <- prometheus.MustNewConstMetric(c.total, prometheus.GaugeValue, float64(s.TotalConns))
	ch <- prometheus.MustNewConstMetric(c.idle, prometheus.GaugeValue, float64(s.IdleConns))
	ch <- prometheus.MustNewConstMetric(c.hits, prometheus.CounterValue, float64(s.Hits))
	ch <- prometheus.MustNewConstMetric(c.misses, prometheus.CounterValue, float64(s.Misses))
	ch <- prometheus.MustNewConstMetric(c.expiry, prometheus.CounterValue, float64(s.Timeouts))
}

// archiveCollector reports what this process has archived.
type archiveCollector struct {
	stats                   *archive.Stats
	runs, unverified, moved *prometheus.Desc
	due                     *prometheus.Desc
}

func newArchiveCollector(a *archive.Service) *archiveCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stepboard_archive_"+name, help, labels, nil)
	}
	return &archiveCollector{
		stats:      a.Stats(),
		runs:       desc("runs_total", "Runs of the archive that have ended, by their state.", "state"),
		unverified: desc("verification_failures_total", "Runs that failed because what was stored was not what was read."),
		moved:      desc("entries_moved_total", "Entries moved from Redis to the archive."),
		due:        desc("due_buckets", "Buckets that were due when the last archival began."),
	}
}

// Describe is part of prometheus.Collector.
func (c *archiveCollector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, ch)
}

// Collect is part of prometheus.Collector.
func (c *archiveCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.stats
	ch <- prometheus.MustNewConstMetric(c.runs, prometheus.CounterValue, float64(s.Complete.Load()), string(models.ArchiveComplete))
	ch <- prometheus.MustNewConstMetric(c.runs, prometheus.CounterValue, float64(s.Failed.Load()), string(models.ArchiveFailed))
	ch <- prometheus.MustNewConstMetric(c.unverified, prometheus.CounterValue, float64(s.Unverified.Load()))
	ch <- prometheus.MustNewConstMetric(c.moved, prometheus.CounterValue, float64(s.Moved.Load()))
	ch <- prometheus.MustNewConstMetric(c.due, prometheus.GaugeValue, float64(s.Due.Load()))
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

// postgresCollector reports the Postgres connection pool. The database/sql
// over it keeps no connections of its own, so its figures say nothing.
type postgresCollector struct {
	pool                     *pgxpool.Pool
	limit, total, idle, used *prometheus.Desc
	acquires, empty, gaveUp  *prometheus.Desc
	waited                   *prometheus.Desc
}

func newPostgresCollector(pool *pgxpool.Pool) *postgresCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("stepboard_postgres_pool_"+name, help, nil, nil)
	}
	return &postgresCollector{
		pool:     pool,
		limit:    desc("max_connections", "Connections to Postgres that there may be."),
		total:    desc("connections", "Connections to Postgres, idle ones included."),
		idle:     desc("idle_connections", "Connections to Postgres that wait for work."),
		used:     desc("acquired_connections", "Connections to Postgres that are at work."),
		acquires: desc("acquires_total", "Times that a connection was taken."),
		empty:    desc("empty_acquires_total", "Times that a connection was taken after waiting for one to be free or made."),
		gaveUp:   desc("canceled_acquires_total", "Times that somebody gave up waiting for a connection."),
		waited:   desc("acquire_wait_seconds_total", "Time spent waiting for connections that were then taken."),
	}
}

// Describe is part of prometheus.Collector.
func (c *postgresCollector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, ch)
}

// Collect is part of prometheus.Collector.
func (c *postgresCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.pool.Stat()
	ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(s.MaxConns()))
	ch <- prometheus.MustNewConstMetric(c.total, prometheus.GaugeValue, float64(s.TotalConns()))
	ch <- prometheus.MustNewConstMetric(c.idle, prometheus.GaugeValue, float64(s.IdleConns()))
	ch <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(s.AcquiredConns()))
	ch <- prometheus.MustNewConstMetric(c.acquires, prometheus.CounterValue, float64(s.AcquireCount()))
	ch <- prometheus.MustNewConstMetric(c.empty, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
	ch <- prometheus.MustNewConstMetric(c.gaveUp, prometheus.CounterValue, float64(s.CanceledAcquireCount()))
	ch <- prometheus.MustNewConstMetric(c.waited, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds())
}
