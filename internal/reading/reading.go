// Package reading lets concurrent calls share a reading of the same thing.
package reading

import (
	"context"
	"sync/atomic"
	"time"
)

// Shared reads something once at a time, from a store for example. Safe for concurrent use.
type Shared struct {
	timeout time.Duration
	turn    chan struct{} // has room for one: the call that reads
	begun   atomic.Int64  // how many readings have begun
	err     error         // of the last reading; guarded by turn
	seldom  time.Time     // when Seldom has read last; guarded by turn
}

// New returns a Shared that ends each reading after timeout.
func New(timeout time.Duration) *Shared {
	return &Shared{timeout: timeout, turn: make(chan struct{}, 1)}
}

// Do waits until nobody reads, reads, and returns the error of read. The end of ctx ends both.
func (r *Shared) Do(ctx context.Context, read func(context.Context) error) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	return r.read(ctx, read)
}

// Share returns when a reading that began after the call has ended, with its error: its own, or
// that of another call, which others reports. So calls that arrive during a reading share the
// next one. The end of ctx ends the waiting, but no reading.
func (r *Shared) Share(ctx context.Context, read func(context.Context) error) (others bool, err error) {
	before := r.begun.Load()
	if err := r.begin(ctx); err != nil {
		return false, err
	}
	defer r.end()
	if r.begun.Load() > before {
		return true, r.err
	}
	return false, r.read(context.WithoutCancel(ctx), read)
}

// Seldom is Share, but does not read within a pause after the last time that it has. It is for callers who
// name something unknown, which may have come meanwhile, or be made up.
func (r *Shared) Seldom(ctx context.Context, pause time.Duration, read func(context.Context) error) error {
	_, err := r.Share(ctx, func(ctx context.Context) error {
		if time.Since(r.seldom) < pause {
			return nil
		}
		r.seldom = time.Now()
		return read(ctx)
	})
	return err
}

func (r *Shared) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil { // select would choose at random
		return err
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Shared) end() { <-r.turn }

func (r *Shared) read(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	r.begun.Add(1)
	r.err = read(ctx)
	return r.err
}
