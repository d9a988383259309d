package cache

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

// Circles is a near cache of cached sets, such as friend sets. It returns a copy only
// if it can prove that the set was this one within the last staleness: all changes that
// were complete before are in it. Safe for concurrent use. Run must run.
//
// It drops a copy when the stream of changes names its set, and keeps a set that was
// read only if Redis had it and the stream has not named it since the reading began.
// Redis removes a set, and refuses to store it, before the stream names it. So a copy
// that was read after the entry is not from before the change.
type Circles struct {
	staleness time.Duration
	elapsed   models.Clock
	began     time.Time // times are counted from here, by elapsed
	follower  changes.Follower[int, Changed]
	streams   []*changes.Stream[int, Changed]
	copies    *Memory
	stats     CircleStats
}

// copyLifetime is the longest that a copy is used. Redis, too, keeps a set for a limited time
// only.
const copyLifetime = 10 * time.Minute

// CircleStats counts the work of this process.
type CircleStats struct {
	// Near are the sets that were returned from memory. Unknown are those that were not
	// in memory, and Unproven those whose copies might have been too old.
	Near, Unknown, Unproven atomic.Int64
	// StartedOver counts how often the copies of a stream were dropped because entries
	// of it may have been missed.
	StartedOver atomic.Int64
}

// newCircles is NewCircles with a source that has so many streams of changes, numbered from 0.
func newCircles(
	source changes.Source[int, Changed], streams int, staleness time.Duration, memory func() int64,
	elapsed models.Clock, log *slog.Logger,
) *Circles {
	c := &Circles{
		staleness: staleness, elapsed: elapsed, began: elapsed(), copies: NewMemory(copyLifetime, memory, elapsed),
	}
	c.follower = changes.Follower[int, Changed]{
		Source: source, Elapsed: elapsed, Count: changes.PageSize,
		Failed: func(ctx context.Context, stream int, err error) {
			log.WarnContext(ctx, "a stream of changed sets can't be read", "stream", stream, "error", err)
		},
	}
	for i := range streams {
		c.streams = append(c.streams, c.follower.Stream(i, &streamCopies{c, i}))
	}
	return c
}

// Members returns the members of a set, in no particular order; the caller may change
// them. They are from memory if that is proven to be recent enough: all changes that
// were complete before asOf are in them. Otherwise Members calls read, and asOf is zero.
func (c *Circles) Members(
	ctx context.Context, of Set, read Read,
) (members []models.RowID, asOf time.Time, err error) {
	// The proof comes first: what it proves is applied to the copies already.
	if proven, recent := c.recent(keys.StripeOf(of.Owner)); !recent {
		c.stats.Unproven.Add(1)
	} else if members, ok := c.copies.Get(of); ok {
		c.stats.Near.Add(1)
		return members, proven, nil
	} else {
		c.stats.Unknown.Add(1)
	}
	keep, r := false, c.copies.Begin(of)
	defer func() { c.copies.End(r, members, keep) }()
	members, stored, err := read(ctx)
	keep = err == nil && stored
	return members, time.Time{}, err
}

// Forget removes the copies of sets, and prevents copies of what is being read. It
// makes a process see its own changes at once.
func (c *Circles) Forget(sets []Set) { c.copies.Forget(sets) }

// Stats returns the counts of this process.
func (c *Circles) Stats() *CircleStats { return &c.stats }

// Bytes returns how many bytes the copies take, and how many copies there are.
func (c *Circles) Bytes() (bytes, copies int64) { return c.copies.Size() }

// Age returns the age of the oldest proof: every change that was complete that long ago
// is in the copies. It is the time since the near cache began if nothing is proven.
func (c *Circles) Age() time.Duration {
	oldest := c.elapsed()
	for _, s := range c.streams {
		proven, ok := s.Proven()
		if !ok {
			return c.elapsed().Sub(c.began)
		}
		if proven.Before(oldest) {
			oldest = proven
		}
	}
	return c.elapsed().Sub(oldest)
}

// recent returns when the copies of a stripe's sets were proven to be complete, and whether
// that is recent enough.
func (c *Circles) recent(stripe int) (proven time.Time, recent bool) {
	proven, ok := c.streams[stripe%len(c.streams)].Proven()
	return proven, ok && c.elapsed().Sub(proven) <= c.staleness
}

// Run follows the streams of changes, and keeps the copies within their memory, until ctx
// ends.
func (c *Circles) Run(ctx context.Context) {
	var reads sync.WaitGroup
	defer reads.Wait()
	pause.Every(ctx, max(c.staleness/changes.PollsInBound, time.Millisecond), func() {
		c.follower.Poll(ctx, c.streams, &reads)
		c.copies.Shrink()
	})
}

// Round does once what Run does repeatedly, and returns when it is done.
func (c *Circles) Round(ctx context.Context) {
	var reads sync.WaitGroup
	c.follower.Poll(ctx, c.streams, &reads)
	reads.Wait()
	c.copies.Shrink()
}

// streamCopies are the copies of the sets whose changes are in one stream.
type streamCopies struct {
	circles *Circles
	stream  int
}

// Begin drops the copies: what was read until now may be from before a change that the stream
// lacks.
func (s *streamCopies) Begin(changes.Place) error {
	s.reset()
	return nil
}

// Apply drops the copies of the sets that are named.
func (s *streamCopies) Apply(page changes.Page[Changed], _ time.Time) error {
	for _, entry := range page.Entries {
		if entry.Dropped {
			s.reset()
		}
		s.circles.Forget(entry.Sets)
	}
	return nil
}

// Drop drops all copies of the stream.
func (s *streamCopies) Drop(error) {
	s.circles.stats.StartedOver.Add(1)
	s.reset()
}

func (s *streamCopies) reset() {
	for i := s.stream; i < keys.Stripes; i += len(s.circles.streams) {
		s.circles.copies.Reset(i)
	}
}
