package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/gin-gonic/gin"
)

// requestTimeout bounds a request's reads of the stores. It is well below the
// server's timeout for writing the answer. Changes that have begun continue.
const requestTimeout = 6 * time.Second

const (
	requestIDHeader = "X-Request-Id"
	requestIDKey    = "request_id"
	errorKey        = "error"
)

// setError stores an error for the request's log line.
func setError(c *gin.Context, err error) {
	if err != nil {
		c.Set(errorKey, err)
	}
}

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

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

// streamRoute is the route of streams, the only one without a time limit.
const streamRoute = "/v1/boards/:board/friends/stream"

// clientGone reports whether a request failed because its client disconnected.
func clientGone(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}
