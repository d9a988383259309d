// Package pause waits between the rounds of work that repeats, and the steps of long work.
package pause

import (
	"context"
	"time"
)

// For waits for d, or returns the error of ctx if that ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Every calls do at once and then at each interval until ctx ends. A call that takes longer than
// the interval is followed by the next one at once.
func Every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// restMost is the longest rest.
const restMost = time.Second

// Rest waits after a step of long work, in favor of other callers: some times as long as the
// step took that has begun at a given moment, but at most a second. A step that took much
// longer has mostly waited itself, for a store or for the processor. It returns the error of
// ctx if that ends first.
func Rest(ctx context.Context, began time.Time, times int) error {
	return For(ctx, min(time.Duration(times)*time.Since(began), restMost))
}
