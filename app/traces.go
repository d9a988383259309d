package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"stepboard/config"
	"stepboard/jobs"
	"stepboard/models"
)

const (
	// exportTimeout bounds the sending of a batch, flushTimeout that of all that
	// is left at the end.
	exportTimeout = 5 * time.Second
	flushTimeout  = 3 * time.Second
	// spanQueue is how many spans wait until they have been sent, of some 2 KB
	// each: further ones are dropped. Nobody ever waits for the collector.
	spanQueue = 2048
	// spanText is the longest text of a span: of a statement with thousands of
	// placeholders the beginning will do.
	spanText = 1000
	// complainEvery is how often the log says that spans are lost, before Close.
	complainEvery = time.Minute
)

// Traces is where spans go. A nil Traces traces nothing.
type Traces struct {
	provider    *sdktrace.TracerProvider
	exporter    *otlptrace.Exporter
	outlet      *outlet
	connections *http.Transport
	ratio       float64
}

// NewTraces begins to send spans to the collector of the settings; nil where
// there is none. It does not connect yet. Close it after everything that may
// leave spans.
func NewTraces(ctx context.Context, cfg config.Traces, log *slog.Logger) (*Traces, error) {
	if cfg.Endpoint == "" {
		return nil, nil //nolint:nilnil // nil is what traces nothing
	}
	target, err := url.JoinPath(cfg.Endpoint, "v1/traces")
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "stepboard"), attribute.String("service.version", Version)))
	if err != nil {
		return nil, fmt.Errorf("describe the process to traces.endpoint: %w", err)
	}
	connections := http.DefaultTransport.(*http.Transport).Clone()
	// A batch that is not taken is lost: trying again would only make others
	// wait behind it.
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: connections, Timeout: exportTimeout}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = spanText
	out := &outlet{SpanExporter: exporter, log: log}
	batches := sdktrace.NewBatchSpanProcessor(out, sdktrace.WithMaxQueueSize(spanQueue), sdktrace.WithExportTimeout(exportTimeout))
	return &Traces{
		exporter: exporter, outlet: out, connections: connections, ratio: cfg.Ratio,
		provider: sdktrace.NewTracerProvider(
			sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
			sdktrace.WithSampler(sdktrace.ParentBased(roots{sdktrace.AlwaysSample()})),
			sdktrace.WithSpanProcessor(inlet{SpanProcessor: batches, outlet: out}),
		),
	}, nil
}

// Provider makes tracers; nil where nothing is traced.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// sampled decides, by chance, whether a request, a flush or a job is traced.
func (t *Traces) sampled() bool { return rand.Float64() < t.ratio }

// Close sends what is left, for flushTimeout at most, and logs how many spans
// are lost that the log does not know of.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	// Without its exporter the provider has nothing to wait for.
	enough := time.AfterFunc(flushTimeout, func() { _ = t.exporter.Shutdown(context.Background()) })
	defer enough.Stop()
	_ = t.provider.Shutdown(context.Background())
	t.outlet.lost.Add(t.outlet.waiting.Swap(0)) // what ended after all
	t.outlet.complain()
	t.connections.CloseIdleConnections()
}

// begin begins a trace, for the share of calls that is traced. end ends it.
func (t *Traces) begin(ctx context.Context, name string, about ...attribute.KeyValue) (traced context.Context, end func(failed bool)) {
	if !t.sampled() {
		return ctx, func(bool) {}
	}
	ctx, span := t.provider.Tracer("stepboard").Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(about...))
	return ctx, func(failed bool) {
		if failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// flushes traces what takes updates. A flush serves many requests, and belongs
// to the trace of none of them.
func (t *Traces) flushes(keep func(context.Context, []models.Raise) []error) func(context.Context, []models.Raise) []error {
	if t == nil {
		return keep
	}
	return func(ctx context.Context, raises []models.Raise) []error {
		ctx, end := t.begin(ctx, "flush", attribute.Int("updates", len(raises)))
		errs := keep(ctx, raises)
		end(errs != nil)
		return errs
	}
}

// jobs traces the runs of jobs.
func (t *Traces) jobs(list ...jobs.Job) []jobs.Job {
	if t == nil {
		return list
	}
	for i := range list {
		name, run := "job "+list[i].Name, list[i].Run
		list[i].Run = func(ctx context.Context) (rows int64, err error) {
			ctx, end := t.begin(ctx, name)
			defer func() { end(err != nil) }()
			return run(ctx)
		}
	}
	return list
}

// roots lets no trace begin with a call of a store: what probes and consumers
// ask is no request.
type roots struct{ sdktrace.Sampler }

func (r roots) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Kind == trace.SpanKindClient {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return r.Sampler.ShouldSample(p)
}

// inlet lets no more than spanQueue spans wait for the outlet, so that none is
// dropped without being counted.
type inlet struct {
	sdktrace.SpanProcessor
	outlet *outlet
}

// OnEnd takes a span or drops it.
func (i inlet) OnEnd(span sdktrace.ReadOnlySpan) {
	if i.outlet.waiting.Add(1) > spanQueue {
		i.outlet.waiting.Add(-1)
		i.outlet.lost.Add(1)
		return
	}
	i.SpanProcessor.OnEnd(span)
}

// outlet sends what may leave the process, and tells the log, not the
// libraries' global handler, what is lost. ExportSpans is called by one
// goroutine at a time.
type outlet struct {
	sdktrace.SpanExporter
	log        *slog.Logger
	waiting    atomic.Int64 // spans that the inlet took, until they are sent or lost
	lost       atomic.Int64 // spans since the log was told
	failure    error        // why they could not be sent; nil if none of them was tried
	complained time.Time
}

// errFull is why spans are lost that the outlet never saw.
var errFull = fmt.Errorf("more than %d wait to be sent", spanQueue)

// ExportSpans never fails, as far as its caller knows.
func (o *outlet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	clean := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		clean[i] = cleanSpan{span}
	}
	if err := o.SpanExporter.ExportSpans(ctx, clean); err != nil {
		o.lost.Add(int64(len(spans)))
		o.failure = err
	}
	o.waiting.Add(-int64(len(spans)))
	if time.Since(o.complained) >= complainEvery {
		o.complain()
	}
	return nil
}

// complain tells the log how many spans are lost, if any are.
func (o *outlet) complain() {
	lost := o.lost.Swap(0)
	if lost == 0 {
		return
	}
	o.log.Warn("traces are lost", "spans", lost, "error", cmp.Or(o.failure, errFull))
	o.failure, o.complained = nil, time.Now()
}

// cleanSpan is a span without anything personal: paths, addresses and errors
// may name users. The log has the error, with the trace's id.
type cleanSpan struct{ sdktrace.ReadOnlySpan }

// Events are the texts of errors.
func (cleanSpan) Events() []sdktrace.Event { return nil }

// Status leaves out the description, which is an error's text too.
func (s cleanSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// Attributes are those of a list: what a library writes in its next version
// stays here until somebody has looked at it.
func (s cleanSpan) Attributes() []attribute.KeyValue {
	var kept []attribute.KeyValue
	for _, a := range s.ReadOnlySpan.Attributes() {
		switch a.Key {
		case "http.request.method", "http.route", "http.response.status_code", "http.response.body.size", "request_id",
			"db.system", "db.system.name", "server.address", "updates",
			"db.redis.num_cmd", "db.query.text", "db.operation.name", "db.operation.batch.size", "db.collection.name",
			"pgx.rows_affected", "pgx.sql_state":
			kept = append(kept, a)
		}
	}
	return kept
}
