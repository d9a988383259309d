package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// With an address of their own, metrics are served there only. Probes are served there, too, and
// find an answer while strangers have all connections of the API, those for probes included.
func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	const most = 5
	env := testenv.RealConfig(t)
	env.Config.Auth.HS256Secret = harness.Secret
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
	process := testenv.Serve(t, env.Config, "--http.metrics_addr="+addr, "--postgres.auto_migrate", fmt.Sprintf("--http.max_connections=%d", most))
	for url, want := range map[string]int{
		"http://" + addr + "/metrics": http.StatusOK, "http://" + addr + "/healthz": http.StatusOK,
		"http://" + addr + "/v1/boards": http.StatusNotFound,
		process.URL + "/metrics":        http.StatusNotFound, process.URL + "/healthz": http.StatusOK,
	} {
		if got := status(t, url); got != want {
			t.Errorf("%s: %d, want %d", url, got, want)
		}
	}
	silent := make([]net.Conn, most+16+1)
	for i := range silent {
		silent[i] = testenv.Must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(process.URL, "http://")))
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := status(t, "http://"+addr+path); got != http.StatusOK {
			t.Errorf("%s beside silent connections: %d", path, got)
		}
	}
	health := []string{"health", "--http.addr=" + strings.TrimPrefix(process.URL, "http://"), "--http.metrics_addr=" + addr, "--http.tls_cert=none", "--http.tls_key=none"}
	if stdout, stderr, code := testenv.Run(t, health...); code != 0 || !strings.Contains(stdout, "postgres") {
		t.Errorf("the health command: status %d, %q %q", code, stdout, stderr)
	}
	for _, c := range silent {
		_ = c.Close()
	}
	process.Stop()
}

func status(t *testing.T, url string) int {
	t.Helper()
	res, err := http.DefaultClient.Do(testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return res.StatusCode
}

// The metrics describe the connections of each kind of work, waiting callers
// included. Background work looks things up, too, so its share of the totals is
// unknown.
func TestPostgresPoolMetrics(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	figures := func() map[string]float64 {
		text := string(s.call("", "GET", "/metrics", nil).body)
		if strings.Contains(text, "go_sql_") {
			t.Error("the metrics tell of a pool that keeps no connections")
		}
		values := make(map[string]float64)
		for _, m := range regexp.MustCompile(`(?m)^stepboard_postgres_pool_(\w+){work="lookups"} (\S+)$`).FindAllStringSubmatch(text, -1) {
			values[m[1]] = testenv.Must(strconv.ParseFloat(m[2], 64))
		}
		return values
	}
	before := figures()

	limit := (env.Config.Postgres.MaxConns + 2) / 5
	for range limit {
		conn := testenv.Must(env.Pool.Acquire(t.Context()))
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := env.Pool.Acquire(ctx); err == nil {
		t.Fatal("the pool has no limit")
	}

	after := figures()
	all := float64(limit)
	for name, want := range map[string]float64{
		"max_connections": all, "connections": all, "acquired_connections": all, "idle_connections": 0,
		// The test holds every connection, so nobody else acquires one meanwhile.
		"acquires_total": float64(env.Pool.Stat().AcquireCount()),
	} {
		if got, ok := after[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, least := range map[string]float64{"acquires_total": all, "canceled_acquires_total": 1} {
		if grown := after[name] - before[name]; grown < least {
			t.Errorf("%s grew by %v, want at least %v", name, grown, least)
		}
	}
	for _, name := range []string{"empty_acquires_total", "acquire_wait_seconds_total"} {
		if after[name] <= before[name] {
			t.Errorf("%s was %v, is %v", name, before[name], after[name])
		}
	}
}
