package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
)

// metrics counts what the API does.
type metrics struct {
	duration *prometheus.HistogramVec
	uploads  *prometheus.CounterVec
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stepboard_http_request_duration_seconds",
			Help:    "Time to answer an HTTP request, by method, route and status.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route", "status"}),
		uploads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_uploads_accepted_total",
			Help: "Score updates that were acknowledged, by board.",
		}, []string{"board"}),
	}
	registry.MustRegister(m.duration, m.uploads)
	return m
}

// observer measures and logs requests.
type observer struct {
	duration *prometheus.HistogramVec // by method, route and status
	log      *slog.Logger
}

// observe wraps every request: it names it, survives its panics, and leaves
// one log line and one measurement.
func (o *observer) observe(c *gin.Context) {
	start := time.Now()
	id := c.GetHeader(requestIDHeader)
	if !validRequestID(id) {
		id = strconv.FormatUint(rand.Uint64(), 36)
	}
	c.Set(requestIDKey, id)
	c.Header(requestIDHeader, id)
	secure(c)
	// Bodies are JSON whatever the header says: curl's default says otherwise.
	if c.Request.ContentLength != 0 {
		c.Request.Header["Content-Type"] = jsonContentType
	}
	// A store that hangs is answered for while somebody still listens.
	if c.FullPath() != streamRoute {
		ctx, cancel := context.WithTimeout(c.Request.Context(), requestTimeout)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
	}
	defer o.finish(c, start, id)
	c.Next()
}

// apiPolicy is for what is no page: it shows and loads nothing, in no frame.
const apiPolicy = "default-src 'none'; frame-ancestors 'none'"

// secure tells browsers to take an answer for what it is and nothing more. A
// page's own policy replaces apiPolicy. Answers of the API are about one user at
// one moment: no cache keeps them.
func secure(c *gin.Context) {
	h := c.Writer.Header()
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = noReferrer
	h["X-Frame-Options"] = deny
	h["Content-Security-Policy"] = apiCSP
	if strings.HasPrefix(c.Request.URL.Path, "/v1/") {
		h["Cache-Control"] = noStore
	}
}

// Headers that every answer has share their values: nobody appends to them.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	deny       = []string{"DENY"}
	apiCSP     = []string{apiPolicy}
	noStore    = []string{"no-store"}
)

var jsonContentType = []string{"application/json"}

func (o *observer) finish(c *gin.Context, start time.Time, id string) {
	if crash := recover(); crash != nil {
		o.log.ErrorContext(c.Request.Context(), "panic", "request_id", id, "panic", fmt.Sprint(crash), "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			writeProblem(c, models.Errorf(models.CodeInternal, "something went wrong here; the log knows this request's id"))
		}
	}
	status := c.Writer.Status()
	err, _ := c.Value(errorKey).(error)
	if clientGone(c.Request.Context(), err) {
		status = statusClientGone
	}
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	elapsed := time.Since(start)
	o.duration.WithLabelValues(methodLabel(c.Request.Method), route, strconv.Itoa(status)).Observe(elapsed.Seconds())

	level := slog.LevelInfo
	if status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !o.log.Enabled(c.Request.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 7)
	attrs = append(attrs,
		slog.String("request_id", id),
		slog.String("method", c.Request.Method),
		slog.String("route", route),
		slog.Int("status", status),
		slog.Float64("ms", float64(elapsed.Microseconds())/1000),
		slog.Int("bytes", max(0, c.Writer.Size())),
	)
	if traceID := c.GetString(traceIDKey); traceID != "" {
		attrs = append(attrs, slog.String(traceIDKey, traceID))
	}
	if err != nil {
		attrs = append(attrs, slog.String("code", string(models.CodeOf(err))))
	}
	// What was wrong with a request may name people; what is wrong with the
	// service does not.
	if err != nil && level == slog.LevelError {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	o.log.LogAttrs(c.Request.Context(), level, "request", attrs...)
}

// methodLabel keeps the number of time series small: a client may send any
// word as a method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}
