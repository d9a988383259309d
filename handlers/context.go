package handlers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// requestContext is the context of a request. It ends at a time, and knows who the caller
// is. It starts a timer only when somebody waits for its end: a ranking from memory is
// answered without, and a timer and its context would be a fiftieth of such a ranking's
// processor time. Safe for concurrent use once caller is set.
type requestContext struct {
	context.Context //nolint:containedctx // of the connection; this is a context itself

	ends time.Time // zero for a stream
	// caller is nil until the request was authenticated.
	caller *requester

	starting sync.Mutex
	timed    atomic.Pointer[timedContext] // nil until somebody waits
}

// timedContext is a context with a timer.
type timedContext struct {
	context.Context //nolint:containedctx // as above

	cancel context.CancelFunc
}

// requestContextKey is the key of the requestContext that a context derives from.
type requestContextKey struct{}

// Deadline is part of context.Context.
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.ends.IsZero() {
		return c.Context.Deadline()
	}
	return c.ends, true
}

// Done is part of context.Context.
func (c *requestContext) Done() <-chan struct{} {
	if c.ends.IsZero() {
		return c.Context.Done()
	}
	if timed := c.timed.Load(); timed != nil {
		return timed.Done()
	}
	c.starting.Lock()
	defer c.starting.Unlock()
	timed := c.timed.Load()
	if timed == nil {
		ctx, cancel := context.WithDeadline(c.Context, c.ends)
		timed = &timedContext{ctx, cancel}
		c.timed.Store(timed)
	}
	return timed.Done()
}

// Err is part of context.Context.
func (c *requestContext) Err() error {
	if timed := c.timed.Load(); timed != nil {
		return timed.Err()
	}
	err := c.Context.Err()
	if err == nil && !c.ends.IsZero() && !time.Now().Before(c.ends) {
		return context.DeadlineExceeded
	}
	return err
}

// Value is part of context.Context. It asks the context with the timer, if there is one, so
// that the standard library knows it, and contexts that derive from this one end with it
// without a goroutine each.
func (c *requestContext) Value(key any) any {
	if key == (requestContextKey{}) {
		return c
	}
	if timed := c.timed.Load(); timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}

// stop stops the timer. The request must be finished.
func (c *requestContext) stop() {
	if timed := c.timed.Load(); timed != nil {
		timed.cancel()
	}
}

// requestContextOf returns the requestContext that ctx derives from.
func requestContextOf(ctx context.Context) *requestContext {
	return ctx.Value(requestContextKey{}).(*requestContext)
}
