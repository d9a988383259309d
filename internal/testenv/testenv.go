// Package testenv gives every test stores of its own: a key prefix in a real
// Redis and a schema in a real Postgres, or a data folder. It also starts
// processes of the program, and servers that tests may kill.
package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/models"
)

// Clock is a clock that the test sets. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands still at the given time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the clock's time. It is a models.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }

// Noon is the time at which most tests begin: 2026-11-20 13:00 UTC, 21:00 in
// Shanghai.
var Noon = time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)

// Morning is a time zone in which it was between six and seven when the test began, and so no
// day ends while the tests run.
var Morning = morning(time.Now())

func morning(now time.Time) string {
	// Etc/GMT-8 is UTC+8. The names go from -14 to +12.
	return fmt.Sprintf("Etc/GMT%+d", (now.UTC().Hour()+6)%24-12)
}

// Env holds the stores of one test.
type Env struct {
	*stores.Stores
	// Keys builds keys with the test's prefix.
	Keys keys.Builder
	// Config connects to the same schema and key prefix; it has no address with
	// a data folder.
	Config config.Config
	Clock  *Clock
	Log    *slog.Logger
	// Shared has what the services of a test share beside its stores, by name.
	Shared *sync.Map
}

// Each runs a test as two subtests: with real servers and with a data folder.
func Each(t *testing.T, test func(*testing.T, *Env)) {
	t.Helper()
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, Real(t))
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, Local(t))
	})
}

// LocalOrEach runs a test with a data folder, and in its turn with real servers, too: see Forms.
func LocalOrEach(t *testing.T, test func(*testing.T, *Env)) {
	t.Helper()
	for _, open := range Forms(t, 1, []func(testing.TB) *Env{Real, Local}) {
		test(t, open(t))
	}
}

// newFolder returns the files of a new data folder. Making its schema would be half of the work of
// many tests.
var newFolder = sync.OnceValue(func() map[string][]byte {
	dir := Must(os.MkdirTemp("", "stepboard-folder"))
	defer func() { _ = os.RemoveAll(dir) }() // only what nobody uses is left
	s := Must(stores.OpenFolder(context.Background(), dir, NewClock(Noon).Now))
	if err := s.Close(); err != nil {
		panic(err)
	}
	files := make(map[string][]byte)
	for _, file := range Must(os.ReadDir(dir)) {
		files[file.Name()] = Must(os.ReadFile(filepath.Join(dir, file.Name())))
	}
	return files
})

// Local opens a data folder for the test.
func Local(t testing.TB) *Env {
	t.Helper()
	dir := t.TempDir()
	for name, content := range newFolder() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clock := NewClock(Noon)
	s, err := stores.OpenFolder(context.Background(), dir, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(t, s) })
	return &Env{Stores: s, Config: unlimited(), Clock: clock, Log: Log(), Shared: new(sync.Map)}
}

// Real opens the stores that TEST_REDIS_ADDR and TEST_POSTGRES_DSN name, with a
// schema and a key prefix for the test. The end of the test removes them. `make
// test` starts the servers.
func Real(t testing.TB) *Env {
	t.Helper()
	return Open(t, RealConfig(t))
}

// RealOn is Real with another Redis, to which use makes the settings connect.
// The keys in that Redis are not removed.
func RealOn(t testing.TB, use func(*config.Redis)) *Env {
	t.Helper()
	return Open(t, realConfig(t, use))
}

// Open opens the stores of RealConfig's settings, which the test may have changed, and
// migrates the schema.
func Open(t testing.TB, env *Env) *Env {
	t.Helper()
	s, err := stores.Open(context.Background(), env.Config, env.Clock.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(t, s) })
	if _, err := s.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	env.Stores = s
	return env
}

// RealConfig is Real without connections and migrations: the schema is empty.
func RealConfig(t testing.TB) *Env {
	t.Helper()
	env := realConfig(t, func(cfg *config.Redis) { cfg.Addrs = []string{environment(t, "TEST_REDIS_ADDR")} })
	cfg := env.Config.Redis // the test may change its own
	t.Cleanup(func() { DeleteKeys(t, cfg) })
	return env
}

// unlimited returns the default settings without limits of calls, which tests
// exceed, and with little memory for users: many services run at the same time, and the
// race detector multiplies what each allocates.
func unlimited() config.Config {
	cfg := config.Default()
	cfg.Directory.Memory = 4 << 20
	cfg.Limits = config.Limits{}
	return cfg
}

func realConfig(t testing.TB, use func(*config.Redis)) *Env {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	cfg := unlimited()
	use(&cfg.Redis)
	cfg.Redis.KeyPrefix = name + ":"
	dsn := environment(t, "TEST_POSTGRES_DSN")
	cfg.Postgres.DSN = WithParameter(dsn, "search_path", name)
	cfg.Postgres.MaxConns = 32
	execute(t, dsn, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, dsn, "DROP SCHEMA "+name+" CASCADE") })
	return &Env{Keys: keys.Builder{Prefix: cfg.Redis.KeyPrefix}, Config: cfg, Clock: NewClock(Noon), Log: Log()}
}

// Log returns a logger that discards everything.
func Log() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment returns a variable that must be set.
func environment(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the tests with make test, which starts the servers", name)
	}
	return value
}

// WithParameter returns the DSN, a URL, with another value of a parameter of its connections.
func WithParameter(dsn, name, value string) string {
	u := Must(url.Parse(dsn))
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Address returns the address of the DSN's server.
func Address(dsn string) string {
	c := Must(pgconn.ParseConfig(dsn))
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// WithAddress returns the DSN, a URL, with another address.
func WithAddress(dsn, addr string) string {
	u := Must(url.Parse(dsn))
	u.Host = addr
	return u.String()
}

// execute runs one statement outside every test's schema.
func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	db := Must(sql.Open("pgx", dsn))
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		_, err := db.ExecContext(context.Background(), statement)
		// The session of a process that was cut off or killed may still be at work.
		if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code == "40P01" {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		return
	}
}

// DeleteKeys deletes the test's keys from a Redis that keeps running.
func DeleteKeys(t testing.TB, cfg config.Redis) {
	t.Helper()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: cfg.Addrs[0]})
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	iter := rdb.Scan(ctx, 0, cfg.KeyPrefix+"*", 1000).Iterator()
	for iter.Next(ctx) {
		if err := rdb.Unlink(ctx, iter.Val()).Err(); err != nil {
			t.Error(err)
		}
	}
	if err := iter.Err(); err != nil {
		t.Error(err)
	}
}

func closeQuietly(t testing.TB, s *stores.Stores) {
	t.Helper()
	if err := s.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Errorf("close stores: %v", err)
	}
}

// Bucket returns the bucket of 2026-11-20 for tests that need no catalog.
func Bucket(shards int) *models.Bucket {
	start := time.Date(2026, 11, 19, 16, 0, 0, 0, time.UTC)
	return &models.Bucket{
		Board: "steps", Name: "20261120",
		StartsAt: start, EndsAt: start.Add(24 * time.Hour), ClosesAt: start.Add(72 * time.Hour),
		TickMS: 1, TimeBits: 28, MaxScore: 100_000, Order: models.OrderHigh, Shards: shards,
		Day: models.DateOf(start.Add(24 * time.Hour)), ColdAt: start.Add(4 * 24 * time.Hour),
	}
}

// shutdownTime is the time that a failed wait leaves for ending the test's
// servers. At its deadline, go test panics, and they would keep running.
const shutdownTime = 20 * time.Second

// untilDeadline returns a context that ends with the test, or shutdownTime
// before the test's deadline if it has one.
func untilDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-shutdownTime))
		}
	}
	return context.WithCancel(t.Context())
}

// Available calls fn again, as a client would, until its error is no CodeUnavailable: a
// busy machine may make a call last longer than its time limit. It fails the test
// shutdownTime before its deadline.
func Available[T any](t testing.TB, fn func() (T, error)) (T, error) {
	t.Helper()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	for {
		v, err := fn()
		if models.CodeOf(err) != models.CodeUnavailable || ctx.Err() != nil {
			return v, err
		}
	}
}

// Background runs something until the test ends, and then waits for it.
func Background(t testing.TB, run func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// Eventually waits until the condition holds. It fails shutdownTime before the
// test's own deadline. It asks less and less often, so that long waits leave the cores to
// those who are waited for.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	for pause := time.Millisecond; !condition(); pause = min(pause*5/4, 20*time.Millisecond) {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(pause):
		}
	}
}

// Receive returns the next value of a channel, or the zero value if it is closed. It fails
// shutdownTime before the test's own deadline, and may be called while the test is cleaned up.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	var over <-chan time.Time
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			over = time.After(time.Until(deadline) - shutdownTime)
		}
	}
	select {
	case v = <-from:
	case <-over:
		t.Fatalf("never: %s", what)
	}
	return v
}

// Wait waits for goroutines, as Receive does.
func Wait(t testing.TB, what string, running *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	Receive(t, what, done)
}

// Must returns the value of a call that can't fail while a test is set up.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("setting up: %v", err))
	}
	return value
}

// Finisher makes events final. Implemented by catalog.Buckets.
type Finisher interface {
	Finish(ctx context.Context) (int64, error)
	Load(ctx context.Context, board, name string) (*models.Bucket, error)
}

// Finish makes a bucket final if it is an event's and has closed.
func Finish(t testing.TB, buckets Finisher, b *models.Bucket) {
	t.Helper()
	Must(buckets.Finish(t.Context()))
	*b = *Must(buckets.Load(t.Context(), b.Board, b.Name))
}
