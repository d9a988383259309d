package archive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/score"
)

const (
	// chunkEntries is the number of entries that one command reads. It takes
	// Redis a fraction of a millisecond, so that rankings hardly wait for it.
	chunkEntries = 500
	// progressEvery is the number of rows between two reports of progress.
	progressEvery = 100_000
	// maxFreezes is how often a reader freezes the bucket at most.
	maxFreezes = 5
)

// rowReader freezes a bucket and merges its frozen parts into rows in ranking
// order. It holds two chunks of each part, whatever the bucket's size. Not safe
// for concurrent use.
//
// After the last row it freezes the bucket again, because a key may have come
// back: a server that fails over or is restored forgets that it was renamed. Rows
// that it finds then follow the others, in an order of their own.
type rowReader struct {
	codec    score.Codec
	hot      HotStore
	recovery Recovery // may be nil
	bucket   *models.Bucket
	run      int
	// frozen holds the parts that are read or were read.
	frozen []models.FrozenPart
	// freezes counts the calls of open.
	freezes int
	// repeats is true if a user may occur in several rows.
	repeats bool
	// parts are those with entries left, in the order of their next entries.
	parts  []*partReader
	totals totals
	// progress is called with the number of rows after each progressEvery rows.
	progress      func(moved int64)
	progressEvery int64
	ctx           context.Context //nolint:containedctx // of the readers, which open starts and close ends
	cancel        context.CancelFunc
	readers       sync.WaitGroup
}

// partReader holds the next entries of a frozen part.
type partReader struct {
	entries []models.Entry
	chunks  chan chunk
	left    int64 // number of entries not received yet
}

// chunk holds the next entries of a part, or the error of reading them. The
// channel of chunks is closed after the last one.
type chunk struct {
	entries []models.Entry
	err     error
}

// openRows freezes a bucket under the number of a run and starts reading its
// parts. The caller must call close.
func openRows(ctx context.Context, hot HotStore, recovery Recovery, bucket *models.Bucket, run int, progressEvery int64, progress func(moved int64)) (*rowReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	rows := &rowReader{
		codec: score.Of(bucket), hot: hot, recovery: recovery, bucket: bucket, run: run,
		progress: progress, progressEvery: progressEvery, ctx: ctx, cancel: cancel,
	}
	if err := rows.open(); err != nil {
		rows.close()
		return nil, err
	}
	return rows, nil
}

// open freezes the bucket and starts reading the parts that were not read. It fails
// while Redis may lack updates. As it is called before the first row and after the
// last one, a loss during the run is noticed before the commit.
func (rows *rowReader) open() error {
	rows.freezes++
	if rows.recovery != nil {
		if err := rows.recovery.Complete(rows.ctx); err != nil {
			return err
		}
	}
	if err := rows.hot.Freeze(rows.ctx, rows.bucket, rows.run); err != nil {
		return err
	}
	failpoint.Hit("archive.frozen")
	parts, err := rows.hot.FrozenParts(rows.ctx, rows.bucket, rows.run)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if slices.Contains(rows.frozen, part) {
			continue
		}
		rows.repeats = rows.repeats || rows.freezes > 1 ||
			slices.ContainsFunc(rows.frozen, func(p models.FrozenPart) bool { return p.Shard == part.Shard })
		rows.frozen = append(rows.frozen, part)
		p := &partReader{chunks: make(chan chunk, 1), left: part.Entries}
		rows.readers.Go(func() { readPart(rows.ctx, rows.hot, rows.bucket, part, p.chunks) })
		if err := p.refill(rows.ctx); err != nil {
			return err
		}
		rows.parts = append(rows.parts, p)
	}
	slices.SortFunc(rows.parts, (*partReader).compare)
	return nil
}

// close stops reading and waits for the readers.
func (rows *rowReader) close() {
	rows.cancel()
	rows.readers.Wait()
}

// readPart reads a part from its first entry to its last, one chunk ahead of
// the receiver. After each chunk it pauses for as long as the chunk took, so
// that other readers of boards get at least half of Redis and of this process.
func readPart(ctx context.Context, hot HotStore, bucket *models.Bucket, p models.FrozenPart, chunks chan<- chunk) {
	defer close(chunks)
	for from := int64(0); from < p.Entries; {
		start := time.Now()
		entries, err := hot.ReadFrozen(ctx, bucket, p, from, chunkEntries)
		took := time.Since(start)
		if err == nil && len(entries) == 0 {
			err = fmt.Errorf("shard %d, frozen by run %d, has lost entries: %d of %d are left", p.Shard, p.Run, from, p.Entries)
		}
		select {
		case chunks <- chunk{entries, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		from += int64(len(entries))
		if pause.For(ctx, took) != nil {
			return
		}
	}
}

// next returns the next row. After the last one ok is false.
func (rows *rowReader) next() (r row, ok bool, err error) {
	if len(rows.parts) == 0 && rows.freezes < maxFreezes {
		if err := rows.open(); err != nil {
			return row{}, false, err
		}
	}
	if len(rows.parts) == 0 {
		return row{}, false, nil
	}
	p, others := rows.parts[0], rows.parts[1:]
	entry := p.entries[0]
	if p.entries = p.entries[1:]; len(p.entries) == 0 {
		if err := p.refill(rows.ctx); err != nil {
			return row{}, false, err
		}
	}
	if len(p.entries) == 0 {
		rows.parts = others
	} else if before, _ := slices.BinarySearchFunc(others, p, (*partReader).compare); before > 0 {
		copy(rows.parts, others[:before])
		rows.parts[before] = p
	}
	r = rowOf(rows.codec, entry, rows.totals.rows+1)
	rows.totals.add(r)
	if rows.totals.rows%rows.progressEvery == 0 {
		rows.progress(rows.totals.rows)
	}
	return r, true, nil
}

// refill receives the part's next chunk. After the last chunk entries is empty.
func (p *partReader) refill(ctx context.Context) error {
	c, ok := <-p.chunks
	// If ctx has ended, the reader may end without sending its error.
	if !ok && p.left > 0 || c.err != nil && ctx.Err() != nil {
		return models.Unavailable("read a frozen part", ctx.Err())
	}
	p.entries = c.entries
	p.left -= int64(len(c.entries))
	return c.err
}

// compare orders parts by their next entries.
func (p *partReader) compare(other *partReader) int { return p.entries[0].Compare(other.entries[0]) }
