package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"stepboard/models"
)

// metrics holds the metrics of the API.
type metrics struct {
	duration *prometheus.HistogramVec
	uploads  *prometheus.CounterVec
	phones   *prometheus.CounterVec
}

// durationBounds are the bounds of the histogram of durations, in seconds.
var durationBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Durations is the histogram of how long requests take.
type Durations struct {
	requests *prometheus.HistogramVec // by method, route and status
}

// NewDurations returns an empty histogram.
func NewDurations() *Durations {
	return &Durations{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "stepboard_http_request_duration_seconds",
		Help:    "Time to answer an HTTP request, by method, route and status.",
		Buckets: durationBounds,
	}, []string{"method", "route", "status"})}
}

// Calls returns the calls under /v1 by how long they took, without streams and exports, whose
// length says nothing: those up to each bound and above the bound before, and last those above all
// bounds.
func (d *Durations) Calls() []int64 {
	found := make(chan prometheus.Metric)
	go func() {
		d.requests.Collect(found)
		close(found)
	}()
	calls := make([]int64, len(durationBounds)+1)
	for metric := range found {
		var m dto.Metric
		if metric.Write(&m) != nil || !isTimedCall(m.GetLabel()) {
			continue
		}
		below := uint64(0)
		for i, bucket := range m.GetHistogram().GetBucket() {
			calls[i] += int64(bucket.GetCumulativeCount() - below)
			below = bucket.GetCumulativeCount()
		}
		calls[len(durationBounds)] += int64(m.GetHistogram().GetSampleCount() - below)
	}
	return calls
}

// isTimedCall reports whether the labels of a measurement are those of a call of the API that has
// a time limit.
func isTimedCall(labels []*dto.LabelPair) bool {
	for _, label := range labels {
		if label.GetName() == "route" {
			return strings.HasPrefix(label.GetValue(), "/v1/") && hasTimeLimit(label.GetValue())
		}
	}
	return false
}

func newMetrics(registry *prometheus.Registry, durations *Durations) *metrics {
	if durations == nil {
		durations = NewDurations()
	}
	m := &metrics{
		duration: durations.requests,
		uploads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_uploads_accepted_total",
			Help: "Score updates acknowledged to clients, by board.",
		}, []string{"board"}),
		phones: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_phone_uploads_total",
			Help: "Calls of apps to upload addresses, by the form of their body and whether it was accepted or refused.",
		}, []string{"form", "result"}),
	}
	registry.MustRegister(m.duration, m.uploads, m.phones)
	return m
}

// observer measures and logs requests.
type observer struct {
	duration *prometheus.HistogramVec // by method, route and status
	log      *slog.Logger
	requests *slog.Logger // writes the line of each request
}

// observe wraps every request: it gives the request an id and a deadline, recovers
// from panics, and writes one log line and one measurement.
func (o *observer) observe(c *gin.Context) {
	start := time.Now()
	id := c.GetHeader(requestIDHeader)
	if !validRequestID(id) {
		id = newRequestID()
	}
	c.Header(requestIDHeader, id)
	secure(c)
	// Bodies are JSON, whatever the header says: curl sends a form by default. Calls that read a cookie check it.
	if c.Request.ContentLength != 0 && !strings.HasPrefix(c.FullPath(), sessionRoute) {
		c.Request.Header.Set("Content-Type", "application/json")
	}
	ctx := withRequester(c.Request.Context())
	// If a store hangs, the client gets an error before it gives up.
	if hasTimeLimit(c.FullPath()) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, start.Add(requestTimeout))
		defer cancel()
	}
	c.Request = c.Request.WithContext(ctx)
	defer o.finish(c, start, id)
	c.Next()
}

// apiPolicy is the Content-Security-Policy of answers that are not pages: it
// allows nothing.
const apiPolicy = "default-src 'none'; frame-ancestors 'none'"

// secure sets the security headers of an answer. A page replaces apiPolicy with a
// policy of its own. Answers of the API are about one user at one moment, so no
// cache may store them, nor that an asset is missing: another process may have it.
func secure(c *gin.Context) {
	h := c.Writer.Header()
	values := [...]string{"nosniff", "no-referrer", "DENY", apiPolicy, "no-store"} // one allocation, where Set makes five
	h["X-Content-Type-Options"] = values[0:1:1]
	h["Referrer-Policy"] = values[1:2:2]
	h["X-Frame-Options"] = values[2:3:3]
	h["Content-Security-Policy"] = values[3:4:4]
	if path := c.Request.URL.Path; strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/assets/") {
		h["Cache-Control"] = values[4:5:5]
	}
}

// finish records the measurement and the log line of a request, and answers it if
// it has panicked.
func (o *observer) finish(c *gin.Context, start time.Time, id string) {
	crash := recover()
	aborted := crash == http.ErrAbortHandler //nolint:errorlint // the server compares it like that, too
	if aborted {
		defer panic(crash) // the server closes the connection
	}
	if crash != nil && !aborted {
		o.log.ErrorContext(c.Request.Context(), "panic", "request_id", id, "panic", fmt.Sprint(crash), "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			writeProblem(c, models.Errorf(models.CodeInternal, internalMessage))
		}
	}
	status := c.Writer.Status()
	err, _ := c.Value(errorKey).(error)
	if aborted {
		status = problemOf(err).Status
	}
	if clientGone(c.Request.Context(), err) {
		status = statusClientGone
	}
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	elapsed := time.Since(start)
	o.duration.WithLabelValues(methodLabel(c.Request.Method), route, strconv.Itoa(status)).Observe(elapsed.Seconds())
	o.logRequest(c, id, route, status, start, elapsed, err)
}

// logRequest writes the log line of a request; err is nil if it succeeded.
func (o *observer) logRequest(c *gin.Context, id, route string, status int, start time.Time, elapsed time.Duration, err error) {
	level := slog.LevelInfo
	switch {
	case route == "/healthz" || route == "/readyz":
		level = slog.LevelDebug // there are many, and healthHandlers logs what they find
	case status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	if !o.requests.Enabled(c.Request.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 7)
	attrs = append(attrs,
		slog.String("request_id", id),
		slog.String("method", c.Request.Method),
		slog.String("route", route),
		slog.Int("status", status),
		slog.Float64("ms", float64(elapsed.Microseconds())/1000),
		slog.Int("bytes", bytesOf(c)),
	)
	if traceID := c.GetString(traceIDKey); traceID != "" {
		attrs = append(attrs, slog.String(traceIDKey, traceID))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", string(models.CodeOf(err))))
	}
	// The text of a client's error may name people; that of an error of the service
	// does not.
	if err != nil && level == slog.LevelError {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	// Without the place in the code, which no line has and LogAttrs would look up for each request.
	line := slog.NewRecord(start.Add(elapsed), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = o.requests.Handler().Handle(c.Request.Context(), line) // as LogAttrs: nobody could be told
}

// bytesOf returns the length of an answer's body, before it is compressed.
func bytesOf(c *gin.Context) int {
	if c.Request.Method == http.MethodHead { // net/http discards what was written
		return 0
	}
	return max(0, c.Writer.Size())
}

// methodLabel returns the method as a metric label. It bounds the number of time
// series, because clients may send any word as a method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// traced starts a trace for the calls under /v1 that sampled selects. A client's
// traceparent is ignored, because otherwise any client could have all of its
// calls traced. Streams are not traced: a span would last for minutes, and its
// polls serve all subscribers. Neither are calls of phones: a span has the path, and theirs is secret.
func traced(provider trace.TracerProvider, sampled func() bool) gin.HandlerFunc {
	return otelgin.Middleware("stepboard",
		otelgin.WithTracerProvider(provider),
		otelgin.WithMeterProvider(noop.NewMeterProvider()),
		otelgin.WithPropagators(propagation.NewCompositeTextMapPropagator()), // none
		otelgin.WithGinFilter(func(c *gin.Context) bool {
			// The filter runs before a span costs anything: most calls have none.
			return sampled() && strings.HasPrefix(c.FullPath(), "/v1/") && !isStream(c.FullPath()) && !isPhoneRoute(c.FullPath())
		}))
}

// describeSpan connects a call's trace with its log line, and links it to the
// client's own trace, if the client has sent one.
func describeSpan(c *gin.Context) {
	ctx := c.Request.Context()
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("request_id", requestID(c)))
	callers := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
	if link := trace.LinkFromContext(callers); link.SpanContext.IsRemote() {
		span.AddLink(link)
	}
	c.Set(traceIDKey, span.SpanContext().TraceID().String())
}
