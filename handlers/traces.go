package handlers

import (
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traced begins a trace for a share of the calls under /v1. Whoever calls does
// not decide which: anybody may send a traceparent, and proxies pass it on, so
// a phone could have all of its calls traced. A stream is left out: it would be
// one span of many minutes, and its reads are for all who watch.
func traced(provider trace.TracerProvider, sampled func() bool) gin.HandlerFunc {
	return otelgin.Middleware("stepboard",
		otelgin.WithTracerProvider(provider),
		otelgin.WithMeterProvider(noop.NewMeterProvider()),
		otelgin.WithPropagators(propagation.NewCompositeTextMapPropagator()), // none
		otelgin.WithGinFilter(func(c *gin.Context) bool {
			// Before anything is made for a span: most calls have none.
			return sampled() && strings.HasPrefix(c.FullPath(), "/v1/") && c.FullPath() != streamRoute
		}))
}

// describeSpan ties a call's trace to its log line and to the caller's own
// trace, if there is one.
func describeSpan(c *gin.Context) {
	ctx := c.Request.Context()
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String(requestIDKey, requestID(c)))
	callers := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
	if link := trace.LinkFromContext(callers); link.SpanContext.IsRemote() {
		span.AddLink(link)
	}
	c.Set(traceIDKey, span.SpanContext().TraceID().String())
}
