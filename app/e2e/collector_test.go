package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// collector accepts traces as OpenTelemetry's collector does.
type collector struct {
	t   testing.TB
	url string

	mu    sync.Mutex
	spans []*tracepb.Span
	bytes []byte // everything that was sent
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

// named returns the accepted spans of a name.
func (c *collector) named(name string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *tracepb.Span) bool { return s.Name != name })
}

// children returns the names of a span's children.
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

// attributeOf returns an attribute as text; "" if the span lacks it.
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

// tracedServer is a service that exports traces and keeps its log.
type tracedServer struct {
	*server
	traces *app.Traces
	stores *stores.Stores
	log    *lines
	// recorded holds every span that has ended.
	recorded *tracetest.SpanRecorder
	// stop ends the service and exports the remaining spans. Later calls do
	// nothing.
	stop func()
}

// lines is a log.
type lines struct{ testenv.Buffer }

// containing returns the lines that contain text.
func (l *lines) containing(text string) []string {
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
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)}), Roles: app.AllRoles(),
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

// slowCollector is a collector that holds every request until accept is closed.
type slowCollector struct {
	*collector
	url      string
	received chan struct{} // receives once a request has come
	accept   chan struct{} // closed by the test
}

func newSlowCollector(t testing.TB) *slowCollector {
	t.Helper()
	l := &slowCollector{collector: newCollector(t), received: make(chan struct{}, 1), accept: make(chan struct{})}
	ts := httptest.NewServer(l)
	t.Cleanup(ts.Close)
	l.url = ts.URL
	return l
}

func (l *slowCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	select {
	case l.received <- struct{}{}:
	default:
	}
	select {
	case <-r.Context().Done():
	case <-l.accept:
	}
	if r.Context().Err() == nil { // the service still waits
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.collector.ServeHTTP(w, r)
	}
}

// A collector that is away, hangs or is slow delays no call, and the end of the
// service only for a limited time. The log says how many spans were lost, once
// a minute at most and at the end: every span whose arrival is not confirmed.
func TestCollectorThatDoesNotAccept(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	hanging, slow := newSlowCollector(t), newSlowCollector(t)

	env := testenv.Real(t)
	tests := []struct {
		name, url string
		late      *slowCollector
	}{
		{"away", away.URL, nil},
		{"refusing", refusing.URL, nil},
		{"hanging", hanging.url, hanging},
		{"slow", slow.url, slow},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			s := newTracedServer(t, env, config.Traces{Endpoint: tt.url, Ratio: 1})
			// More spans than the 2048 that wait and the batch that is being sent.
			for range 3000 {
				r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/boards", nil))
				r.Header.Set("Authorization", "Bearer "+harness.Token(t, "1", ""))
				w := httptest.NewRecorder()
				s.app.Handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					t.Fatalf("status %d", w.Code)
				}
			}
			arrived := 0
			if tt.late != nil {
				testenv.Receive(t, "spans arrive", tt.late.received)
			}
			if tt.late == slow {
				close(slow.accept)
			}
			s.stop()
			if tt.late != nil {
				arrived = len(tt.late.spans)
			}
			if (arrived > 0) != (tt.late == slow) {
				t.Errorf("%d spans arrived", arrived)
			}
			lost, said := 0, s.log.containing("traces are lost")
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
			// A batch whose answer came too late has arrived, and counts as lost.
			late := lost - (ended - arrived)
			if lost == 0 || late < 0 || late > arrived {
				t.Errorf("%d spans ended, %d arrived, and the log says that %d are lost", ended, arrived, lost)
			}
			if len(said) > 2+int(time.Since(began)/time.Minute) {
				t.Errorf("the log says so %d times: %s", len(said), said)
			}
		})
	}
}
