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
	"stepboard/internal/outbound"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

const (
	// exportTimeout bounds sending one batch, flushTimeout sending all remaining
	// spans in Close.
	exportTimeout = 5 * time.Second
	flushTimeout  = 3 * time.Second
	// spanQueue is how many spans may wait to be sent, of about 2 KB each. Further
	// spans are dropped: no request ever waits for the collector.
	spanQueue = 2048
	// spanText is the longest text in a span, in bytes. Of a statement with
	// thousands of placeholders the beginning is enough.
	spanText = 1000
	// lossLogInterval is how often, before Close, the log reports lost spans.
	lossLogInterval = time.Minute
)

// Traces records and sends traces. A nil Traces records nothing.
type Traces struct {
	provider *sdktrace.TracerProvider
	otlp     *otlptrace.Exporter
	exporter *spanExporter
	client   *http.Client
	ratio    float64
}

// NewTraces returns traces that are sent to the collector of the settings, or nil
// if none is set. It connects later. Close must follow the end of all spans.
func NewTraces(ctx context.Context, cfg config.Traces, log *slog.Logger) (*Traces, error) {
	if cfg.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Traces records nothing
	}
	target, err := url.JoinPath(cfg.Endpoint, "v1/traces")
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	process, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "stepboard"), attribute.String("service.version", Version())))
	if err != nil {
		return nil, fmt.Errorf("describe the process to traces.endpoint: %w", err)
	}
	client := outbound.NewClient(outbound.Options{Timeout: exportTimeout, Idle: 1})
	// A batch that can't be sent is lost: retrying would only make further ones
	// wait.
	otlp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = spanText
	exporter := &spanExporter{SpanExporter: otlp, log: log}
	batches := sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithMaxQueueSize(spanQueue), sdktrace.WithExportTimeout(exportTimeout))
	return &Traces{
		otlp: otlp, exporter: exporter, client: client, ratio: cfg.Ratio,
		provider: sdktrace.NewTracerProvider(
			sdktrace.WithResource(process), sdktrace.WithRawSpanLimits(limits),
			sdktrace.WithSampler(sdktrace.ParentBased(rootSampler{sdktrace.AlwaysSample()})),
			sdktrace.WithSpanProcessor(boundedProcessor{SpanProcessor: batches, exporter: exporter}),
		),
	}, nil
}

// Provider returns the provider of tracers, or nil if nothing is traced.
func (t *Traces) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// sampled decides at random whether a request, a flush or a job is traced.
func (t *Traces) sampled() bool { return rand.Float64() < t.ratio } //nolint:gosec // no secret: whoever guesses it gains nothing

// Close sends the remaining spans, for at most flushTimeout, and logs how many are
// lost.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	// Once the exporter is shut down, the provider stops waiting for it.
	timeout := time.AfterFunc(flushTimeout, func() { _ = t.otlp.Shutdown(context.Background()) })
	defer timeout.Stop()
	_ = t.provider.Shutdown(context.Background())
	t.exporter.lost.Add(t.exporter.waiting.Swap(0)) // spans that ended after the shutdown
	t.exporter.logLoss()
	t.client.CloseIdleConnections()
}

// begin begins a trace, if sampled. end ends it.
func (t *Traces) begin(ctx context.Context, name string, attributes ...attribute.KeyValue) (traced context.Context, end func(failed bool)) {
	if !t.sampled() {
		return ctx, func(bool) {}
	}
	ctx, span := t.provider.Tracer("stepboard").Start(ctx, name, trace.WithNewRoot(), trace.WithAttributes(attributes...))
	return ctx, func(failed bool) {
		if failed {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// flushes returns a function with a trace for each of its calls. A flush serves many requests
// and so belongs to none of their traces.
func (t *Traces) flushes(persist ingest.Store) ingest.Store {
	if t == nil {
		return persist
	}
	return func(ctx context.Context, raises []models.Raise) []error {
		ctx, end := t.begin(ctx, "flush", attribute.Int("updates", len(raises)))
		errs := persist(ctx, raises)
		end(errs != nil)
		return errs
	}
}

// jobs returns the jobs with a trace for each run.
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

// rootSampler drops traces that begin with a call of a store: the calls of probes
// and consumers belong to no request.
type rootSampler struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (r rootSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.Kind == trace.SpanKindClient {
		return sdktrace.SamplingResult{Decision: sdktrace.Drop}
	}
	return r.Sampler.ShouldSample(p)
}

// boundedProcessor lets at most spanQueue spans wait for the exporter, so that
// none is dropped without being counted.
type boundedProcessor struct {
	sdktrace.SpanProcessor
	exporter *spanExporter
}

// OnEnd queues a span, or drops it if too many wait.
func (p boundedProcessor) OnEnd(span sdktrace.ReadOnlySpan) {
	if p.exporter.waiting.Add(1) > spanQueue {
		p.exporter.waiting.Add(-1)
		p.exporter.lost.Add(1)
		return
	}
	p.SpanProcessor.OnEnd(span)
}

// spanExporter sends spans without personal data, and reports lost spans to the
// log instead of the libraries' global error handler. ExportSpans is called by
// one goroutine at a time.
type spanExporter struct {
	sdktrace.SpanExporter
	log      *slog.Logger
	waiting  atomic.Int64 // spans that are queued, until they are sent or lost
	lost     atomic.Int64 // lost spans that the log has not reported
	failure  error        // why they could not be sent; nil if none was tried
	reported time.Time    // when the log last reported a loss
}

// errFull is the reason of spans that were lost without being tried.
var errFull = fmt.Errorf("more than %d wait to be sent", spanQueue)

// ExportSpans sends spans. It returns no error: it logs losses itself.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	clean := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		clean[i] = cleanSpan{span}
	}
	if err := e.SpanExporter.ExportSpans(ctx, clean); err != nil {
		e.lost.Add(int64(len(spans)))
		e.failure = err
	}
	e.waiting.Add(-int64(len(spans)))
	if time.Since(e.reported) >= lossLogInterval {
		e.logLoss()
	}
	return nil
}

// logLoss logs how many spans are lost, if any are.
func (e *spanExporter) logLoss() {
	lost := e.lost.Swap(0)
	if lost == 0 {
		return
	}
	e.log.Warn("traces are lost", "spans", lost, "error", cmp.Or(e.failure, errFull))
	e.failure, e.reported = nil, time.Now()
}

// cleanSpan is a span without personal data: paths, addresses and errors may name
// users. The log has the error, with the trace's id.
type cleanSpan struct{ sdktrace.ReadOnlySpan }

// Events returns none: they would hold the texts of errors.
func (cleanSpan) Events() []sdktrace.Event { return nil }

// Status omits the description, which is the text of an error.
func (s cleanSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// Attributes returns only known attributes. What a library adds in a new version
// is not sent until somebody has reviewed it.
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
