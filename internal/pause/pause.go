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

// ChunkRows is how many rows a step of Chunks may change: a hundredth of a second. On SQLite
// nobody else writes meanwhile.
const ChunkRows = 500

// Chunks calls do, which changes up to limit rows and returns their number, until it changes fewer.
// After each step it rests for as long as that took. It returns the number of rows together.
func Chunks(ctx context.Context, do func(limit int) (int64, error)) (rows int64, err error) {
	for {
		began := time.Now()
		n, err := do(ChunkRows)
		rows += n
		if err != nil || n < ChunkRows {
			return rows, err
		}
		if err := Rest(ctx, began, 1); err != nil {
			return rows, err
		}
	}
}
