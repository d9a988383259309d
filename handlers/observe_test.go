package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/handlers"
	"stepboard/services/rankings/ranking"
)

func registry() *prometheus.Registry { return prometheus.NewRegistry() }

// brokenHistory is a fake handlers.HistoryService that panics, or checks its
// context.
type brokenHistory struct{ check func(context.Context) }

func (s brokenHistory) History(ctx context.Context, _ ranking.HistoryQuery) (*ranking.History, error) {
	s.check(ctx)
	return &ranking.History{}, nil
}

func (brokenHistory) DaySums(context.Context, ranking.HistoryQuery, int64) (ranking.DaySums, error) {
	return ranking.DaySums{}, nil
}

const oneHistory = "GET /v1/boards/steps/history"

// logged sends a request and returns the lines of the log, decoded.
func logged(t *testing.T, config handlers.Config, request string, headers ...string) (status int, lines []map[string]any) {
	t.Helper()
	var log bytes.Buffer
	config.Log = slog.New(slog.NewJSONHandler(&log, nil))
	_, path, _ := strings.Cut(request, " ")
	got := get(t, newAPI(t, config), path, append([]string{"Authorization", "Bearer 1001"}, headers...)...)
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines = append(lines, fields)
	}
	return got.Code, lines
}

// has reports whether a line of the log has these fields, given as name and
// value in turn.
func has(line map[string]any, fields ...any) bool {
	for i := 0; i < len(fields); i += 2 {
		if line[fields[i].(string)] != fields[i+1] {
			return false
		}
	}
	return true
}

func TestOneLogLineForEachRequest(t *testing.T) {
	t.Parallel()
	ok := handlers.Config{History: history{&recorder{}}}
	status, lines := logged(t, ok, oneHistory, "X-Request-Id", "abc")
	if status != 200 || len(lines) != 1 || !has(lines[0], "level", "INFO", "msg", "request", "request_id", "abc", "method", "GET",
		"route", "/v1/boards/:board/history", "status", 200.0) {
		t.Errorf("a request that succeeds: %d %v", status, lines)
	}
	failing := handlers.Config{History: history{&recorder{err: errUnknown}}}
	status, lines = logged(t, failing, oneHistory)
	if status != 500 || len(lines) != 1 || !has(lines[0], "level", "ERROR", "status", 500.0, "code", "internal", "error", "secret") {
		t.Errorf("one that fails: %d %v", status, lines)
	}
	// An error of the client is logged by its code alone: its text may name people.
	status, lines = logged(t, ok, oneHistory+"?for=ann+b")
	if status != 422 || len(lines) != 1 || !has(lines[0], "level", "INFO", "code", "validation_failed", "error", nil) {
		t.Errorf("one that is refused: %d %v", status, lines)
	}
	status, lines = logged(t, ok, "GET /nothing")
	if status != 404 || len(lines) != 1 || !has(lines[0], "route", "none", "code", "not_found") {
		t.Errorf("an unknown path: %d %v", status, lines)
	}
}

// A request id that does not fit in a log line is replaced.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{})
	for id, kept := range map[string]bool{
		"a": true, strings.Repeat("~", 64): true, strings.Repeat("a", 65): false, "": false, "a b": false, "é": false,
	} {
		got := get(t, api, "/healthz", "X-Request-Id", id).Header().Get("X-Request-Id")
		if got == "" || (got == id) != kept {
			t.Errorf("%q becomes %q", id, got)
		}
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	config := handlers.Config{History: brokenHistory{func(context.Context) { panic("secret") }}}
	status, lines := logged(t, config, oneHistory)
	if status != 500 || len(lines) != 2 || !has(lines[0], "level", "ERROR", "msg", "panic", "panic", "secret") ||
		!has(lines[1], "msg", "request", "status", 500.0) {
		t.Errorf("answered %d, logged %v", status, lines)
	}
	got := send(t, newAPI(t, config), "1001", oneHistory, "")
	if text := describe(t, got); text != wantInternal {
		t.Errorf("answered %s", text)
	}
}

func TestRequestsHaveADeadline(t *testing.T) {
	t.Parallel()
	called := false
	config := handlers.Config{History: brokenHistory{func(ctx context.Context) {
		_, called = ctx.Deadline()
	}}}
	if got := send(t, newAPI(t, config), "1001", oneHistory, ""); got.Code != 200 || !called {
		t.Errorf("answered %d; the service had a deadline: %v", got.Code, called)
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{History: history{&recorder{}}})
	for path, cache := range map[string]string{
		"/v1/boards/steps/history": "no-store", "/v1/boards/steps/nix": "no-store", "/v1/nix": "no-store",
		"/healthz": "", "/metrics": "", "/nix": "", "/openapi.json": "", "/": "no-cache", "/docs": "no-cache",
	} {
		got := get(t, api, path, "Authorization", "Bearer 1001").Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": cache,
		} {
			if values := got.Values(name); len(values) > 1 || got.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, values, want)
			}
		}
		policy := got.Get("Content-Security-Policy")
		if path == oneHistory[len("GET "):] && policy != "default-src 'none'; frame-ancestors 'none'" ||
			!strings.Contains(policy, "default-src '") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s has policy %q", path, policy)
		}
	}
}

// Metrics with an address of their own are not served beside the API.
func TestMetricsElsewhere(t *testing.T) {
	t.Parallel()
	for elsewhere, want := range map[bool]int{false: 200, true: 404} {
		api := newAPI(t, handlers.Config{MetricsElsewhere: elsewhere})
		if got := get(t, api, "/metrics").Code; got != want {
			t.Errorf("elsewhere %v: %d, want %d", elsewhere, got, want)
		}
		if got := get(t, api, "/healthz").Code; got != 200 {
			t.Errorf("elsewhere %v: health is %d", elsewhere, got)
		}
	}
}
