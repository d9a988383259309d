package nearcache

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
)

// SetChanges reads the streams of changes of cached sets. Implemented by cache.Store.
type SetChanges interface {
	Streams() int
	ByServer(ctx context.Context, streams []int) [][]int
	Changes(ctx context.Context, reads []cache.ChangesRead) []cache.ChangesPage
}

// Circles is a near cache of cached sets, such as friend sets. It returns a copy only
// if it can prove that the set was this one within the last staleness: all changes that
// were complete before are in it. Safe for concurrent use. Run must run.
//
// It drops a copy when the stream of changes names its set, and keeps a set that was
// read only if Redis had it and the stream has not named it since the reading began.
// Redis removes a set, and refuses to store it, before the stream names it. So a copy
// that was read after the entry is not from before the change.
type Circles struct {
	changes   SetChanges
	staleness time.Duration
	log       *slog.Logger
	elapsed   models.Clock
	began     time.Time // times are counted from here, by elapsed
	feeds     []*feed
	stripes   [keys.Stripes]stripe
	memory    func() int64
	stats     CircleStats
}

// CircleStats counts the work of this process.
type CircleStats struct {
	// Near are the sets that were returned from memory. Unknown are those that were not
	// in memory, and Unproven those whose copies might have been too old.
	Near, Unknown, Unproven atomic.Int64
	// StartedOver counts how often the copies of a stream were dropped because entries
	// of it may have been missed.
	StartedOver atomic.Int64
}

// NewCircles returns an empty near cache whose copies are at most so stale. memory
// returns how many bytes all copies may take, which may change; it must be quick. elapsed is
// the clock that ages are measured by: time.Now, whose differences are those of the monotonic
// clock, except in tests.
func NewCircles(
	changes SetChanges, staleness time.Duration, memory func() int64, elapsed models.Clock, log *slog.Logger,
) *Circles {
	c := &Circles{changes: changes, staleness: staleness, memory: memory, log: log, elapsed: elapsed, began: elapsed()}
	for i := range changes.Streams() {
		c.feeds = append(c.feeds, &feed{stream: i})
	}
	for i := range c.stripes {
		c.stripes[i].reset()
	}
	return c
}

// Members returns the members of a set, in no particular order; the caller may change
// them. They are from memory if that is proven to be recent enough: all changes that
// were complete before asOf are in them. Otherwise Members calls read, and asOf is zero.
func (c *Circles) Members(
	ctx context.Context, of cache.Set, read cache.Read,
) (members []models.RowID, asOf time.Time, err error) {
	number := keys.StripeOf(of.Owner)
	stripe := &c.stripes[number]
	// The proof comes first: what it proves is applied to the copies already.
	if proven, recent := c.recent(c.feeds[number%len(c.feeds)]); !recent {
		c.stats.Unproven.Add(1)
	} else if packed, ok := stripe.get(of, c.now()); ok {
		c.stats.Near.Add(1)
		return unpack(packed), c.began.Add(proven), nil
	} else {
		c.stats.Unknown.Add(1)
	}
	began := c.now()
	var packed []byte
	r := stripe.begin(of)
	defer func() { stripe.end(r, packed, began, c.perStripe()) }()
	members, stored, err := read(ctx)
	if err == nil && stored && r != nil {
		packed = pack(members)
	}
	return members, time.Time{}, err
}

// Forget removes the copies of sets, and prevents copies of what is being read. It
// makes a process see its own changes at once.
func (c *Circles) Forget(sets []cache.Set) {
	for _, of := range sets {
		c.stripes[keys.StripeOf(of.Owner)].forget(of)
	}
}

// perStripe returns how many bytes the copies of one stripe may take.
func (c *Circles) perStripe() int64 { return c.memory() / keys.Stripes }

// shrink drops the copies that no longer fit.
func (c *Circles) shrink() {
	most := c.perStripe()
	for i := range c.stripes {
		c.stripes[i].shrink(most)
	}
}

// Stats returns the counts of this process.
func (c *Circles) Stats() *CircleStats { return &c.stats }

// Bytes returns how many bytes the copies take, and how many copies there are.
func (c *Circles) Bytes() (bytes, copies int64) {
	for i := range c.stripes {
		b, n := c.stripes[i].size()
		bytes, copies = bytes+b, copies+n
	}
	return bytes, copies
}

// Age returns the age of the oldest proof: every change that was complete that long ago
// is in the copies. It is the time since the near cache began if nothing is proven.
func (c *Circles) Age() time.Duration {
	var oldest time.Duration
	for _, f := range c.feeds {
		oldest = max(oldest, c.age(f))
	}
	return oldest
}

// now returns the time since the near cache began, which is never zero.
func (c *Circles) now() time.Duration { return c.elapsed().Sub(c.began) + 1 }
