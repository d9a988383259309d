package app

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/operations/reviews"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/platform/limit"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/nearcache"
	"stepboard/services/rankings/passed"
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

// collector reports figures of snapshots, which it reads at each scrape: of one, or of one for each board.
type collector[S any] struct {
	read    func(context.Context) map[string]S // by board; "" without boards
	figures []figure[S]
	labels  []string // "board", or none
	descs   []*prometheus.Desc
}

func newSnapshots[S any](prefix string, read func(context.Context) map[string]S, figures []figure[S], labels ...string) *collector[S] {
	c := &collector[S]{read: read, figures: figures, labels: labels}
	for _, f := range figures {
		c.descs = append(c.descs, prometheus.NewDesc(prefix+f.name, f.help, labels, f.labels))
	}
	return c
}

// newCollector returns a collector of one snapshot. prefix is put before the names of its figures.
func newCollector[S any](prefix string, read func() S, figures ...figure[S]) *collector[S] {
	return newAskingCollector(prefix, func(context.Context) S { return read() }, figures...)
}

// newAskingCollector is newCollector for a snapshot that a store, or the queue, is asked for. It
// has scrapeTimeout for that.
func newAskingCollector[S any](prefix string, read func(context.Context) S, figures ...figure[S]) *collector[S] {
	return newSnapshots(prefix, func(ctx context.Context) map[string]S { return map[string]S{"": read(ctx)} }, figures)
}

// newBoardsCollector is newAskingCollector for a snapshot of each board. While the store does not
// respond, there are none.
func newBoardsCollector[S any](prefix string, read func(context.Context) (map[string]S, error), figures ...figure[S]) *collector[S] {
	return newSnapshots(prefix, func(ctx context.Context) map[string]S {
		boards, err := read(ctx)
		if err != nil {
			return nil
		}
		return boards
	}, figures, "board")
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
	for board, s := range c.read(ctx) {
		values := []string{board}[:len(c.labels)]
		for i, f := range c.figures {
			if value := f.value(s); !math.IsNaN(value) {
				ch <- prometheus.MustNewConstMetric(c.descs[i], f.kind, value, values...)
			}
		}
	}
}

// number is a metric that a service keeps in memory. It can be read at any time, so its snapshot is none.
type number = figure[none]

type none struct{}

// of returns the value of a metric that a service counts in n.
func of(n *atomic.Int64) func(none) float64 { return func(none) float64 { return float64(n.Load()) } }

// counters returns a counter for each value of a label.
func counters(name, help, label string, values map[string]*atomic.Int64) (numbers []number) {
	for value, n := range values {
		numbers = append(numbers, number{name, help, counter, of(n), prometheus.Labels{label: value}})
	}
	return numbers
}

// newNumbers returns a collector of numbers. prefix is put before their names.
func newNumbers(prefix string, numbers ...number) prometheus.Collector {
	return newCollector(prefix, func() none { return none{} }, numbers...)
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
		figure[stats]{"timeouts_total", "Commands that timed out waiting for a connection.", counter, func(s stats) float64 { return float64(s.Timeouts) }, nil},
	)
}

// newArchiveCollector reports the archive runs of this process.
func newArchiveCollector(a *archive.Service) prometheus.Collector {
	s := a.Stats()
	runs := map[string]*atomic.Int64{string(models.ArchiveComplete): &s.Complete, string(models.ArchiveFailed): &s.Failed}
	return newNumbers("stepboard_archive_", append(
		counters("runs_total", "Archive runs that have ended, by state.", "state", runs),
		number{"verification_failures_total", "Archive runs that failed because the stored entries differed from those read.", counter, of(&s.Unverified), nil},
		number{"entries_moved_total", "Entries moved from Redis to the archive.", counter, of(&s.Moved), nil},
		number{"due_buckets", "Buckets that were due when the last archive job began.", gauge, of(&s.Due), nil},
	)...)
}

// newRankingCollector reports the rankings that this process has answered, and its open streams.
// hot is the label of those that were read from the boards.
func newRankingCollector(s *ranking.Service, hot string, l *stream.Service) prometheus.Collector {
	numbers := []number{{"streams_open", "Open streams of rankings.", gauge, func(none) float64 { return float64(l.Subscribers()) }, nil}}
	for _, list := range ranking.Lists {
		answers := s.Answers(list)
		counted := map[string]*atomic.Int64{"memory": &answers.Memory, "archive": &answers.Archive}
		counted[hot] = &answers.Redis
		for from, n := range counted {
			numbers = append(numbers, number{
				"rankings_answers_total", "Answers of rankings, by list and by where they came from.", counter, of(n), prometheus.Labels{"list": list, "from": from},
			})
		}
	}
	return newNumbers("stepboard_", numbers...)
}

// newCorrectionsCollector reports the corrections that this process knows, and what it has
// done for them.
func newCorrectionsCollector(c *corrections.Service) prometheus.Collector {
	s := c.Stats()
	return newNumbers("stepboard_corrections_",
		number{"held", "Corrections that hold and concern buckets in Redis.", gauge, func(none) float64 { return float64(c.Held()) }, nil},
		number{"changed_total", "Entries of boards that the job has changed because they did not agree with the corrections.", counter, of(&s.Corrected), nil},
		number{"pending_buckets", "Archived buckets that have to be ranked anew because of corrections.", gauge, of(&s.Pending), nil},
	)
}

// newLedgerCollector reports the increments of this process.
func newLedgerCollector(l *ledger.Service) prometheus.Collector {
	s := l.Stats()
	increments := map[string]*atomic.Int64{
		string(ledger.Applied): &s.Applied, string(ledger.Duplicate): &s.Duplicates, string(ledger.Rejected): &s.Rejected,
	}
	return newNumbers("stepboard_ledger_", append(
		counters("increments_total", "Increments that were answered, by status, without malformed ones.", "status", increments),
		number{"retries_total", "Transactions that were retried after a conflict with another one.", counter, of(&s.Retries), nil},
		number{"locked_total", "Increments that waited because another transaction had locked rows of their user.", counter, of(&s.Locked), nil},
		number{"unraised_total", "Increments of calls that were answered before all of their boards were raised. The reconciler raises these later.", counter, of(&s.Unraised), nil},
	)...)
}

// newConnectionsCollector reports the connections of clients.
func newConnectionsCollector(c *connections) prometheus.Collector {
	open := func(none) float64 { open, _ := c.counts(); return float64(open) }
	idle := func(none) float64 { _, idle := c.counts(); return float64(idle) }
	return newNumbers("stepboard_http_connections_",
		number{"open", "Open connections to http.addr.", gauge, open, nil},
		number{"idle", "Open connections without a request, which may be closed for new ones.", gauge, idle, nil},
		number{"max", "Largest number of open connections to http.addr, without those for probes.", gauge, func(none) float64 { return float64(c.most) }, nil},
		number{"idle_closed_total", "Idle connections that were closed for new ones.", counter, of(&c.closedIdle), nil},
	)
}

// newFriendsCollector reports the friend requests that were refused.
func newFriendsCollector(f *friends.Service) prometheus.Collector {
	s := f.Stats()
	const refused = "Friend requests that were refused because their sender had sent too many, by limit."
	return newNumbers("stepboard_friend_requests_",
		counters("refused_total", refused, "limit", map[string]*atomic.Int64{"pending": &s.TooManyPending, "day": &s.TooManyToday})...)
}

// secondsSince returns a function that returns how long ago something was, 0 if it is the zero time.
func secondsSince(moment func() time.Time, clock models.Clock) func(none) float64 {
	return func(none) float64 {
		at := moment()
		if at.IsZero() {
			return 0
		}
		return max(0, clock().Sub(at).Seconds())
	}
}

// newRankingJobsCollector reports the digests that this process works on, how old the standings of
// competitions are, and the notices of passing.
func newRankingJobsCollector(d *digests.Service, c *competitions.Service, p *passed.Service, clock models.Clock) prometheus.Collector {
	s := p.Stats()
	const digest = "Time since the oldest unfinished digest began, when the job last looked; 0 if all are finished."
	const standing = "Age of the oldest standing of a competition that is not final, by the last run of the job; 0 without one."
	const lost = "Notices that friends have passed a user which could not be written, and are not repeated."
	return newNumbers("stepboard_",
		number{"digest_unfinished_seconds", digest, gauge, secondsSince(d.Since, clock), nil},
		number{"competitions_oldest_standing_seconds", standing, gauge, secondsSince(c.Oldest, clock), nil},
		number{"passed_notices_total", "Notices that friends have passed a user.", counter, of(&s.Notices), nil},
		number{"passed_lost_total", lost, counter, of(&s.Lost), nil},
	)
}

// newLimitCollector reports the calls above rate limits.
func newLimitCollector(l *limit.Service) prometheus.Collector {
	s := l.Stats()
	const uncounted = "Calls that were let through uncounted because Redis did not respond, or because memory has no room for more callers."
	refused := map[string]*atomic.Int64{
		"user": &s.Users, "key": &s.Keys, "address": &s.Addresses, "failure": &s.Failures, "join": &s.Joins, "login": &s.Logins, "running": &s.Reports,
	}
	return newNumbers("stepboard_limits_", append(
		counters("refused_total", "Calls that were refused because of a rate limit, by limit.", "limit", refused),
		number{"uncounted_total", uncounted, counter, of(&s.Uncounted), nil},
	)...)
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
	database := func(none) float64 { database, _ := st.FileSizes(); return float64(database) }
	log := func(none) float64 { _, log := st.FileSizes(); return float64(log) }
	return newNumbers("stepboard_sqlite_",
		number{"database_bytes", "Size of the data folder's database.", gauge, database, nil},
		number{"wal_bytes", "Size of the database's write-ahead log, which grows while somebody reads for long.", gauge, log, nil},
	)
}

// newBackupCollector reports what this process has copied of a data folder's database to backup.to.
func newBackupCollector(read func() shipping.Status) prometheus.Collector {
	type state = shipping.Status
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	copiedAt := func(s state) float64 {
		if s.FullAt.IsZero() {
			return math.NaN()
		}
		return float64(s.FullAt.UnixMilli()) / 1000
	}
	return newCollector("stepboard_backup_", read,
		figure[state]{"behind_seconds", "For how long something may have been committed that is not at backup.to: less than backup.interval, usually.", gauge, func(s state) float64 { return s.Behind.Seconds() }, nil},
		figure[state]{"waiting_bytes", "What waits in the data folder to be copied to backup.to.", gauge, func(s state) float64 { return float64(s.WaitingBytes) }, nil},
		figure[state]{"whole", "1 if the generation has a full copy, so that it can be restored, otherwise 0.", gauge, func(s state) float64 { return is(s.Whole) }, nil},
		figure[state]{"superseded", "1 if another process has begun a later generation at backup.to, so that this one copies nothing more, otherwise 0.", gauge,
			func(s state) float64 { return is(s.Superseded) }, nil},
		figure[state]{"generation", "The generation at backup.to that this process writes; 0 if it has none yet.", gauge, func(s state) float64 { return float64(s.Generation) }, nil},
		figure[state]{"objects_total", "Objects that were written to backup.to.", counter, func(s state) float64 { return float64(s.Objects) }, nil},
		figure[state]{"bytes_total", "Bytes of these objects.", counter, func(s state) float64 { return float64(s.ObjectBytes) }, nil},
		figure[state]{"errors_total", "Failures to write to backup.to or to list it. They are repeated.", counter, func(s state) float64 { return float64(s.Errors) }, nil},
		figure[state]{"delete_errors_total", "Failures to delete what is older than backup.retain, such as for want of the right.", counter, func(s state) float64 { return float64(s.DeleteErrors) }, nil},
		figure[state]{"full_copy_timestamp_seconds", "When the latest full copy ended. It is missing before the first.", gauge, copiedAt, nil},
	)
}

// newDirectoryCollector reports the lookups of users in this process. Without
// copies there is no level of Redis.
func newDirectoryCollector(d *directory.Service, copies bool) prometheus.Collector {
	s := d.Stats()
	level := func(what, level string) prometheus.Labels { return prometheus.Labels{"what": what, "level": level} }
	const lookups = "Lookups of users, by what was looked up and by the level at which it was found."
	numbers := []number{
		{"lookups_total", lookups, counter, of(&s.IDs.Process), level("id", "process")},
		{"lookups_total", lookups, counter, of(&s.IDs.SQL), level("id", "sql")},
		{"lookups_total", lookups, counter, of(&s.Records.Process), level("record", "process")},
		{"lookups_total", lookups, counter, of(&s.Records.SQL), level("record", "sql")},
		{"created_total", "Users that were created.", counter, of(&s.Created), nil},
	}
	if copies {
		numbers = append(numbers,
			number{"lookups_total", lookups, counter, of(&s.IDs.Redis), level("id", "redis")},
			number{"lookups_total", lookups, counter, of(&s.Records.Redis), level("record", "redis")},
		)
	}
	return newNumbers("stepboard_directory_", numbers...)
}

// newNearCacheCollector reports the copies of buckets in this process.
func newNearCacheCollector(c *nearcache.Cache) prometheus.Collector {
	s := c.Stats()
	unproven := func(none) float64 { return time.Duration(s.Unproven.Load()).Seconds() }
	const refused = "Rankings of current buckets that were read from Redis, because the near cache could not prove that its copy is fresh enough."
	const resets = "Shards that the near cache copies anew because their change stream did not go on where it was read last."
	const unordered = "Questions for top, around and me of current buckets that were read from Redis, because the near cache has no " +
		"order of the bucket yet, or no room for it."
	const noRoom = "Buckets whose order rankings.order_memory has no room for, among those that were asked for it."
	return newNumbers("stepboard_near_cache_",
		number{"refused_total", refused, counter, of(&s.Refused), nil},
		number{"copies_total", "Shards of buckets that the near cache has begun to copy.", counter, of(&s.Copies), nil},
		number{"resets_total", resets, counter, of(&s.StartedOver), nil},
		number{"bytes", "Memory of the near cache's copies of buckets.", gauge, of(&s.Bytes), nil},
		number{"buckets_without_room", "Buckets that rankings.memory has no room for.", gauge, of(&s.WithoutRoom), nil},
		number{"unordered_total", unordered, counter, of(&s.Unordered), nil},
		number{"orders_total", "Shards of buckets whose order the near cache has made.", counter, of(&s.Orders), nil},
		number{"order_bytes", "Memory of the order of the near cache's copies of buckets.", gauge, of(&s.OrderBytes), nil},
		number{"orders_without_room", noRoom, gauge, of(&s.OrdersWithoutRoom), nil},
		number{"unproven_seconds", "For how long some bucket could not be read from the near cache.", gauge, unproven, nil},
	)
}

// newCirclesCollector reports the copies of friend sets and sets of members in this process.
func newCirclesCollector(c *cache.Circles) prometheus.Collector {
	s := c.Stats()
	found := map[string]*atomic.Int64{"near": &s.Near, "unknown": &s.Unknown, "unproven": &s.Unproven}
	const sets = "Sets of friends or members for rankings of current buckets, by where they were found: in memory (near), or in Redis " +
		"or SQL, because memory did not have them (unknown) or might have been too old (unproven)."
	const resets = "How often all copies of a stream's sets were dropped, because entries of it may have been missed."
	return newNumbers("stepboard_near_circles_", append(
		counters("found_total", sets, "found", found),
		number{"resets_total", resets, counter, of(&s.StartedOver), nil},
		number{"bytes", "Memory of the copies of sets of friends and members.", gauge, func(none) float64 { bytes, _ := c.Bytes(); return float64(bytes) }, nil},
	)...)
}

// newHoldsCollector reports how many held totals wait for an operator, and for how long. Each scrape
// asks the database.
func newHoldsCollector(h *holds.Service) prometheus.Collector {
	type waiting = holds.Waiting
	const away = " It is missing while Postgres does not respond."
	const open = "Totals above the hold_above of their board about which nobody has decided." + away
	const oldest = "How long ago the oldest of these was held; 0 if there is none." + away
	return newBoardsCollector("stepboard_holds_", h.Waiting,
		figure[waiting]{"open", open, gauge, func(w waiting) float64 { return float64(w.Open) }, nil},
		figure[waiting]{"oldest_seconds", oldest, gauge, func(w waiting) float64 { return w.Oldest.Seconds() }, nil},
	)
}

// newReviewsCollector reports how many scores wait for an operator to look at them. Each
// scrape asks the database.
func newReviewsCollector(r *reviews.Service) prometheus.Collector {
	const open = "Scores above the review_above of their board that nobody has looked at. It is missing while Postgres does not respond."
	return newBoardsCollector("stepboard_reviews_", r.Open, figure[int64]{"open", open, gauge, func(n int64) float64 { return float64(n) }, nil})
}
