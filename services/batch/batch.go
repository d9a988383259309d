// Package batch gathers calls that come at the same time, so that one write of
// a store serves many of them.
package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
)

const (
	// queueLength and queueItems bound the calls that wait for the next flush,
	// and the items that these bring: about 4 MB.
	queueLength = 4096
	queueItems  = 50_000
	// callTimeout bounds how long a call waits for its answer. One that has
	// waited longer is not flushed any more: nobody was promised anything.
	callTimeout = 5 * time.Second
	// flushTimeout bounds one flush. It runs without any caller's context: a
	// client that hangs up must not cancel the others' writes, nor its own.
	flushTimeout = 3 * time.Second
)

// ErrClosed is why a call is refused after Close.
var ErrClosed = errors.New("closed")

// What else a call may hear that is not flushed.
var (
	errFull    = errors.New("the queue is full")
	errExpired = errors.New("waited too long")
)

// Batcher is a group commit: calls that arrive while every worker is at a flush
// are gathered and make up the next one. With nothing to gather a call is
// flushed at once; there is no timer to wait for. Safe for concurrent use.
type Batcher[T any] struct {
	flush          func(context.Context, []T) []error
	limit, workers int

	calls   chan *call[T]
	queued  atomic.Int64 // items in calls
	running sync.WaitGroup

	mu     sync.RWMutex // held for reading while a call enters the queue
	closed bool
}

type call[T any] struct {
	items   []T
	expires time.Time
	// result has room for the one answer, so that no worker waits for a caller
	// that has left.
	result chan error
}

// New returns a batcher, whose workers Start starts. workers is the number of
// flushes that may run at the same time. flush applies the items of several
// calls in order and never splits the items of one call. It returns nil if all
// items are applied, otherwise one error for each item. It receives up to limit
// items, or more if a single call has more, in a slice that it must not retain.
func New[T any](limit, workers int, flush func(context.Context, []T) []error) *Batcher[T] {
	return &Batcher[T]{flush: flush, limit: limit, workers: workers, calls: make(chan *call[T], queueLength)}
}

// Start starts the workers, which run until Close. It must be called once; calls
// submitted before it wait for it.
func (g *Batcher[T]) Start() {
	for range g.workers {
		g.running.Go(g.run)
	}
}

// Submit applies the items with the next flush and answers their own result: nil
// only if every one of them is applied. An error may also mean that nobody
// knows; the caller tries again. Once the call is in the queue its items are
// flushed, whether or not ctx ends meanwhile.
func (g *Batcher[T]) Submit(ctx context.Context, items []T) error {
	c := &call[T]{items: items, expires: time.Now().Add(callTimeout), result: make(chan error, 1)}
	if err := g.enqueue(c); err != nil {
		return models.Unavailable("join the flush", err)
	}
	timeout := time.NewTimer(callTimeout)
	defer timeout.Stop()
	select {
	case err := <-c.result:
		return err
	case <-ctx.Done():
		return models.Unavailable("wait for the flush", ctx.Err())
	case <-timeout.C:
		return models.Unavailable("wait for the flush", errExpired)
	}
}

// enqueue puts a call into the queue, or refuses it at once: where the queue
// is full the store is slow, and waiting would only make it fuller.
func (g *Batcher[T]) enqueue(c *call[T]) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return ErrClosed
	}
	n := int64(len(c.items))
	if g.queued.Add(n) > queueItems {
		g.queued.Add(-n)
		return errFull
	}
	select {
	case g.calls <- c:
		return nil
	default:
		g.queued.Add(-n)
		return errFull
	}
}

// Waiting is the number of calls that wait for the next flush.
func (g *Batcher[T]) Waiting() int { return len(g.calls) }

// Close lets no more calls in, flushes what is queued, and returns when all
// callers have their answer: callTimeout and one flush later at the latest.
func (g *Batcher[T]) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.calls)
	}
	g.mu.Unlock()
	g.running.Wait()
}

func (g *Batcher[T]) run() {
	var (
		batch []*call[T]
		items []T
	)
	for first := range g.calls {
		batch, items = batch[:0], items[:0]
		for c, ok := first, true; ok; c, ok = g.next() {
			g.queued.Add(-int64(len(c.items)))
			if time.Now().After(c.expires) {
				c.result <- models.Unavailable("flush", errExpired)
				continue
			}
			batch = append(batch, c)
			items = append(items, c.items...)
			if len(items) >= g.limit {
				break
			}
		}
		if len(batch) > 0 {
			g.commit(batch, items)
		}
		clear(batch)
		clear(items)
	}
}

// next takes a call that waits already.
func (g *Batcher[T]) next() (*call[T], bool) {
	select {
	case c, ok := <-g.calls:
		return c, ok
	default:
		return nil, false
	}
}

// commit flushes the items and tells each call what became of its own.
func (g *Batcher[T]) commit(batch []*call[T], items []T) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	errs := g.flush(ctx, items)
	at := 0
	for _, c := range batch {
		var err error
		if errs != nil {
			err = cmp.Or(errs[at : at+len(c.items)]...)
		}
		at += len(c.items)
		c.result <- err
	}
}
