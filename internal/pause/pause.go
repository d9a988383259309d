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

// longest is the longest that After waits.
const longest = time.Second

// After waits after a step of long work, so that other callers have the store. began is when the step began. It waits
// as many times as long as the step took, but at most a second: a step that took much longer has mostly waited itself,
// for a store or for the processor. It returns the error of ctx if that ends first.
func After(ctx context.Context, began time.Time, times int) error {
	return For(ctx, min(time.Duration(times)*time.Since(began), longest))
}

// Doubled returns the pause after a failed attempt, counted from 1: first, doubled with each further one, up to most.
func Doubled(first, most time.Duration, attempt int) time.Duration {
	return min(most, first<<min(attempt-1, 30)) // a second that often is some 34 years
}

// ChunkRows is how many rows a step of Chunks may change: a hundredth of a second. On SQLite
// nobody else writes meanwhile.
const ChunkRows = 500

// Chunks calls do, which changes up to limit rows and returns their number, until it changes fewer.
// After each step it waits for as long as that took. It returns the number of rows together.
func Chunks(ctx context.Context, do func(limit int) (int64, error)) (rows int64, err error) {
	for {
		began := time.Now()
		n, err := do(ChunkRows)
		rows += n
		if err != nil || n < ChunkRows {
			return rows, err
		}
		if err := After(ctx, began, 1); err != nil {
			return rows, err
		}
	}
}
