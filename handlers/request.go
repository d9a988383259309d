package handlers

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// requestTimeout bounds a request's reads of the stores. It is well below the
// server's timeout for writing the answer. Changes that have begun continue.
const requestTimeout = 6 * time.Second

const (
	requestIDHeader = "X-Request-Id"
	errorKey        = "error"
)

// setError stores an error for the request's log line.
func setError(c *gin.Context, err error) {
	if err != nil {
		c.Set(errorKey, err)
	}
}

// requestID returns the request's id, which the answer has as well.
func requestID(c *gin.Context) string { return c.Writer.Header().Get(requestIDHeader) }

// validRequestID reports whether an id fits in a log line: it has 1 to 64 visible
// ASCII characters.
func validRequestID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

const traceIDKey = "trace_id"

// isStream reports whether a route is one of streams, which alone have no time limit.
func isStream(route string) bool { return strings.HasSuffix(route, "/stream") }

// byEncodedPath lets the engine, which uses the raw path, split a path before its
// values are decoded, so that an encoded slash belongs to a value. Other characters
// may be encoded or not: %61dmin is admin (RFC 3986, section 6.2.2.2).
func byEncodedPath(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" { // the path has characters that need not be encoded
			address := *r.URL
			address.RawPath = canonicalPath(address.RawPath)
			r = r.WithContext(r.Context())
			r.URL = &address
		}
		engine.ServeHTTP(w, r)
	})
}

// canonicalPath returns an encoded path in which only those characters of a
// segment are encoded that must be. Gin decodes values as those of a query, where
// a plus is a space, so a plus is encoded, too.
func canonicalPath(raw string) string {
	segments := strings.Split(raw, "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = strings.ReplaceAll(url.PathEscape(text), "+", "%2B")
		}
	}
	return strings.Join(segments, "/")
}

// clientGone reports whether a request failed because its client disconnected.
func clientGone(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}
