package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

// collector takes traces as OpenTelemetry's does.
type collector struct {
	t   testing.TB
	url string

	mu    sync.Mutex
	spans []*tracepb.Span
	bytes []byte // all that was sent
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t}
	ts := httptest.NewServer(c)
	t.Cleanup(ts.Close)
	c.url = ts.URL
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	if r.URL.Path != "/v1/traces" {
		c.t.Errorf("traces are sent to %s", r.URL.Path)
	}
	var sent collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil {
		c.t.Error(err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = append(c.bytes, body...)
	for _, ofProcess := range sent.ResourceSpans {
		for _, ofLibrary := range ofProcess.ScopeSpans {
			c.spans = append(c.spans, ofLibrary.Spans...)
		}
	}
}

// named are the spans that were sent with a name.
func (c *collector) named(name string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *tracepb.Span) bool { return s.Name != name })
}

// children are the names of the spans right under a span.
func (c *collector) children(parent *tracepb.Span) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, s := range c.spans {
		if bytes.Equal(s.ParentSpanId, parent.SpanId) && bytes.Equal(s.TraceId, parent.TraceId) {
			names = append(names, s.Name)
		}
	}
	return names
}

func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if n := a.Value.GetIntValue(); n != 0 {
				return strconv.FormatInt(n, 10)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// tracedServer is a service whose traces go to an endpoint.
type tracedServer struct {
	*server
	traces *app.Traces
	stores *stores.Stores
	log    *lines
	// recorded has all spans that ended.
	recorded *tracetest.SpanRecorder
	// stop ends the service and sends what is left. It may be called again.
	stop func()
}

// lines keeps a log.
type lines struct{ testenv.Buffer }

func (l *lines) with(text string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func newTracedServer(t testing.TB, env *testenv.Env, settings config.Traces) *tracedServer {
	t.Helper()
	cfg, text := env.Config, &lines{}
	cfg.Traces = settings
	log := slog.New(slog.NewJSONHandler(text, nil))
	traces := testenv.Must(app.NewTraces(t.Context(), settings, log))
	recorded := tracetest.NewSpanRecorder()
	if provider, ok := traces.Provider().(*sdktrace.TracerProvider); ok {
		provider.RegisterSpanProcessor(recorded)
	}
	st := testenv.Must(stores.Open(context.Background(), cfg, env.Clock.Now, traces.Provider()))
	a, err := app.Build(context.Background(), app.Options{
		Config: cfg, Stores: st, Clock: env.Clock.Now, Log: log, Traces: traces,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(secret)}), Roles: app.AllRoles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Start(context.Background())
	ts := httptest.NewServer(a.Handler)
	s := &tracedServer{server: &server{t: t, env: env, app: a, url: ts.URL}, traces: traces, stores: st, log: text, recorded: recorded}
	s.stop = sync.OnceFunc(func() {
		ts.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		traces.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	return s
}

const rankingSpan = "GET /v1/boards/:board/friends"

// One trace shows all that a ranking has waited for.
func TestATraceOfAFriendRanking(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	answers := []answer{}
	for range 2 { // the first one finds no friend set in Redis
		a := s.as(1, "GET", "/v1/boards/steps/friends", nil)
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
			if !slices.Contains(names, want) {
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
		logged := s.log.with(id)
		var line struct {
			TraceID string `json:"trace_id"`
		}
		if len(logged) != 1 || json.Unmarshal([]byte(logged[0]), &line) != nil || line.TraceID != fmt.Sprintf("%x", span.TraceId) {
			t.Errorf("ranking %d: trace %x, log %q", i, span.TraceId, logged)
		}
	}
	if sql := c.named("query SELECT"); len(sql) == 0 || !strings.Contains(attributeOf(sql[0], "db.query.text"), "$1") {
		t.Errorf("statements: %v", sql)
	}
}

// Uploads share a write, which has a trace of its own. Probes, pages, streams
// and what the service does by itself have none.
func TestWhatBeginsATrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	s.want(s.as(1, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":5000}`), http.StatusOK, nil)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/", "/openapi.json"} {
		s.want(s.call("", "GET", path, nil), http.StatusOK, nil)
	}
	s.refuse(s.call("", "GET", "/v1/nothing/1001", nil), http.StatusNotFound, models.CodeNotFound)
	s.refuse(s.as(1, "GET", "/v1/boards/none/friends/stream", nil), http.StatusNotFound, models.CodeBoardNotFound)
	testenv.Eventually(t, "the jobs of the start have run", func() bool { return len(s.log.with(`"job":"archive"`)) > 0 })
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

// Promise: no user, no token, no address and no name leaves in a trace.
func TestTracesHoldNothingPersonal(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := newTracedServer(t, testenv.Real(t), config.Traces{Endpoint: c.url, Ratio: 1})
	const user, friend = 7731984650213, 7731984650777
	signed := token(t, user, "")
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
		r, err := http.NewRequestWithContext(t.Context(), call.method, s.url+call.path, strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
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
	// What the libraries write of a store's error.
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

// How much is traced is the service's affair: a phone can neither have all of
// its calls traced nor none.
func TestTheRatioOfTraces(t *testing.T) {
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
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			s := newTracedServer(t, env, config.Traces{Endpoint: c.url, Ratio: tt.ratio})
			for range calls {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/boards", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Traceparent", tt.traceparent)
				s.app.Handler.ServeHTTP(httptest.NewRecorder(), r)
			}
			s.stop()
			spans := c.named("GET /v1/boards")
			if n := len(spans); n < tt.least || n > tt.most {
				t.Errorf("%d of %d calls are traced", n, calls)
			}
			if logged := len(s.log.with(`"trace_id"`)); logged != len(spans) {
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

// Where nothing is set, nothing is there.
func TestWithoutTraces(t *testing.T) {
	t.Parallel()
	s := newTracedServer(t, testenv.Real(t), config.Default().Traces)
	s.want(s.as(1, "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil)
	s.stop()
	if s.traces != nil || s.traces.Provider() != nil || s.stores.Pool.Config().ConnConfig.Tracer != nil {
		t.Error("traces are installed")
	}
	if len(s.log.with("trace_id")) != 0 || len(s.log.with(`"request"`)) == 0 {
		t.Error("the log has traces")
	}
}

// late is a collector that takes nothing before it is told to.
type late struct {
	*collector
	url   string
	asked chan struct{} // has something once it has been sent something
	take  chan struct{} // closed to tell it
}

func newLate(t testing.TB) *late {
	t.Helper()
	l := &late{collector: newCollector(t), asked: make(chan struct{}, 1), take: make(chan struct{})}
	ts := httptest.NewServer(l)
	t.Cleanup(ts.Close)
	l.url = ts.URL
	return l
}

func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case l.asked <- struct{}{}:
	default:
	}
	select {
	case <-r.Context().Done(): // the sender has given up
	case <-l.take:
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.collector.ServeHTTP(w, r)
	}
}

// Promise: a collector that is away, hangs or is slow is not waited for, by
// calls or, for long, by the end; and the log says, at most once a minute and at
// the end, how many spans are lost: all that did not arrive.
func TestACollectorThatDoesNotTakeTraces(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	hanging, slow := newLate(t), newLate(t)

	env := testenv.Real(t)
	tests := []struct {
		name, url string
		late      *late
	}{
		{"away", away.URL, nil},
		{"refusing", refusing.URL, nil},
		{"hanging", hanging.url, hanging},
		{"slow", slow.url, slow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newTracedServer(t, env, config.Traces{Endpoint: tt.url, Ratio: 1})
			// More than what waits and is being sent.
			for range 4000 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/boards", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+token(t, 1, ""))
				w := httptest.NewRecorder()
				s.app.Handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Fatalf("status %d", w.Code)
				}
			}
			arrived := 0
			if tt.late != nil {
				<-tt.late.asked
			}
			if tt.late == slow {
				close(slow.take)
			}
			s.stop()
			if tt.late != nil {
				arrived = len(tt.late.spans)
			}
			if (arrived > 0) != (tt.late == slow) {
				t.Errorf("%d spans arrived", arrived)
			}
			lost, said := 0, s.log.with("traces are lost")
			for _, text := range said {
				var line struct {
					Spans int
					Error string
				}
				if err := json.Unmarshal([]byte(text), &line); err != nil || line.Spans == 0 || line.Error == "" {
					t.Errorf("%v: %s", err, text)
				}
				lost += line.Spans
			}
			ended := len(s.recorded.Ended())
			if lost == 0 || lost != ended-arrived {
				t.Errorf("%d spans ended, %d arrived, and the log says that %d are lost", ended, arrived, lost)
			}
			if len(said) > 2 {
				t.Errorf("the log says so %d times: %s", len(said), said)
			}
		})
	}
}

// What is left is sent when the process is told to stop.
func TestServeSendsItsTraces(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	env := prepared(t)
	p := testenv.Serve(t, env.Config, "--traces.endpoint="+c.url, "--traces.ratio=1")
	s := &server{t: t, env: env, url: p.URL}
	s.want(s.as(1, "GET", "/v1/boards/steps/friends", nil), http.StatusOK, nil)
	p.Stop()
	spans := c.named(rankingSpan)
	if len(spans) != 1 || !strings.Contains(p.Log(), fmt.Sprintf(`"trace_id":"%x"`, spans[0].TraceId)) {
		t.Errorf("%v\n%s", spans, p.Log())
	}
	if !bytes.Contains(c.bytes, []byte("stepboard")) || !bytes.Contains(c.bytes, []byte(app.Version)) {
		t.Error("the traces don't say whose they are")
	}
}
