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
