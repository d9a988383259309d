package nearcache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/concurrent"
	"stepboard/internal/keys"
	"stepboard/internal/pause"
	"stepboard/services/people/cache"
	"stepboard/services/platform/changes"
)

const (
	// pollsInBound is how often a stream is read within the staleness.
	pollsInBound = 4
	// keepEvery is how often a follower keeps a stream and removes old entries, and
	// keepBack how far back entries stay: those that any follower may still need that
	// reads the stream more often than that.
	keepEvery = 10 * time.Second
	keepBack  = time.Minute
)

// feed is a stream of changes that is being followed.
type feed struct {
	stream int
	// proven is when the latest read was sent that has found the end of the stream, since
	// the near cache began; 0 if entries may have been missed.
	proven atomic.Int64
	// busy reports that a read is under way.
	busy atomic.Bool

	// The rest belongs to the read that is under way.

	// last is the entry that was read last, zero if the stream is not followed, and
	// server the server that it was read on.
	last   changes.Place
	server string
	// passed holds places that were read, every keepEvery, the oldest first.
	passed []passed
}

// passed is an entry that was the last of its stream at some time.
type passed struct {
	at    time.Duration
	place changes.Place
}

// age returns the age of a stream's proof; without one it is the time since the near
// cache began.
func (c *Circles) age(f *feed) time.Duration { return c.now() - time.Duration(f.proven.Load()) }

// recent returns when the copies of a stream's sets were proven to be complete, and
// whether that is recent enough.
func (c *Circles) recent(f *feed) (proven time.Duration, recent bool) {
	proven = time.Duration(f.proven.Load())
	return proven, proven > 0 && c.now()-proven <= c.staleness
}

// Run follows the streams of changes, and keeps the copies within their memory, until ctx
// ends. Streams of different servers are read independently, so that one that does not
// respond delays no others.
func (c *Circles) Run(ctx context.Context) {
	var reads sync.WaitGroup
	defer reads.Wait()
	pause.Every(ctx, max(c.staleness/pollsInBound, time.Millisecond), func() {
		c.poll(ctx, &reads)
		c.shrink()
	})
}

// Round does once what Run does repeatedly, and returns when it is done.
func (c *Circles) Round(ctx context.Context) {
	var reads sync.WaitGroup
	c.poll(ctx, &reads)
	reads.Wait()
	c.shrink()
}

// poll begins to read all streams that are not being read.
func (c *Circles) poll(ctx context.Context, reads *sync.WaitGroup) {
	var idle []int
	for _, f := range c.feeds {
		if !f.busy.Load() {
			idle = append(idle, f.stream)
		}
	}
	if len(idle) == 0 {
		return
	}
	for _, group := range c.changes.ByServer(ctx, idle) {
		feeds := make([]*feed, len(group))
		for i, stream := range group {
			feeds[i] = c.feeds[stream]
			feeds[i].busy.Store(true)
		}
		concurrent.Go(ctx, reads, func() {
			c.follow(ctx, feeds)
			for _, f := range feeds {
				f.busy.Store(false)
			}
		})
	}
}

// follow reads streams of one server to their ends.
func (c *Circles) follow(ctx context.Context, feeds []*feed) {
	for len(feeds) > 0 && ctx.Err() == nil {
		sent := c.now()
		reads := make([]cache.ChangesRead, len(feeds))
		for i, f := range feeds {
			reads[i] = cache.ChangesRead{Stream: f.stream, After: f.last, Keep: f.keep(sent)}
		}
		var unfinished []*feed
		for i, page := range c.changes.Changes(ctx, reads) {
			if page.Err != nil {
				c.fail(ctx, feeds[i], page.Err)
			} else if !c.apply(feeds[i], page, sent) {
				unfinished = append(unfinished, feeds[i])
			}
		}
		feeds = unfinished
	}
}

// keep returns the place before which entries may be removed: every follower that reads
// the stream at least once in keepBack has passed it. It is zero for most reads.
func (f *feed) keep(now time.Duration) changes.Place {
	if len(f.passed) == 0 || now-f.passed[0].at < keepBack {
		return changes.Place{}
	}
	place := f.passed[0].place
	f.passed = f.passed[1:]
	return place
}

// fail logs that a stream can't be read.
func (c *Circles) fail(ctx context.Context, f *feed, err error) {
	if ctx.Err() == nil {
		c.log.WarnContext(ctx, "a stream of changed sets can't be read", "stream", f.stream, "error", err)
	}
}

// apply applies a page that was read by a call sent at a moment. It reports whether the
// end of the stream was reached.
func (c *Circles) apply(f *feed, page cache.ChangesPage, sent time.Duration) (finished bool) {
	switch {
	case f.last == changes.Place{}:
		// What was read until now may be from before a change that the stream lacks.
		c.reset(f)
		f.server = page.Server
	case page.Missing || page.Server != f.server:
		// Another server may lack entries that were not read yet.
		c.stats.StartedOver.Add(1)
		f.proven.Store(0)
		f.last, f.passed = changes.Place{}, nil
		c.reset(f)
		return false
	case page.Dropped:
		c.reset(f)
	default:
		c.Forget(page.Changed)
	}
	f.last = page.Last
	if !page.Complete {
		return false
	}
	f.proven.Store(int64(sent))
	if n := len(f.passed); n == 0 || sent-f.passed[n-1].at >= keepEvery {
		f.passed = append(f.passed, passed{sent, f.last})
	}
	return true
}

// reset drops the copies of a stream's sets.
func (c *Circles) reset(f *feed) {
	for i := f.stream; i < keys.Stripes; i += len(c.feeds) {
		c.stripes[i].reset()
	}
}
