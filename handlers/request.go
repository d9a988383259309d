package handlers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/rs/cors"

	"stepboard/models"
)

// requestTimeout bounds a request's reads of the stores. It is well below the
// server's timeout for writing the answer. Writes that have begun continue.
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
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// newRequestID returns an id for a request whose client has given none.
func newRequestID() string {
	return strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // a request id is no secret
}

const traceIDKey = "trace_id"

// isStream reports whether a route is that of a stream.
func isStream(route string) bool { return strings.HasSuffix(route, "/stream") }

// hasTimeLimit reports whether the requests of a route have a time limit. Streams and exports have
// one for each of their parts instead.
func hasTimeLimit(route string) bool { return !isStream(route) && !strings.HasSuffix(route, "/export") }

// byEncodedPath makes the engine split the encoded path, so that an encoded slash belongs
// to a value. It is the same whether other characters are encoded or not: %61dmin is admin
// (RFC 3986, section 6.2.2.2).
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

// underPath lets a handler serve below a base path, such as /steps. What arrives without the base
// path is served, too: a proxy may remove it, and probes need not know it.
func underPath(base string, next http.Handler) http.Handler {
	if base == "" {
		return next
	}
	stripped := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		below := func(path string) bool { return strings.HasPrefix(path, base+"/") }
		if below(r.URL.Path) && (r.URL.RawPath == "" || below(r.URL.RawPath)) {
			stripped.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// canonicalPath returns an encoded path whose segments encode only what must be encoded.
// Gin decodes the values of a path like those of a query, where a plus is a space, so a
// plus is encoded, too.
func canonicalPath(raw string) string {
	segments := strings.Split(raw, "/")
	for i, segment := range segments {
		if text, err := url.PathUnescape(segment); err == nil {
			segments[i] = strings.ReplaceAll(url.PathEscape(text), "+", "%2B")
		}
	}
	return strings.Join(segments, "/")
}

// forProbesKey is the key of a value in the contexts of requests whose connection is for probes.
type forProbesKey struct{}

// ForProbes returns the context of a connection that was accepted for probes alone, because
// there was no room for another connection. Other requests on it are refused.
func ForProbes(ctx context.Context) context.Context {
	return context.WithValue(ctx, forProbesKey{}, true)
}

var errNoRoom = models.Unavailable("accept a connection", errors.New("http.max_connections is reached, and no connection is idle"))

// refuseWithoutRoom refuses a request whose connection is for probes. The routes of probes are
// registered without it.
func refuseWithoutRoom(c *gin.Context) {
	if c.Request.Context().Value(forProbesKey{}) != nil {
		writeProblem(c, errNoRoom)
	}
}

// clientGone reports whether a request failed because its client disconnected.
func clientGone(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}

// preflightAge is how long a browser may remember that a call is permitted. Chromium remembers
// it no longer than this.
const preflightAge = 2 * time.Hour

// permitOrigins lets pages of other origins make the calls under /v1, except those of phones, and read their answers,
// errors included. It also answers the preflight requests of browsers, which have no token. Calls need no cookies, so a page gets nothing without a token. Any header is permitted:
// libraries for traces add their own.
func permitOrigins(origins []string) gin.HandlerFunc {
	policy := cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"Content-Disposition", "Retry-After", "WWW-Authenticate", requestIDHeader},
		MaxAge:         int(preflightAge.Seconds()),
	})
	return func(c *gin.Context) {
		if path := c.Request.URL.Path; !strings.HasPrefix(path, "/v1/") || isPhoneRoute(path) {
			return
		}
		policy.HandlerFunc(c.Writer, c.Request)
		if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
			c.Abort()
		}
	}
}

// minCompressed is the size from which an answer is compressed, in bytes.
const minCompressed = 1 << 10

// compressed returns a handler that compresses JSON of minCompressed bytes or more for clients
// that accept gzip. All others are served by next itself. Streams are never compressed, and
// the files for browsers are compressed already.
//
// An answer to a client that does not accept gzip has no Vary, because every client can read it. Answers are not padded
// against BREACH: that attack needs credentials that a browser adds by itself, but here the token is in a header, and no
// answer contains it.
func compressed(next http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false),
		gzhttp.ContentTypeFilter(func(contentType string) bool { return strings.Contains(contentType, "json") }),
	)
	if err != nil {
		return nil, err
	}
	zipping := wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isStream(r.URL.Path) || !takesGzip(r.Header.Get("Accept-Encoding")) {
			next.ServeHTTP(w, r)
			return
		}
		zipping.ServeHTTP(w, r)
	}), nil
}
