package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
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
