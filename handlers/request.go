package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/gin-gonic/gin"
)

// requestTimeout bounds a request's reads of the stores, well before the
// server gives up on writing the answer. Changes that have begun go on.
const requestTimeout = 6 * time.Second

const (
	requestIDHeader = "X-Request-Id"
	requestIDKey    = "request_id"
	errorKey        = "error"
)

// setError keeps an error for the request's log line.
func setError(c *gin.Context, err error) {
	if err != nil {
		c.Set(errorKey, err)
	}
}

func requestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// validRequestID takes what fits in a log line: 1 to 64 visible ASCII
// characters.
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

// streamRoute is the only route whose requests last.
const streamRoute = "/v1/boards/:board/friends/stream"

// clientGone tells whether an error only says that nobody listens any more.
func clientGone(ctx context.Context, err error) bool {
	return err != nil && errors.Is(ctx.Err(), context.Canceled)
}
