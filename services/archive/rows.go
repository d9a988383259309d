package archive

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"stepboard/models"
	"stepboard/services/score"
)

const (
	// chunkEntries is how many entries one command reads: a fraction of a
	// millisecond of Redis, so that rankings hardly wait for it.
	chunkEntries = 500
	// progressEvery is how many rows lie between two reports of progress.
	progressEvery = 100_000
)

// rowReader reads the pieces of a bucket as rows in ranking order. Of each piece
// it holds two chunks, whatever the bucket's size. One goroutine may use it.
type rowReader struct {
	codec    score.Codec
	heads    heads
	totals   totals
	progress func(moved int64)
	cancel   context.CancelFunc
	readers  sync.WaitGroup
}

// head is a piece with its next entries.
type head struct {
	entries []models.Entry
	chunks  chan chunk
	left    int64 // entries that have not come yet
}

// errStopped says that the pieces were not read to their end.
var errStopped = errors.New("reading what is set aside was stopped")

// chunk is the next entries of a piece, or why there are none. The channel of
// chunks is closed behind the last one.
type chunk struct {
	entries []models.Entry
	err     error
}

// openRows begins to read the pieces; close must follow.
func openRows(ctx context.Context, hot HotStore, bucket *models.Bucket, pieces []models.FrozenPart, progress func(moved int64)) (*rowReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &rowReader{codec: score.Of(bucket), progress: progress, cancel: cancel}
	for _, p := range pieces {
		h := &head{chunks: make(chan chunk, 1), left: p.Entries}
		s.readers.Go(func() { readPart(ctx, hot, bucket, p, h.chunks) })
		s.heads = append(s.heads, h)
	}
	for _, h := range s.heads {
		if err := h.refill(); err != nil {
			s.close()
			return nil, err
		}
	}
	heap.Init(&s.heads)
	return s, nil
}

// close ends the reading and waits for it.
func (s *rowReader) close() {
	s.cancel()
	s.readers.Wait()
}

// readPart reads a piece from its first entry to its last, one chunk ahead of
// who takes them. It rests after each for as long as that has taken: whoever
// reads boards meanwhile gets at least half of Redis, and of this process.
func readPart(ctx context.Context, hot HotStore, bucket *models.Bucket, p models.FrozenPart, chunks chan<- chunk) {
	defer close(chunks)
	for from := int64(0); from < p.Entries; {
		start := time.Now()
		entries, err := hot.ReadFrozen(ctx, bucket, p, from, chunkEntries)
		rest := time.NewTimer(time.Since(start))
		if err == nil && len(entries) == 0 {
			err = fmt.Errorf("shard %d, set aside by run %d, has lost entries: %d of %d are left", p.Shard, p.Run, from, p.Entries)
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
		select {
		case <-rest.C:
		case <-ctx.Done():
			return
		}
	}
}

// next is the next row; ok is false behind the last one.
func (s *rowReader) next() (r row, ok bool, err error) {
	if len(s.heads) == 0 {
		return row{}, false, nil
	}
	h := s.heads[0]
	entry := h.entries[0]
	if h.entries = h.entries[1:]; len(h.entries) == 0 {
		if err := h.refill(); err != nil {
			return row{}, false, err
		}
	}
	if len(h.entries) == 0 {
		heap.Pop(&s.heads)
	} else if len(s.heads) > 1 {
		heap.Fix(&s.heads, 0)
	}
	points, reachedAt := s.codec.Decode(entry.Composite)
	r = row{rank: s.totals.rows + 1, user: entry.User, score: points, reachedAt: reachedAt}
	s.totals.add(r)
	if s.totals.rows%progressEvery == 0 {
		s.progress(s.totals.rows)
	}
	return r, true, nil
}

// refill takes the piece's next chunk; none is left where it stays empty.
func (h *head) refill() error {
	c, ok := <-h.chunks
	if !ok && h.left > 0 {
		return errStopped
	}
	h.entries = c.entries
	h.left -= int64(len(c.entries))
	return c.err
}

// heads orders pieces by their next entries.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].entries[0].Compare(h[j].entries[0]) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is part of heap.Interface.
func (h *heads) Push(x any) { *h = append(*h, x.(*head)) }

// Pop is part of heap.Interface.
func (h *heads) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
