package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/jobs"
	"stepboard/services/boards/catalog"
	"stepboard/services/platform/recovery"
)

// checkBoards is the part of CheckStores about Redis.
func checkBoards(ctx context.Context, cfg config.Config, st *stores.Stores, roles Roles, log *slog.Logger) error {
	if err := checkRedis(ctx, st.Redis, log); err != nil {
		return err
	}
	if roles == (Roles{}) {
		return nil
	}
	if err := recovery.CheckRights(ctx, st.Redis); err != nil {
		return err
	}
	return stores.TryRedis(ctx, st.Redis, keys.Builder{Prefix: cfg.Redis.KeyPrefix})
}

// CheckServers checks Postgres, Redis and the queue of the settings as a start of the service
// does, and changes nothing in them. With postgres.auto_migrate the schema may be older.
func CheckServers(ctx context.Context, cfg config.Config, log *slog.Logger) (err error) {
	st, err := stores.OpenForCommand(ctx, cfg, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.SQL.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	schema := st.CheckSchema(ctx)
	if schema == nil {
		err = warnOfBoards(ctx, cfg, st, time.Now().Add(cfg.Clock.Offset), log)
	} else if !cfg.Postgres.AutoMigrate {
		err = schema
	}
	if err != nil {
		return err
	}
	if err := checkBoards(ctx, cfg, st, AllRoles(), log); err != nil {
		return err
	}
	queue, err := newQueue(ctx, Options{Config: cfg, Stores: st, Machine: time.Now, Log: log}, cfg.HotDays, nil)
	if err == nil && queue != nil {
		queue.Close()
	}
	return err
}

// warnOfBoards logs a warning that names the boards that earlier settings have named and these do
// not: they still take uploads. Another one names the events that end later than these settings say.
func warnOfBoards(ctx context.Context, cfg config.Config, st *stores.Stores, now time.Time, log *slog.Logger) error {
	dropped, err := catalog.NewStore(st.Gorm).Dropped(ctx, cfg.BoardDefinitions(), now)
	if len(dropped) > 0 {
		log.WarnContext(ctx, "boards are not in the settings any more; they are served as before and take uploads", "boards", dropped)
	}
	later, failed := catalog.NewStore(st.Gorm).Later(ctx, cfg.BoardDefinitions())
	if len(later) > 0 {
		log.WarnContext(ctx, "events end later than the settings say, because an end only moves to a later time", "boards", later)
	}
	return errors.Join(err, failed)
}

// policyAge is how old the answer of a policyGuard may be.
const policyAge = time.Minute

// policyGuard looks again and again whether Redis may evict boards: its policy can be changed
// while it runs. Safe for concurrent use.
type policyGuard struct {
	redis redis.UniversalClient

	mu    sync.Mutex
	asked time.Time
	err   error
}

// check returns an error if Redis may evict boards. It asks once a minute. It returns nil if
// Redis does not respond, which other checks report, or does not reveal its policy.
func (g *policyGuard) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.asked) < policyAge {
		return g.err
	}
	ctx, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	err := stores.CheckRedis(ctx, g.redis)
	if err != nil && !errors.Is(err, stores.ErrEvicts) {
		err = nil
	}
	g.asked, g.err = time.Now(), err
	return err
}

// checkRedis returns an error if Redis may evict keys. If Redis does not reveal its
// policy, it logs a warning.
func checkRedis(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	err := stores.CheckRedis(ctx, rdb)
	if errors.Is(err, stores.ErrPolicyUnknown) {
		log.Warn("redis does not reveal its maxmemory-policy: make sure that it is noeviction, or it may evict boards")
		return nil
	}
	return err
}

// CheckSettings checks the settings that config can't check by itself: the
// schedule of jobs and the definitions of boards. The error names the setting.
// Commands call it after loading.
func CheckSettings(cfg *config.Config) error {
	if err := jobs.CheckSpec(cfg.Jobs.ArchiveCron); err != nil {
		return fmt.Errorf("jobs.archive_cron: %w", err)
	}
	if cfg.Jobs.DigestCron != "" {
		if err := jobs.CheckSpec(cfg.Jobs.DigestCron); err != nil {
			return fmt.Errorf("jobs.digest_cron: %w", err)
		}
	}
	for _, def := range cfg.BoardDefinitions() {
		if _, err := catalog.NewBoard(def); err != nil {
			return fmt.Errorf("boards: %w", err)
		}
		if err := catalog.CheckLate(def, cfg.Ledger.Retain); err != nil {
			return fmt.Errorf("boards: board %s: %w", def.Name, err)
		}
	}
	return nil
}

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
