// Package testenv gives tests real stores, each test its own part of them: a
// key prefix in Redis and a schema in Postgres.
package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
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

// Clock is a clock that a test sets. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that stands still at the given moment.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is a models.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }

// Noon is when most tests happen: 2026-11-20 13:00 UTC, 21:00 in Shanghai.
var Noon = time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)

// Env is one test's part of the stores.
type Env struct {
	*stores.Stores
	// Keys has the test's prefix.
	Keys keys.Builder
	// Config connects to the same part of the same servers; without servers
	// (embedded) it has no address.
	Config config.Config
	Clock  *Clock
	Log    *slog.Logger
}

// Each runs a test against the real stores and against the embedded ones.
func Each(t *testing.T, test func(*testing.T, *Env)) {
	t.Helper()
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, Real(t))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, Embedded(t))
	})
}

// Embedded opens embedded stores for the test.
func Embedded(t testing.TB) *Env {
	t.Helper()
	clock := NewClock(Noon)
	s, err := stores.OpenEmbedded(context.Background(), clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(t, s) })
	return &Env{Stores: s, Config: config.Default(), Clock: clock, Log: Log()}
}

// Real opens the test's part of the servers named by TEST_REDIS_ADDR and
// TEST_POSTGRES_DSN, which `make test` starts.
func Real(t testing.TB) *Env {
	t.Helper()
	return open(t, RealConfig(t))
}

// RealOn opens the test's part of the Postgres and of another Redis, which use
// makes the settings connect to. What is in that one stays.
func RealOn(t testing.TB, use func(*config.Redis)) *Env {
	t.Helper()
	return open(t, realConfig(t, use))
}

func open(t testing.TB, env *Env) *Env {
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

// RealConfig makes the test's part of the servers without connecting to it:
// the schema is empty.
func RealConfig(t testing.TB) *Env {
	t.Helper()
	env := realConfig(t, func(cfg *config.Redis) { cfg.Addrs = []string{need(t, "TEST_REDIS_ADDR")} })
	cfg := env.Config.Redis // the test may change its own
	t.Cleanup(func() { removeKeys(t, cfg) })
	return env
}

func realConfig(t testing.TB, use func(*config.Redis)) *Env {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text()[:12])
	cfg := config.Default()
	use(&cfg.Redis)
	cfg.Redis.KeyPrefix = name + ":"
	dsn := need(t, "TEST_POSTGRES_DSN")
	cfg.Postgres.DSN = WithSchema(dsn, name)
	cfg.Postgres.MaxConns = 8
	execute(t, dsn, "CREATE SCHEMA "+name)
	t.Cleanup(func() { execute(t, dsn, "DROP SCHEMA "+name+" CASCADE") })
	return &Env{Keys: keys.Builder{Prefix: cfg.Redis.KeyPrefix}, Config: cfg, Clock: NewClock(Noon), Log: Log()}
}

// Log drops what is logged.
func Log() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func need(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the tests with make test, which starts the servers", name)
	}
	return value
}

// WithSchema is the DSN with another search path.
func WithSchema(dsn, schema string) string {
	if !strings.Contains(dsn, "://") {
		return dsn + " search_path=" + schema
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // the server will say so
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// Address is where the DSN's server listens.
func Address(t testing.TB, dsn string) string {
	t.Helper()
	c, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
}

// WithAddress is the DSN with another address.
func WithAddress(t testing.TB, dsn, addr string) string {
	t.Helper()
	if strings.Contains(dsn, "://") {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = addr
		return u.String()
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return dsn + " host=" + host + " port=" + port
}

// execute runs one statement outside of every test's schema.
func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// removeKeys leaves a server that runs on as it was.
func removeKeys(t testing.TB, cfg config.Redis) {
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

// Bucket is a bucket for tests that need no catalog.
func Bucket(shards int) *models.Bucket {
	start := time.Date(2026, 11, 19, 16, 0, 0, 0, time.UTC)
	return &models.Bucket{
		Board: "steps", Name: "20261120",
		StartsAt: start, EndsAt: start.Add(24 * time.Hour), ClosesAt: start.Add(72 * time.Hour),
		TickMS: 1, TimeBits: 28, MaxScore: 100_000, Shards: shards,
		Day: models.DateOf(start.Add(24 * time.Hour)), ColdAt: start.Add(4 * 24 * time.Hour),
	}
}

// endingTime is what a test that waited in vain has left to end its servers.
// At its deadline go test panics, and they would stay.
const endingTime = 20 * time.Second

// patience ends endingTime before the test's own deadline, if it has one, and
// with the test.
func patience(t testing.TB) (context.Context, context.CancelFunc) {
	if test, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := test.Deadline(); ok {
			return context.WithDeadline(t.Context(), deadline.Add(-endingTime))
		}
	}
	return context.WithCancel(t.Context())
}

// Eventually waits until a condition holds, and fails a little before the
// test's own deadline.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := patience(t)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Must is for calls of a test's setting-up that can't fail.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("setting up: %v", err))
	}
	return value
}
