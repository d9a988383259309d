// Package batch groups concurrent calls, so that one write to a store serves many of them.
//
// A call that finds an idle worker is flushed at once. Calls that arrive during a flush make up
// the next one. So batches grow with the load, without a timer to tune. The queue is bounded,
// and a call that does not fit is refused at once, because waiting makes a slow store no faster.
// Each caller gets the result of its own items. Flushes do not use the callers' contexts: a
// client that hangs up neither loses its accepted upload nor cancels the uploads of others.
//
// Uploads of phones have one worker: two would halve the flushes, and cost Redis twice as much
// for each upload. Batches of backends, which are large alone, have a batcher of their own with
// two, so that one is encoded while Redis works on the other.
package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"stepboard/models"
)

const (
	// maxQueuedCalls and maxQueuedItems bound the queue of the next flushes: the
	// number of calls, and the number of items of all calls, about 4 MB.
	maxQueuedCalls = 4096
	maxQueuedItems = 50_000
	// callTimeout bounds how long a call waits for its result. A call that has
	// waited longer in the queue is not flushed; its caller has an error already.
	callTimeout = 5 * time.Second
	// flushTimeout bounds one flush. A flush does not use any caller's context: a
	// client that disconnects must cancel neither the writes of others nor its own.
	flushTimeout = 3 * time.Second
)

// ErrClosed is the cause of the error that Submit returns after Close.
var ErrClosed = errors.New("closed")

// Other causes of errors of calls that were not flushed.
var (
	errFull    = errors.New("the queue is full")
	errExpired = errors.New("waited too long")
)

// Batcher implements group commit. Calls that arrive while every worker is busy
// with a flush are queued and make up the next flush. If a worker is idle, a call
// is flushed at once; no timer delays it. Workers are goroutines that exist while there
// are calls. Safe for concurrent use.
type Batcher[T any] struct {
	flush          func(context.Context, []T) []error
	limit, workers int
	running        sync.WaitGroup

	mu     sync.Mutex
	calls  []*call[T] // queued, the longest first
	items  int        // of the queued calls
	active int        // workers
	closed bool
}

type call[T any] struct {
	ctx     context.Context //nolint:containedctx // its values are those of the flush if it is the first one
	items   []T
	expires time.Time
	// result has a buffer of one, so that no worker waits for a caller that has
	// given up.
	result chan error
}

// New returns a batcher. workers is the number of flushes that may run at the same time.
// flush applies the items of several calls in order and never splits the items of one call.
// It returns nil if all items are applied, otherwise one error for each item. Its context has
// the values of the first call's, so that a trace has what was done for it. It receives up
// to limit items, or more if a single call has more, in a slice that it must not retain.
func New[T any](limit, workers int, flush func(context.Context, []T) []error) *Batcher[T] {
	return &Batcher[T]{flush: flush, limit: limit, workers: workers}
}

// Submit applies the items with the next flush. It returns nil only if all of
// them were applied, and the first item's error otherwise. CodeUnavailable if the
// queue is full, if the batcher is closed, if ctx has ended, or if no result came within 5
// seconds or before the end of ctx; the items may have been applied all the same, and
// the caller should try again. Once the call is queued its items are flushed even if
// ctx ends.
func (b *Batcher[T]) Submit(ctx context.Context, items []T) error {
	if err := ctx.Err(); err != nil {
		return models.Unavailable("queue for the flush", err)
	}
	c := &call[T]{ctx: ctx, items: items, expires: time.Now().Add(callTimeout), result: make(chan error, 1)}
	if err := b.enqueue(c); err != nil {
		return models.Unavailable("queue for the flush", err)
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

// enqueue puts a call into the queue, and starts a worker if one more may run. If the queue
// is full it returns an error at once: the store is slow then, and waiting would only add to
// its load.
func (b *Batcher[T]) enqueue(c *call[T]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case len(b.calls) >= maxQueuedCalls || b.items+len(c.items) > maxQueuedItems:
		return errFull
	}
	b.calls, b.items = append(b.calls, c), b.items+len(c.items)
	if b.active < b.workers {
		b.active++
		b.running.Go(b.work)
	}
	return nil
}

// Waiting returns the number of queued calls.
func (b *Batcher[T]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// Close refuses new calls, flushes the queued ones, and returns when all callers
// have their result: after callTimeout and one flush at the latest. It may be
// called more than once.
func (b *Batcher[T]) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// work is a worker: it flushes queued calls until the queue is empty.
func (b *Batcher[T]) work() {
	var items []T
	for {
		calls := b.next()
		if calls == nil {
			return
		}
		items = items[:0]
		waiting := calls[:0]
		for _, c := range calls {
			if time.Now().After(c.expires) {
				c.result <- models.Unavailable("flush", errExpired)
				continue
			}
			waiting, items = append(waiting, c), append(items, c.items...)
		}
		if len(waiting) > 0 {
			b.commit(waiting, items)
		}
		clear(items)
	}
}

// next takes the calls of a flush from the queue. If there are none, it returns nil, and the
// worker ends.
func (b *Batcher[T]) next() []*call[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, items := 0, 0
	for n < len(b.calls) && items < b.limit {
		items += len(b.calls[n].items)
		n++
	}
	if n == 0 {
		b.active--
		return nil
	}
	calls := b.calls[:n:n]
	if b.calls, b.items = b.calls[n:], b.items-items; len(b.calls) == 0 {
		b.calls = nil
	}
	return calls
}

// commit flushes the items and sends each call its result.
func (b *Batcher[T]) commit(batch []*call[T], items []T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), flushTimeout)
	defer cancel()
	errs := b.flush(ctx, items)
	first := 0 // index of the call's first item
	for _, c := range batch {
		var err error
		if errs != nil {
			err = cmp.Or(errs[first : first+len(c.items)]...)
		}
		first += len(c.items)
		c.result <- err
	}
}
