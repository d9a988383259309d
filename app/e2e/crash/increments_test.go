package crash_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// openStores connects to servers of the test.
func openStores(t testing.TB, cfg config.Config) *stores.Stores {
	t.Helper()
	st, err := stores.Open(t.Context(), cfg, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// withPostgres returns the settings of processes that use a Postgres of the test, with the
// schema. They have no connections.
func withPostgres(t testing.TB) (*testenv.Env, *postgresServer) {
	t.Helper()
	env := harness.RealConfig(t)
	server := startPostgres(t)
	env.Config.Postgres.DSN = server.DSN()
	if _, stderr, status := testenv.Run(t, append([]string{"migrate", "up"}, testenv.Flags(env.Config)...)...); status != 0 {
		t.Fatal(stderr)
	}
	return env, server
}

// withRedis returns an environment with a Redis of its own, and a client of that Redis.
func withRedis(t testing.TB) (*testenv.Env, *testenv.RedisServer, *redis.Client) {
	t.Helper()
	env := harness.Real(t)
	server := testenv.StartRedis(t)
	server.Use(&env.Config.Redis)
	return env, server, harness.RedisClient(t, server)
}

// A process is killed between the commit of increments and the write to Redis,
// again and again. Nothing is lost or doubled: not in Postgres, and not on the
// boards, which the reconciler repairs.
func TestSoakIncrementsSurviveKills(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	real := env.Config
	proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	env.Config.Redis.Addrs = []string{proxy.Addr()}
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	for round := range testenv.Rounds(4, 50) {
		g.awaitMore(20)
		// In turns before the write to either board, and before its answer.
		switch round % 4 {
		case 0, 1:
			proxy.HoldAt(0, []string{"zadd", "{active.00}:live"}[round%4])
		default:
			proxy.HoldReply([]string{":", "*"}[round%2])
		}
		testenv.Eventually(t, "a write to a board is held", func() bool { return proxy.Holding() })
		p.Kill()
		proxy.Cut()
		proxy.Start()
		p = testenv.Serve(t, env.Config, boards)
		g.redirect(p.URL)
	}
	g.awaitMore(20)
	g.end()
	env.Config = real
	g.check(env.Stores, env.Keys)
	p.Stop()
}

// The boards' Redis is emptied, and restarted without the end of its log, under
// load. Both boards are filled again.
func TestIncrementsFillAnEmptyRedis(t *testing.T) {
	t.Parallel()
	env, server, rdb := withRedis(t)
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	st := &stores.Stores{Redis: rdb, Database: env.Database}
	for range testenv.Rounds(1, 10) {
		g.awaitMore(30)
		harness.AwaitCheckpoint(t, rdb, env.Keys, "ledger")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		g.awaitMore(30)
		harness.AwaitCheckpoint(t, rdb, env.Keys, "ledger")
		server.Kill()
		server.Forget(5000)
		server.Start()
		g.awaitMore(30)
	}
	g.end()
	g.check(st, env.Keys)

	// The rebuild command does the same while no process serves.
	p.Stop()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(env.Config)...), boards)...)
	if status != 0 || !strings.Contains(stdout, " totals applied again") {
		t.Errorf("rebuild: %d %q %q", status, stdout, stderr)
	}
	g.check(st, env.Keys)
}

// Postgres crashes under load and recovers. Acknowledged increments are stored;
// others are sent again and counted once.
func TestIncrementsSurviveAPostgresRestart(t *testing.T) {
	t.Parallel()
	env, server := withPostgres(t)
	boards := giftBoards(2)
	p := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, p.URL)
	for range testenv.Rounds(2, 10) {
		g.awaitMore(30)
		server.Crash()
		server.Start()
	}
	g.awaitMore(30)
	g.end()
	st := openStores(t, env.Config)
	g.check(st, env.Keys)
	p.Stop()
}
