package app

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/operations/reviews"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/platform/limit"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/ranking"
	"stepboard/services/rankings/stream"
)

// figure is one metric of a snapshot S. If its value is NaN, the metric is missing.
type figure[S any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(S) float64
	labels     prometheus.Labels
}

// collector reports figures of one snapshot, which it reads at each scrape.
type collector[S any] struct {
	read    func(context.Context) S
	figures []figure[S]
	descs   []*prometheus.Desc
}

// newCollector returns a collector. prefix is put before the names of its figures.
func newCollector[S any](prefix string, read func() S, figures ...figure[S]) *collector[S] {
	return newAskingCollector(prefix, func(context.Context) S { return read() }, figures...)
}

// newAskingCollector is newCollector for a snapshot that a store, or the queue, is asked for. It
// has scrapeTimeout for that.
func newAskingCollector[S any](prefix string, read func(context.Context) S, figures ...figure[S]) *collector[S] {
	c := &collector[S]{read: read, figures: figures}
	for _, f := range figures {
		c.descs = append(c.descs, prometheus.NewDesc(prefix+f.name, f.help, nil, f.labels))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s := c.read(ctx)
	for i, f := range c.figures {
		if value := f.value(s); !math.IsNaN(value) {
			ch <- prometheus.MustNewConstMetric(c.descs[i], f.kind, value)
		}
	}
}

// scrapeTimeout bounds how long a scrape waits for a store, or for the queue.
const scrapeTimeout = 2 * time.Second

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// newRedisCollector reports the Redis connection pool.
func newRedisCollector(rdb redis.UniversalClient) prometheus.Collector {
	type stats = *redis.PoolStats
	return newCollector("stepboard_redis_pool_", rdb.PoolStats,
		figure[stats]{"connections", "Open connections to Redis, idle ones included.", gauge, func(s stats) float64 { return float64(s.TotalConns) }, nil},
		figure[stats]{"idle_connections", "Idle connections to Redis.", gauge, func(s stats) float64 { return float64(s.IdleConns) }, nil},
		figure[stats]{"hits_total", "Commands that found an idle connection.", counter, func(s stats) float64 { return float64(s.Hits) }, nil},
		figure[stats]{"misses_total", "Commands that found no idle connection.", counter, func(s stats) float64 { return float64(s.Misses) }, nil},
		figure[stats]{"timeouts_total", "Commands that timed out waiting for a connection.", counter, func(s stats) float64 { return float64(s.Timeouts) }, nil},
	)
}

// newArchiveCollector reports the archive runs of this process.
func newArchiveCollector(a *archive.Service) prometheus.Collector {
	type stats = *archive.Stats
	ended := func(state models.ArchiveState) prometheus.Labels { return prometheus.Labels{"state": string(state)} }
	const runs = "Archive runs that have ended, by state."
	return newCollector("stepboard_archive_", a.Stats,
		figure[stats]{"runs_total", runs, counter, func(s stats) float64 { return float64(s.Complete.Load()) }, ended(models.ArchiveComplete)},
		figure[stats]{"runs_total", runs, counter, func(s stats) float64 { return float64(s.Failed.Load()) }, ended(models.ArchiveFailed)},
		figure[stats]{"verification_failures_total", "Archive runs that failed because the stored entries differed from those read.", counter, func(s stats) float64 { return float64(s.Unverified.Load()) }, nil},
		figure[stats]{"entries_moved_total", "Entries moved from Redis to the archive.", counter, func(s stats) float64 { return float64(s.Moved.Load()) }, nil},
		figure[stats]{"due_buckets", "Buckets that were due when the last archive job began.", gauge, func(s stats) float64 { return float64(s.Due.Load()) }, nil},
	)
}

// newRankingCollector reports the rankings that this process has answered.
// hot is the label of those that were read from the boards.
func newRankingCollector(s *ranking.Service, hot string) prometheus.Collector {
	var figures []figure[*ranking.Service]
	for _, list := range ranking.Lists {
		answers := s.Answers(list)
		from := map[string]*atomic.Int64{"memory": &answers.Memory, "archive": &answers.Archive}
		from[hot] = &answers.Redis
		for from, n := range from {
			figures = append(figures, figure[*ranking.Service]{
				"answers_total", "Answers of rankings, by list and by where they came from.", counter,
				func(*ranking.Service) float64 { return float64(n.Load()) }, prometheus.Labels{"list": list, "from": from},
			})
		}
	}
	return newCollector("stepboard_rankings_", func() *ranking.Service { return s }, figures...)
}

// newLedgerCollector reports the increments of this process.
func newLedgerCollector(l *ledger.Service) prometheus.Collector {
	type stats = *ledger.Stats
	status := func(s ledger.Status) prometheus.Labels { return prometheus.Labels{"status": string(s)} }
	const increments = "Increments that were answered, by status, without malformed ones."
	return newCollector("stepboard_ledger_", l.Stats,
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Applied.Load()) }, status(ledger.Applied)},
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Duplicates.Load()) }, status(ledger.Duplicate)},
		figure[stats]{"increments_total", increments, counter, func(s stats) float64 { return float64(s.Rejected.Load()) }, status(ledger.Rejected)},
		figure[stats]{"flushes_total", "Transactions that counted increments.", counter, func(s stats) float64 { return float64(s.Flushes.Load()) }, nil},
		figure[stats]{"retries_total", "Transactions that were retried after a conflict with another one.", counter, func(s stats) float64 { return float64(s.Retries.Load()) }, nil},
		figure[stats]{"locked_total", "Increments that waited because another transaction had locked rows of their user.", counter, func(s stats) float64 { return float64(s.Locked.Load()) }, nil},
		figure[stats]{"unraised_total", "Increments of calls that were answered before all of their boards were raised. The reconciler raises these later.", counter, func(s stats) float64 { return float64(s.Unraised.Load()) }, nil},
	)
}

// newStreamCollector reports the open streams of rankings.
func newStreamCollector(l *stream.Service) prometheus.Collector {
	return newCollector("stepboard_streams_", l.Subscribers,
		figure[int]{"open", "Open streams of rankings.", gauge, func(n int) float64 { return float64(n) }, nil},
	)
}

// newConnectionsCollector reports the connections of clients.
func newConnectionsCollector(c *connections) prometheus.Collector {
	type stats struct{ open, idle, most, closedIdle float64 }
	read := func() stats {
		open, idle := c.counts()
		return stats{float64(open), float64(idle), float64(c.most), float64(c.closedIdle.Load())}
	}
	return newCollector("stepboard_http_connections_", read,
		figure[stats]{"open", "Open connections to http.addr.", gauge, func(s stats) float64 { return s.open }, nil},
		figure[stats]{"idle", "Open connections without a request, which may be closed for new ones.", gauge, func(s stats) float64 { return s.idle }, nil},
		figure[stats]{"max", "Largest number of open connections to http.addr, without those for probes.", gauge, func(s stats) float64 { return s.most }, nil},
		figure[stats]{"idle_closed_total", "Idle connections that were closed for new ones.", counter, func(s stats) float64 { return s.closedIdle }, nil},
	)
}

// newFriendsCollector reports the friend requests that were refused.
func newFriendsCollector(f *friends.Service) prometheus.Collector {
	type stats = *friends.Stats
	by := func(limit string) prometheus.Labels { return prometheus.Labels{"limit": limit} }
	const refused = "Friend requests that were refused because their sender had sent too many, by limit."
	return newCollector("stepboard_friend_requests_", f.Stats,
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.TooManyPending.Load()) }, by("pending")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.TooManyToday.Load()) }, by("day")},
	)
}

// newLikesCollector reports the likes that this process has stored.
func newLikesCollector(l *likes.Service) prometheus.Collector {
	type stats = *likes.Stats
	return newCollector("stepboard_likes_", l.Stats,
		figure[stats]{"given_total", "Likes that were given, without repeated ones.", counter, func(s stats) float64 { return float64(s.Given.Load()) }, nil},
		figure[stats]{"withdrawn_total", "Likes that were withdrawn.", counter, func(s stats) float64 { return float64(s.Withdrawn.Load()) }, nil},
	)
}

// newDigestsCollector reports the digests that this process has written.
func newDigestsCollector(d *digests.Service, clock models.Clock) prometheus.Collector {
	type stats = *digests.Stats
	unfinished := func(s stats) float64 {
		since := s.Since.Load()
		if since == 0 {
			return 0
		}
		return max(0, clock().Sub(time.Unix(since, 0)).Seconds())
	}
	return newCollector("stepboard_digest_", d.Stats,
		figure[stats]{"users_total", "Users who have got a digest.", counter, func(s stats) float64 { return float64(s.Users.Load()) }, nil},
		figure[stats]{"unfinished_seconds", "Time since the oldest unfinished digest began, when the job last looked; 0 if all are finished.", gauge, unfinished, nil},
	)
}

// newLimitCollector reports the calls above rate limits.
func newLimitCollector(l *limit.Service) prometheus.Collector {
	type stats = *limit.Stats
	by := func(kind string) prometheus.Labels { return prometheus.Labels{"limit": kind} }
	const refused = "Calls that were refused because of a rate limit, by limit."
	return newCollector("stepboard_limits_", l.Stats,
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Users.Load()) }, by("user")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Addresses.Load()) }, by("address")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Failures.Load()) }, by("failure")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Joins.Load()) }, by("join")},
		figure[stats]{"refused_total", refused, counter, func(s stats) float64 { return float64(s.Reports.Load()) }, by("running")},
		figure[stats]{"uncounted_total", "Calls that were let through uncounted because Redis did not respond, or because memory has no room for more callers.", counter, func(s stats) float64 { return float64(s.Uncounted.Load()) }, nil},
	)
}

// newQueueCollector reports how far consumers are behind. Each scrape asks the queue.
func newQueueCollector(queue ingest.Queue) prometheus.Collector {
	type state struct{ lag, age, up float64 }
	read := func(ctx context.Context) state {
		lag, err := queue.Lag(ctx)
		if err != nil {
			return state{math.NaN(), math.NaN(), 0}
		}
		return state{float64(lag.Messages), lag.Oldest.Seconds(), 1}
	}
	return newAskingCollector("stepboard_ingest_", read,
		figure[state]{"lag_messages", "Messages that are not acknowledged, or follow one that is not.", gauge, func(s state) float64 { return s.lag }, nil},
		figure[state]{"lag_seconds", "Age of the oldest message that is not acknowledged.", gauge, func(s state) float64 { return s.age }, nil},
		figure[state]{"queue_up", "1 if the queue responds, otherwise 0.", gauge, func(s state) float64 { return s.up }, nil},
	)
}

// newPostgresCollector reports the connections to Postgres of one kind of work. The
// database/sql on top of them keeps none, so its own figures mean nothing.
func newPostgresCollector(pool *pgxpool.Pool) prometheus.Collector {
	type stats = *pgxpool.Stat
	return newCollector("stepboard_postgres_pool_", pool.Stat,
		figure[stats]{"max_connections", "Largest number of connections to Postgres.", gauge, func(s stats) float64 { return float64(s.MaxConns()) }, nil},
		figure[stats]{"connections", "Open connections to Postgres, idle ones included.", gauge, func(s stats) float64 { return float64(s.TotalConns()) }, nil},
		figure[stats]{"idle_connections", "Idle connections to Postgres.", gauge, func(s stats) float64 { return float64(s.IdleConns()) }, nil},
		figure[stats]{"acquired_connections", "Connections to Postgres that are in use.", gauge, func(s stats) float64 { return float64(s.AcquiredConns()) }, nil},
		figure[stats]{"acquires_total", "Acquired connections.", counter, func(s stats) float64 { return float64(s.AcquireCount()) }, nil},
		figure[stats]{"empty_acquires_total", "Acquired connections that had to be waited for.", counter, func(s stats) float64 { return float64(s.EmptyAcquireCount()) }, nil},
		figure[stats]{"canceled_acquires_total", "Waits for a connection that were canceled.", counter, func(s stats) float64 { return float64(s.CanceledAcquireCount()) }, nil},
		figure[stats]{"acquire_wait_seconds_total", "Time spent waiting for connections that were then acquired.", counter, func(s stats) float64 { return s.EmptyAcquireWaitTime().Seconds() }, nil},
	)
}

// newFileCollector reports the sizes of the files of a data folder.
func newFileCollector(st *stores.Stores) prometheus.Collector {
	type sizes struct{ database, log int64 }
	read := func() (s sizes) {
		s.database, s.log = st.FileSizes()
		return s
	}
	return newCollector("stepboard_sqlite_", read,
		figure[sizes]{"database_bytes", "Size of the data folder's database.", gauge, func(s sizes) float64 { return float64(s.database) }, nil},
		figure[sizes]{"wal_bytes", "Size of the database's write-ahead log, which grows while somebody reads for long.", gauge,
			func(s sizes) float64 { return float64(s.log) }, nil},
	)
}

// newDirectoryCollector reports the lookups of users in this process. Without
// copies there is no level of Redis.
func newDirectoryCollector(d *directory.Service, copies bool) prometheus.Collector {
	type stats = *directory.Stats
	level := func(what, level string) prometheus.Labels { return prometheus.Labels{"what": what, "level": level} }
	const lookups = "Lookups of users, by what was looked up and by the level at which it was found."
	figures := []figure[stats]{
		{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.IDs.Process.Load()) }, level("id", "process")},
		{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.IDs.SQL.Load()) }, level("id", "sql")},
		{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.Records.Process.Load()) }, level("record", "process")},
		{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.Records.SQL.Load()) }, level("record", "sql")},
		{"created_total", "Users that were created.", counter, func(s stats) float64 { return float64(s.Created.Load()) }, nil},
	}
	if copies {
		figures = append(figures,
			figure[stats]{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.IDs.Redis.Load()) }, level("id", "redis")},
			figure[stats]{"lookups_total", lookups, counter, func(s stats) float64 { return float64(s.Records.Redis.Load()) }, level("record", "redis")},
		)
	}
	return newCollector("stepboard_directory_", d.Stats, figures...)
}

// reviewsCollector reports how many scores wait for an operator to look at them. Each
// scrape asks the database.
type reviewsCollector struct {
	reviews *reviews.Service
	open    *prometheus.Desc
}

func newReviewsCollector(r *reviews.Service) *reviewsCollector {
	return &reviewsCollector{r, prometheus.NewDesc("stepboard_reviews_open",
		"Scores above the review_above of their board that nobody has looked at. It is missing while Postgres does not respond.",
		[]string{"board"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *reviewsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.open }

// Collect implements prometheus.Collector.
func (c *reviewsCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	open, err := c.reviews.Open(ctx)
	if err != nil {
		return
	}
	for board, n := range open {
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n), board)
	}
}
