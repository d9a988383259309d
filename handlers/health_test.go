package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/handlers"
)

// Probes of the last second share an answer, and those that were given up are no failures of a
// store.
func TestProbesShareAnAnswer(t *testing.T) {
	t.Parallel()
	var checks atomic.Int64
	var log bytes.Buffer
	api := newAPI(t, handlers.Config{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Ready: func(ctx context.Context) handlers.Readiness {
			checks.Add(1)
			return handlers.Readiness{Stores: map[string]error{"redis": ctx.Err()}}
		},
		ProbesOnly: true,
	})
	begin := time.Now()
	for range 1000 {
		ctx, giveUp := context.WithCancel(t.Context())
		giveUp()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n, most := checks.Load(), 1+int64(time.Since(begin)/time.Second); n > most || log.Len() > 0 {
		t.Errorf("%d checks, %d bytes of log", n, log.Len())
	}
}

// A process may be stopped while it checks, after it has looked at a part: what it has seen is as old as the check then.
func TestAnAnswerIsAsOldAsItsCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		checks := 0
		api := newAPI(t, handlers.Config{
			Ready: func(context.Context) handlers.Readiness {
				checks++
				<-time.After(1500 * time.Millisecond)
				return handlers.Readiness{Stores: map[string]error{"redis": nil}}
			},
			ProbesOnly: true,
		})
		for want := range 3 {
			if send(t, api, "", "GET /readyz", ""); checks != want+1 {
				t.Errorf("%d checks, not %d", checks, want+1)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		redis    error
		degraded map[string]error
		ready    string
		logged   string
	}{
		{"every store answers", nil, nil, `200 {"checks":{"postgres":"ok","redis":"ok"},"status":"ok"}`, ""},
		{"Redis is away", errors.New("connection refused"), nil, `503 {"checks":{"postgres":"ok","redis":"unavailable"},"status":"unavailable"}`, "store=redis error=\"connection refused\""},
		{
			"some work is refused", nil, map[string]error{"jobs": errors.New("busy"), "friends": errors.New("busy")},
			`200 {"checks":{"postgres":"ok","redis":"ok"},"degraded":["friends","jobs"],"status":"ok"}`, "work=friends error=busy",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			config := handlers.Config{
				Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Ready: func(ctx context.Context) handlers.Readiness {
					// The deadline of every request is later.
					if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*time.Second {
						t.Errorf("the check has the deadline %v", deadline)
					}
					return handlers.Readiness{Stores: map[string]error{"redis": tt.redis, "postgres": nil}, Degraded: tt.degraded}
				},
				ProbesOnly: true,
			}
			api := newAPI(t, config)
			if got := describe(t, send(t, api, "", "GET /healthz", "")); got != `200 {"status":"ok"}` {
				t.Errorf("healthz: %s", got)
			}
			if got := describe(t, send(t, api, "", "GET /readyz", "")); got != tt.ready {
				t.Errorf("readyz: %s, want %s", got, tt.ready)
			}
			if got := send(t, api, "", "HEAD /healthz", "").Code; got != 200 {
				t.Errorf("HEAD: %d", got)
			}
			if !strings.Contains(log.String(), tt.logged) {
				t.Errorf("the log lacks %s:\n%s", tt.logged, log.String())
			}
			// Nothing but probes and metrics.
			for _, path := range []string{"/v1/boards", "/", "/openapi.json"} {
				if got := send(t, api, "1", "GET "+path, "").Code; got != 404 {
					t.Errorf("%s: %d", path, got)
				}
			}
			if got := send(t, api, "", "GET /metrics", ""); got.Code != 200 || !strings.Contains(got.Body.String(), `route="/readyz"`) {
				t.Errorf("metrics: %d %s", got.Code, got.Body)
			}
		})
	}
}
