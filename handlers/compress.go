package handlers

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

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
