package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/keys"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/platform/clock"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/limit"
	"stepboard/services/platform/recovery"
	"stepboard/services/rankings/nearcache"
	"stepboard/services/rankings/passed"
	"stepboard/services/rankings/ranking"
)

// servers is the backing of processes that share Redis and Postgres.
type servers struct {
	Options

	registry *prometheus.Registry
	names    keys.Builder
	memory   *memoryGuard
	policy   *policyGuard
	queued   recovery.Detector // of losses of queued updates
	// ledger and queue say whether boards may lack increments or queued updates.
	ledger, queue recovery.Recovery

	scores   *board.Store
	cached   *cache.Store
	nearby   *nearcache.Cache // empty unless useNear
	circles  *cache.Circles
	useNear  bool // whether rankings are read from nearby and circles
	machines *clock.Guard
	notices  *passed.RedisFeed
}

func newServers(o Options, registry *prometheus.Registry, names keys.Builder) *servers {
	s := &servers{
		Options: o, registry: registry, names: names, memory: newMemoryGuard(o.Stores.Redis, o.Config), policy: &policyGuard{redis: o.Stores.Redis},
		useNear: o.Config.Rankings.MaxStaleness > 0 && o.Roles.API,
	}
	s.ledger = recovery.Recovery{Detector: recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Ledger)}
	s.queue = recovery.Recovery{Detector: recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Queue)}
	s.queued = s.queue.Detector
	if o.Roles.Consumer { // only a consumer writes queued updates to the boards
		s.queued = recovery.NewWriterDetector(o.Stores.Redis, names, recovery.Queue)
	}
	s.machines = clock.NewGuard(o.Machine, o.Elapsed, o.Stores.Probes.SQL)
	registry.MustRegister(newRedisCollector(o.Stores.Redis), newMemoryCollector(s.memory, s.policy), newClockCollector(s.machines))
	for _, work := range o.Stores.Works() {
		labeled := prometheus.WrapRegistererWith(prometheus.Labels{"work": work.Name}, registry)
		labeled.MustRegister(newPostgresCollector(work.Pool))
	}
	return s
}

func (*servers) check() error { return nil }

func (*servers) hot() string { return "redis" }

func (s *servers) leases() *lease.Service {
	return lease.NewPostgres(s.Stores.Pool.Config().ConnConfig)
}

// clockGuard compares the machine's clock with Postgres's.
func (s *servers) clockGuard() *clock.Guard { return s.machines }

func (s *servers) counter() limit.Counter { return limit.NewRedisCounter(s.Stores.Redis, s.names) }

func (s *servers) copies() *directory.Copies {
	return directory.NewCopies(s.Stores.Redis, s.names, s.Machine)
}

// sets constructs the cached sets. Copies of them in memory, for rankings from memory, take what nearby leaves.
func (s *servers) sets() cache.Copies {
	room := func() int64 {
		if s.nearby == nil { // constructed later
			return int64(s.Config.Rankings.Memory)
		}
		return s.nearby.Room()
	}
	s.circles = cache.NewCircles(s.Stores.Redis, s.names, s.Config.Rankings.MaxStaleness, room, s.Elapsed, s.Log)
	s.registry.MustRegister(newCirclesCollector(s.circles))
	var near cache.Near
	if s.useNear {
		near = s.circles
	}
	s.cached = cache.NewStore(s.Stores.Redis, s.names, s.Config.Cache.SetsTTL, near)
	return s.cached
}

func (s *servers) entries(rules *corrections.Rules, buckets *catalog.Buckets) board.Entries {
	s.scores = board.NewStore(s.Stores.Redis, s.names, s.Clock, rules)
	s.nearby = nearcache.New(nearcache.Options{
		Source: s.scores, Changes: s.scores.Changes(), Buckets: buckets.CurrentAndNext,
		MaxStaleness: s.Config.Rankings.MaxStaleness, Memory: int64(s.Config.Rankings.Memory), OrderMemory: int64(s.Config.Rankings.OrderMemory),
		Clock: s.Clock, Log: s.Log, Elapsed: s.Elapsed, Random: s.Random,
	})
	s.registry.MustRegister(newNearCacheCollector(s.nearby), s.nearby.Stats().Answers)
	if s.useNear {
		s.scores.NotifyWritten(s.nearby.Written)
	}
	return s.scores
}

func (s *servers) passed(users models.Finder, render passed.Render) (passed.States, *passed.Feed) {
	s.notices = passed.NewRedisFeed(s.Stores.Redis, s.names, users, render, s.Elapsed, s.Log)
	return passed.NewRedisStates(s.Stores.Redis, s.names), s.notices.Feed
}

func (s *servers) near() ranking.NearCache {
	if !s.useNear {
		return nil
	}
	return s.nearby
}

// room keeps memory of the boards' Redis free if the stream of updates is in the same Redis.
func (s *servers) room() func(context.Context) error {
	if ownStream(s.Config) {
		return nil
	}
	return s.memory.check
}

func (s *servers) source() archive.Source {
	if s.Config.Ingest.Mode == "direct" {
		return archive.FromRedis(s.scores, nil)
	}
	return archive.FromRedis(s.scores, &recovery.Recovery{Detector: s.queued})
}

func (s *servers) whole(ctx context.Context, bucket *models.Bucket) error {
	switch {
	case bucket.FinalAt != nil: // an increment may have been counted just before, and not raised
		return s.ledger.CompleteSince(ctx, *bucket.FinalAt)
	case bucket.FromLedger:
		return s.ledger.Complete(ctx)
	case s.Config.Ingest.Mode == "direct":
		return nil
	default:
		return s.queue.Complete(ctx)
	}
}

func (s *servers) reconcile(replay recovery.Replay) jobs.Work {
	r := &recovery.Recovery{Detector: s.ledger.Detector, Replay: replay}
	return r.Run
}

// load refuses a database that is older than Redis, for a process with a role.
func (s *servers) load(ctx context.Context, a *App) error {
	if s.Roles == (Roles{}) {
		return nil
	}
	return a.Directory.CheckCounters(ctx)
}

// jobs returns the jobs that look for losses of Redis. All but the first are not traced: they
// run every two seconds, nearly always for nothing.
func (s *servers) jobs(a *App) []jobs.Job {
	list := s.Traces.jobs(jobs.EraseAgain(a.Erasure.Guard))
	list[0].MetricsOnly = !s.Roles.Jobs
	list = append(list, s.setsJob(a))
	if a.Replayer != nil {
		r := recovery.Recovery{Detector: s.queued, Replay: a.Replayer.Replay, Lease: "ingest/rewind", Leases: a.leases}
		replay := jobs.Replay(r.Run)
		replay.MetricsOnly = a.consumer == nil
		list = append(list, replay)
	}
	return list
}

// setsJob returns the job that drops cached sets after a loss, and restores the copies of
// users' records. Every process that changes such sets runs it.
func (s *servers) setsJob(a *App) jobs.Job {
	// Records are dated by the database's clock, which is that of machines.
	drop := s.cached.DropStale(s.Machine)
	r := recovery.Recovery{
		Detector: recovery.NewWriterDetector(s.Stores.Redis, s.names, recovery.Sets),
		Replay: func(ctx context.Context, loss recovery.Loss) (rows int64, upto time.Time, err error) {
			rows, upto, err = drop(ctx, loss)
			if err != nil || loss.Extent == recovery.NothingLost && upto.Sub(loss.CheckpointedAt) < directory.GapToRestore {
				return rows, upto, err
			}
			records, err := a.Directory.Restore(ctx, loss.CheckpointedAt)
			return rows + records, upto, err
		},
	}
	job := jobs.Sets(r.Run)
	job.MetricsOnly = !s.Roles.API
	return job
}

func (s *servers) tasks(a *App) []task {
	tasks := []task{{name: "clock", built: true, round: a.clock.Compare, every: clock.CompareEvery}}
	if s.Roles.API {
		tasks = append(tasks, task{name: "passed streams", round: s.notices.Follow, every: passed.FollowEvery})
	}
	if !s.useNear {
		return tasks
	}
	return append(tasks,
		task{name: "circles", loop: s.circles.Run},
		task{name: "near cache", loop: s.nearby.Run, round: func(ctx context.Context) error {
			s.circles.Round(ctx)
			return s.nearby.Round(ctx)
		}},
	)
}

func (s *servers) ready(ctx context.Context) (checks, degraded map[string]error) {
	if err := s.policy.check(ctx); err != nil {
		degraded = map[string]error{"redis_policy": err}
	}
	return map[string]error{"redis_memory": s.memory.check(ctx)}, degraded
}

func (*servers) oneWriter() bool { return false }
