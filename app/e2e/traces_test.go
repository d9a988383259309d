package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

const rankingSpan = "GET /v1/boards/:board/friends"

// One trace shows everything that a ranking has waited for.
func TestTraceOfAFriendRanking(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	answers := []answer{}
	for range 2 { // for the first one, Redis has no friend set
		a := s.as("1", "GET", "/v1/boards/steps/friends", nil)
		s.want(a, http.StatusOK, nil)
		answers = append(answers, a)
	}
	s.stop()

	rankings := c.named(rankingSpan)
	if len(rankings) != 2 {
		t.Fatalf("%d spans of rankings", len(rankings))
	}
	for i, span := range rankings {
		names := c.children(span)
		for _, want := range []string{"smembers", "zmscore"} {
			if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(strings.Fields(name), want) }) {
				t.Errorf("ranking %d: no %s in %v", i, want, names)
			}
		}
		if missed := slices.Contains(names, "query SELECT"); missed != (i == 0) {
			t.Errorf("ranking %d: Postgres was asked: %v: %v", i, missed, names)
		}
		id := answers[i].header.Get("X-Request-Id")
		if span.Kind != tracepb.Span_SPAN_KIND_SERVER || len(span.ParentSpanId) != 0 || attributeOf(span, "request_id") != id ||
			attributeOf(span, "http.response.status_code") != "200" || attributeOf(span, "http.route") != "/v1/boards/:board/friends" {
			t.Errorf("ranking %d: %v", i, span)
		}
		logged := s.log.containing(id)
		var line struct {
			TraceID string `json:"trace_id"`
		}
		if len(logged) != 1 || json.Unmarshal([]byte(logged[0]), &line) != nil || line.TraceID != fmt.Sprintf("%x", span.TraceId) {
			t.Errorf("ranking %d: trace %x, log %q", i, span.TraceId, logged)
		}
	}
	sql := c.named("query SELECT")
	if !slices.ContainsFunc(sql, func(s *tracepb.Span) bool { return strings.Contains(attributeOf(s, "db.query.text"), "$1") }) {
		t.Errorf("statements: %v", sql)
	}
}

// Uploads are written together, in a trace of their own. Probes, pages, streams
// and background work outside jobs are not traced.
func TestWhatBeginsATrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":5000}`), http.StatusOK, nil)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/", "/openapi.json"} {
		s.want(s.call("", "GET", path, nil), http.StatusOK, nil)
	}
	s.refuse(s.call("", "GET", "/v1/nothing/1001", nil), http.StatusNotFound, models.CodeNotFound)
	s.refuse(s.as("1", "GET", "/v1/boards/none/friends/stream", nil), http.StatusNotFound, models.CodeBoardNotFound)
	testenv.Eventually(t, "the jobs of the start have run", func() bool { return len(s.log.containing(`"job":"archive"`)) > 0 })
	s.stop()

	flushes := c.named("flush")
	if len(flushes) != 1 || attributeOf(flushes[0], "updates") != "1" || len(c.children(flushes[0])) == 0 {
		t.Errorf("flushes: %v", flushes)
	}
	for _, span := range c.spans {
		if len(span.ParentSpanId) == 0 && span.Name != "POST /v1/boards/:board/scores" && span.Name != "flush" && !strings.HasPrefix(span.Name, "job ") {
			t.Errorf("%s begins a trace", span.Name)
		}
	}
	if len(c.named("job archive")) == 0 {
		t.Error("no job is traced")
	}
}

// Traces contain no user id, token, address or name.
func TestTracesHoldNothingPersonal(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	const user, friend = 7731984650213, 7731984650777
	signed := harness.Token(t, testenv.ID(user), "")
	s.want(s.service("PUT", fmt.Sprintf("/v1/users/%d/friends", user), fmt.Sprintf(`{"friend_ids":["%d"]}`, friend)), http.StatusOK, nil)
	calls := []struct{ method, path, body string }{
		{"PUT", "/v1/me", `{"nickname":"Wilhelmina","avatar_url":"https://example.com/wilhelmina.png"}`},
		{"POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":5000}`},
		{"GET", "/v1/boards/steps/friends", ""},
		{"GET", "/v1/boards/steps/friends?date=2016-04-12", ""}, // archived days are in Postgres
		{"GET", "/v1/boards/steps/history", ""},
		{"GET", "/v1/boards/steps/me", ""},
		{"GET", "/v1/boards/7731984650213/friends", ""},
		{"GET", "/v1/boards/steps/friends?user_id=7731984650213", ""},
		{"DELETE", "/v1/friends/7731984650777", ""},
		{"POST", "/v1/friends/requests", `{"user_id":"7731984650777"}`},
	}
	for _, call := range calls {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), call.method, s.url+call.path, strings.NewReader(call.body)))
		r.Host = "wilhelmina.example:7731"
		r.Header.Set("Authorization", "Bearer "+signed)
		r.Header.Set("User-Agent", "Wilhelmina")
		r.Header.Set("X-Forwarded-For", "203.0.113.77")
		r.Header.Set("Baggage", "user=7731984650213")
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		r.Header.Set("Tracestate", "app=7731984650213")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Error(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d", call.method, call.path, res.StatusCode)
		}
	}
	// Libraries record a store's error like this.
	_, span := s.traces.Provider().Tracer("test").Start(t.Context(), "failed", trace.WithAttributes(attribute.String("db.statement", "GET 7731984650213")))
	span.RecordError(errors.New("no such key: 7731984650213"))
	span.SetStatus(codes.Error, "no such key: 7731984650213")
	span.End()
	s.stop()

	if len(c.named(rankingSpan)) < 3 || len(c.named("query SELECT")) == 0 || len(c.named("failed")) != 1 {
		t.Errorf("too few spans to tell: %d", len(c.spans))
	}
	sent := strings.ToLower(string(c.bytes))
	for _, secret := range []string{"7731984650213", "7731984650777", "7731", "wilhelmina", "203.0.113.77", "127.0.0.1:", strings.ToLower(signed), strings.ToLower(signed[:20])} {
		if at := strings.Index(sent, secret); at >= 0 {
			t.Errorf("%q was sent: %q", secret, sent[max(0, at-60):min(len(sent), at+60)])
		}
	}
}

// The service decides how many calls are traced. A client can neither force nor
// prevent that its calls are.
func TestTraceRatio(t *testing.T) {
	t.Parallel()
	const calls = 400
	tests := []struct {
		name        string
		ratio       float64
		traceparent string
		least, most int
	}{
		{"all", 1, "", calls, calls},
		{"half", 0.5, "", calls / 4, calls * 3 / 4},
		{"nearly none", 1e-12, "", 0, 0},
		{"the caller's is sampled", 1e-12, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 0, 0},
		{"the caller's id is low", 1e-12, "00-00000000000000000000000000000001-b7ad6b7169203331-01", 0, 0},
		{"the caller's is not sampled", 1, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", calls, calls},
	}
	env := testenv.Real(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { // one at a time: all services have the same connections
			c := newCollector(t)
			s := newTracedServer(t, env, config.Traces{Endpoint: c.url, Ratio: tt.ratio})
			for range calls {
				r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/boards", nil))
				r.Header.Set("Traceparent", tt.traceparent)
				s.app.Handler.ServeHTTP(httptest.NewRecorder(), r)
			}
			s.stop()
			spans := c.named("GET /v1/boards")
			if n := len(spans); n < tt.least || n > tt.most {
				t.Errorf("%d of %d calls are traced", n, calls)
			}
			if logged := len(s.log.containing(`"trace_id"`)); logged != len(spans) {
				t.Errorf("%d traces, %d in the log", len(spans), logged)
			}
			for _, span := range spans {
				linked := len(span.Links) == 1 && strings.Contains(tt.traceparent, fmt.Sprintf("%x-%x", span.Links[0].TraceId, span.Links[0].SpanId))
				if len(span.ParentSpanId) != 0 || strings.Contains(tt.traceparent, fmt.Sprintf("%x", span.TraceId)) || linked != (tt.traceparent != "") {
					t.Fatalf("%v", span)
				}
			}
		})
	}
}

// Without an endpoint, traces are not installed.
func TestWithoutTraces(t *testing.T) {
	t.Parallel()
	s := newTracedServer(t, testenv.Real(t), config.Default().Traces)
	s.want(s.as("1", "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil)
	s.stop()
	if s.traces != nil || s.traces.Provider() != nil || s.stores.Pool.Config().ConnConfig.Tracer != nil {
		t.Error("traces are installed")
	}
	if len(s.log.containing("trace_id")) != 0 || len(s.log.containing(`"request"`)) == 0 {
		t.Error("the log has traces")
	}
}

// The remaining traces are sent when the process stops.
func TestServeSendsItsTraces(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	env := harness.Real(t)
	p := testenv.Serve(t, env.Config, "--traces.endpoint="+c.url, "--traces.ratio=1")
	s := &server{t: t, env: env, url: p.URL}
	s.want(s.as("1", "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil)
	p.Stop()
	spans := c.named(rankingSpan)
	if len(spans) != 1 || !strings.Contains(p.Log(), fmt.Sprintf(`"trace_id":"%x"`, spans[0].TraceId)) {
		t.Errorf("%v\n%s", spans, p.Log())
	}
	if !bytes.Contains(c.bytes, []byte("stepboard")) || !bytes.Contains(c.bytes, []byte(version(t))) {
		t.Error("the traces don't say whose they are")
	}
}
