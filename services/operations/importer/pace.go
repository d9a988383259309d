package importer

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/internal/pause"
)

const (
	// chunkTime is how long it should take to store a chunk, after its users and
	// friendships were looked up. The longer, the less each friendship costs, because each
	// user is counted once for each chunk. Friend changes of the chunk's users wait as long.
	chunkTime = 3 * time.Second
	// gentleFriends and gentleSteps are how long it should take to look up the users of a
	// chunk of a gentle import and to store it. Rankings wait for the processor meanwhile.
	// A chunk of friendships has higher fixed costs.
	gentleFriends = 50 * time.Millisecond
	gentleSteps   = 10 * time.Millisecond
	// sqliteChunk is how long it should take to store a chunk in SQLite, where uploads wait
	// meanwhile.
	sqliteChunk = 20 * time.Millisecond
	// firstChunk is the number of lines of the first chunk, and minChunk and maxChunk
	// bound that of the others.
	firstChunk = 2_000
	minChunk   = 500
	maxChunk   = 300_000
)

// pace decides how many lines are stored at once, and how long a gentle import pauses
// between. Safe for concurrent use.
type pace struct {
	gently    bool
	chunkTime time.Duration
	lines     atomic.Int64
}

// newPace returns the pace of an import, whose chunks take gentleTime if it is gentle.
func (s *Service) newPace(gently bool, gentleTime time.Duration) *pace {
	p := &pace{gently: gently, chunkTime: chunkTime}
	p.lines.Store(firstChunk)
	if gently {
		p.chunkTime = gentleTime
	}
	if s.OneWriter {
		p.chunkTime = min(p.chunkTime, sqliteChunk)
		p.lines.Store(minChunk)
	}
	return p
}

// size returns the number of lines of the next chunk.
func (p *pace) size() int { return int(p.lines.Load()) }

// stored notes how long it took to look up the users of a chunk, and then to store its
// lines. A gentle import, which does one after the other, pauses for as long as both, or
// until ctx ends.
func (p *pace) stored(ctx context.Context, lines int, lookup, store time.Duration) {
	if !p.gently {
		p.lines.Store(nextSize(lines, store, p.chunkTime))
		return
	}
	took := lookup + store
	p.lines.Store(nextSize(lines, took, p.chunkTime))
	_ = pause.For(ctx, took) // the next chunk ends with ctx
}

// nextSize returns the number of lines that would have taken the target time, but at
// most eight times and at least an eighth as many as these.
func nextSize(lines int, took, target time.Duration) int64 {
	factor := min(max(target.Seconds()/max(took, 1).Seconds(), 0.125), 8)
	return min(max(int64(float64(lines)*factor), minChunk), maxChunk)
}

// inChunks runs read, which passes chunks on, and stores them in their order. While one
// chunk is stored the next is read, unless the import is gentle. If storing fails, or ctx
// ends, reading ends, too: at the latest with a line that is being waited for, or at once
// if in has a deadline.
func inChunks[C any](
	ctx context.Context, in io.Reader, gently bool,
	read func(ctx context.Context, pass func(C) error) error, store func(context.Context, C) error,
) error {
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() {
		// Reading from a pipe or a terminal blocks until something arrives. A regular
		// file supports no deadline and never blocks.
		if file, ok := in.(interface{ SetReadDeadline(t time.Time) error }); ok {
			_ = file.SetReadDeadline(time.Now())
		}
	})()
	if gently {
		return read(ctx, func(c C) error { return store(ctx, c) })
	}
	chunks := make(chan C)
	g.Go(func() error {
		defer close(chunks)
		return read(ctx, func(c C) error {
			select {
			case chunks <- c:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	g.Go(func() error {
		for c := range chunks {
			if err := store(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}
