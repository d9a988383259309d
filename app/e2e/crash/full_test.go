package crash_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// Postgres's disk is full under load. Increments are refused, uploads go on, and the same
// process goes on when there is room again. Nothing that was acknowledged is lost, and
// nothing counts twice.
func TestSoakPostgresDiskFull(t *testing.T) {
	t.Parallel()
	if !testenv.AllForms() {
		t.Skip("takes minutes; make soak runs it")
	}
	env, server := withPostgres(t)
	const limit = 1 << 20
	st := openStores(t, env.Config)
	// Increments of another board make the table larger than the limit.
	if _, err := st.Pool.Exec(t.Context(), `INSERT INTO score_events
		SELECT 'another', n, 'event', 1, 1, now(), 1, now() FROM generate_series(1, 20000) n`); err != nil {
		t.Fatal(err)
	}
	p := testenv.Serve(t, env.Config, giftBoards(2))
	g, u := startGivers(t, p.URL), upload(t, p.URL, harness.Today())
	for range testenv.Rounds(1, 5) {
		g.awaitMore(30)
		u.AwaitMore(t, 50)
		server.LimitFiles(limit)
		refused := g.refused.Load()
		testenv.Eventually(t, "increments are refused", func() bool { return g.refused.Load() >= refused+20 || t.Failed() })
		u.AwaitMore(t, 50)
		server.LimitFiles(0)
		g.awaitMore(30)
	}
	g.end()
	u.End()
	g.check(st, env.Keys)
	env.Stores = st
	u.Check(t, env, st.Redis)
	p.Stop()
}

// Redis has reached maxmemory under load. Uploads are refused, and increments are counted. When
// it has memory again, the boards show everything that was acknowledged.
func TestSoakRedisMemoryFull(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	env, server, rdb := withRedis(t)
	p := testenv.Serve(t, env.Config, giftBoards(2))
	g, u := startGivers(t, p.URL), upload(t, p.URL, harness.Today())
	for range testenv.Rounds(1, 10) {
		g.awaitMore(30)
		u.AwaitMore(t, 50)
		server.LimitMemory(1)
		_, refused := u.Counts()
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.Counts(); return n >= refused+50 || t.Failed() })
		g.awaitMore(30)
		server.LimitMemory(0)
		u.AwaitMore(t, 50)
	}
	g.end()
	u.End()
	g.check(&stores.Stores{Redis: rdb, Database: env.Database}, env.Keys)
	u.Check(t, env, rdb)
	p.Stop()
}

// Other clients take all connections of Postgres, and the service loses its own, under load.
// Increments are refused, uploads go on, and the same process goes on when there are
// connections again.
func TestSoakPostgresConnectionsTaken(t *testing.T) {
	t.Parallel()
	if !testenv.AllForms() {
		t.Skip("takes minutes; make soak runs it")
	}
	env, server := withPostgres(t)
	others := openOthers(t, env.Config.Postgres.DSN, 1)
	for _, setting := range []string{"max_connections = 40", "superuser_reserved_connections = 0"} {
		if _, err := others[0].Exec(t.Context(), "ALTER SYSTEM SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	server.Crash()
	server.Start()
	p := testenv.Serve(t, env.Config, giftBoards(2))
	g, u := startGivers(t, p.URL), upload(t, p.URL, harness.Today())
	for range testenv.Rounds(1, 10) {
		g.awaitMore(30)
		u.AwaitMore(t, 50)
		refused := g.refused.Load()
		others = openOthers(t, env.Config.Postgres.DSN, 40)
		testenv.Eventually(t, "increments are refused", func() bool {
			if _, err := others[0].Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE backend_type = 'client backend' AND application_name <> 'others'`); err != nil {
				t.Fatal(err)
			}
			others = append(others, openOthers(t, env.Config.Postgres.DSN, 40)...)
			return g.refused.Load() >= refused+20 || t.Failed()
		})
		u.AwaitMore(t, 50)
		for _, conn := range others {
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		g.awaitMore(30)
	}
	g.end()
	u.End()
	st := openStores(t, env.Config)
	g.check(st, env.Keys)
	env.Stores = st
	u.Check(t, env, st.Redis)
	p.Stop()
}

// openOthers opens up to n connections to Postgres, as many as it accepts.
func openOthers(t testing.TB, dsn string, n int) (others []*pgx.Conn) {
	t.Helper()
	cfg := testenv.Must(pgx.ParseConfig(dsn))
	cfg.RuntimeParams["application_name"] = "others"
	for range n {
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // closed already, unless the test has failed
		others = append(others, conn)
	}
	return others
}

// A Redis that has reached maxmemory does not fill the log: however many uploads meet it, a
// warning has a line where it begins, and one with the count. Each request has its line.
func TestAFullRedisDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	env, server, _ := withRedis(t)
	p := testenv.Serve(t, env.Config)
	server.LimitMemory(1)
	const uploads = 100
	body := `{"date":"` + harness.Today() + `","score":1}`
	for n := range uploads {
		harness.Call(t, p, harness.Token(t, testenv.ID(n+1), ""), "POST", "/v1/boards/steps/scores", body, http.StatusServiceUnavailable)
	}
	p.Stop()
	lines, counted, requests := make(map[string]int), 0, 0
	for text := range strings.Lines(p.Log()) {
		var line struct {
			Level, Msg, Kind, Store, Work, Job string
			Repeated                           int
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		switch {
		case line.Msg == "request":
			requests++
			continue
		case line.Level == "INFO":
			continue
		}
		lines[strings.Join([]string{line.Msg, line.Kind, line.Store, line.Work, line.Job}, " ")]++
		counted = max(counted, line.Repeated)
	}
	for line, n := range lines {
		if n > 2 {
			t.Errorf("%d lines: %s", n, line)
		}
	}
	if counted < uploads-1 || requests < uploads {
		t.Errorf("a warning was repeated %d times, and there are %d lines of requests: %s", counted, requests, p.Log())
	}
}
