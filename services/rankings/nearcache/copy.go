package nearcache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

const (
	// copyPause is the pause after each page, as a multiple of the time that it took: a
	// process that copies takes at most a tenth of a server, and less if that is busy.
	copyPause = 9
	// copyRetry is the pause after a page that could not be read.
	copyRetry = time.Second
)

// copying is the copy of a part, as far as it was made. It ends if the part gets another one, or none.
type copying struct {
	part   *part
	behind models.Entry // the last entry that was copied
	// rows are users whose entries are to be read again, while the part has all others; nil in a copy of
	// the whole part.
	rows []models.RowID
	// ends is the id of the newest entry of the stream when the last page was read, "" before. A user who
	// is raised during the copy may be on no page, and is in the stream before this entry. Guarded by the
	// stream's lock.
	ends string
}

// copyQueue holds copies that are to be made, one after the other; those of single users come
// first. Safe for concurrent use.
type copyQueue struct {
	mu    sync.Mutex
	queue []*copying
	added chan struct{} // of size 1
}

func newCopyQueue() copyQueue { return copyQueue{added: make(chan struct{}, 1)} }

// add adds a copy of a part, or of some of its users. The part's stream is locked, and followed.
func (q *copyQueue) add(p *part, rows []models.RowID) {
	p.copying = &copying{part: p, behind: board.Top, rows: rows}
	q.push(p.copying, rows != nil)
}

func (q *copyQueue) push(job *copying, first bool) {
	q.mu.Lock()
	if first {
		q.queue = slices.Insert(q.queue, 0, job)
	} else {
		q.queue = append(q.queue, job)
	}
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// take returns a copy, or nil if there is none.
func (q *copyQueue) take() *copying {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return nil
	}
	job := q.queue[0]
	q.queue = q.queue[1:]
	return job
}

// next waits for a copy. It returns nil once ctx has ended.
func (q *copyQueue) next(ctx context.Context) *copying {
	for ctx.Err() == nil {
		if job := q.take(); job != nil {
			return job
		}
		select {
		case <-ctx.Done():
		case <-q.added:
		}
	}
	return nil
}

// runCopies makes the copies until ctx ends.
func (c *Cache) runCopies(ctx context.Context) {
	for {
		job := c.copies.next(ctx)
		if job == nil {
			return
		}
		if job.behind == board.Top && job.rows == nil {
			c.stats.Copies.Add(1)
		}
		began := time.Now()
		more, err := c.copyPage(ctx, job)
		rest := copyPause * time.Since(began)
		if err != nil {
			c.report(ctx, err)
			rest = copyRetry
		}
		_ = pause.For(ctx, rest) // the queue returns nothing once ctx has ended
		if more || err != nil {
			c.copies.push(job, err == nil) // parts on other servers come first
		}
	}
}

// copyPage copies one page of a part and reports whether more follow.
//
// What the page shows was in the stream when it was read. So the newest entry of that
// moment must be read by following the stream, before or later. Otherwise Redis has lost
// it, and the page shows what is no longer there. Nor may it be older than an entry that was
// known before, such as from the page before: whom that entry had raised ahead of that page is
// on no page, and is now back among those whom that page has passed.
func (c *Cache) copyPage(ctx context.Context, job *copying) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	p, s := job.part, job.part.stream
	s.Lock()
	if p.copying != job {
		s.Unlock()
		return false, nil
	}
	known := slices.MaxFunc(slices.AppendSeq([]string{s.last}, maps.Keys(s.expected)), compareIDs)
	s.Unlock()

	entries, newest, more, err := c.readPage(ctx, job)
	s.Lock()
	defer s.Unlock()
	if p.copying != job || err != nil {
		return false, err
	}
	_, err = s.expect(newest, c.o.Elapsed())
	if err == nil && compareIDs(newest, known) < 0 {
		err = changes.ErrLost // Redis went back to an earlier state
	}
	if err != nil {
		s.StartOver(err)
		return false, nil
	}
	p.raise(entries)
	if !more {
		job.ends = newest
		p.finish()
		return false, nil
	}
	job.behind = entries[len(entries)-1]
	return true, nil
}

// readPage reads the next page of a copy. more reports that others follow.
func (c *Cache) readPage(ctx context.Context, job *copying) (entries []models.Entry, newest string, more bool, err error) {
	part := models.BoardPart{Bucket: job.part.table.bucket, Shard: job.part.shard}
	if job.rows != nil {
		entries, newest, err = c.o.Source.CopyRows(ctx, part, job.rows)
		return entries, newest, false, err
	}
	entries, newest, err = c.o.Source.CopyPart(ctx, part, job.behind, c.copiedAtOnce)
	return entries, newest, len(entries) == c.copiedAtOnce, err
}
