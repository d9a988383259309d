package nearcache

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// Source reads buckets. Implemented by board.Store.
type Source interface {
	// CopyPart returns up to n entries of a shard, behind a position in ranking order,
	// and the id of the newest entry of its stream at the same moment, "" if it has none.
	CopyPart(
		ctx context.Context, p models.BoardPart, behind models.Entry, n int,
	) (entries []models.Entry, newest string, err error)
	// CopyRows is CopyPart of up to maxLowered users. Those without a score are left out.
	CopyRows(ctx context.Context, p models.BoardPart, users []models.RowID) (entries []models.Entry, newest string, err error)
}

// Options holds what a Cache is built on.
type Options struct {
	Source Source
	// Changes reads the change streams of the buckets.
	Changes changes.Source[board.ChangeStream, board.Change]
	// Buckets returns the buckets that are current or will be. Those with a change stream
	// are held while they are hot. It makes no I/O.
	Buckets func(now time.Time) []*models.Bucket
	// MaxStaleness is how old an answer may be.
	MaxStaleness time.Duration
	// Memory bounds the tables, and OrderMemory the order lists, in bytes.
	Memory, OrderMemory int64
	Clock               models.Clock
	Log                 *slog.Logger
	// Spread is the longest time to wait before streams are followed again after a loss,
	// of which each process waits a random part; 0: 5 s.
	Spread time.Duration
	// Elapsed is the clock that ages are measured by; nil: time.Now, whose differences
	// are those of the monotonic clock.
	Elapsed models.Clock
	// Random decides how much of Spread to wait; nil: rand.Int64N.
	Random models.Random
}

const (
	// defaultSpread is the default of Options.Spread.
	defaultSpread = 5 * time.Second
	// readTimeout bounds the reading of a page of a copy.
	readTimeout = 5 * time.Second
	// copiedAtOnce is how many entries of a bucket are copied at once: half a millisecond
	// of Redis.
	copiedAtOnce = 1000
)

// Cache holds copies of buckets. Safe for concurrent use. It is empty until Run or Round fills it.
type Cache struct {
	o     Options
	began time.Time // times are counted from here, by Options.Elapsed

	budget, orders budget
	stats          *Stats
	tables         atomic.Pointer[map[bucketKey]*table]
	// resets counts how often anything was removed from a copy. A read during which it
	// has changed is not believed.
	resets atomic.Int64

	copiedAtOnce int

	follower changes.Follower[board.ChangeStream, board.Change]
	streams  map[board.ChangeStream]*stream // of the tables; only poll uses it
	copies   copyQueue
}

// New returns an empty cache, which holds nothing before Run or Round.
func New(o Options) *Cache {
	o.Spread = cmp.Or(o.Spread, defaultSpread)
	if o.Elapsed == nil {
		o.Elapsed = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	c := &Cache{
		o: o, copiedAtOnce: copiedAtOnce,
		streams: make(map[board.ChangeStream]*stream), copies: newCopyQueue(), stats: newStats(),
		began: o.Elapsed(),
	}
	c.follower = changes.Follower[board.ChangeStream, board.Change]{
		Source: o.Changes, Elapsed: o.Elapsed, Count: changes.PageSize,
		Wait:   func() time.Duration { return time.Duration(o.Random(int64(o.Spread))) },
		Failed: func(ctx context.Context, _ board.ChangeStream, err error) { c.report(ctx, err) },
	}
	c.budget.limit, c.orders.limit = o.Memory, o.OrderMemory
	c.tables.Store(&map[bucketKey]*table{})
	return c
}

// Run holds the current buckets and follows their streams until ctx ends. It must be called at
// most once.
func (c *Cache) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() {
		pause.Every(ctx, c.o.MaxStaleness/changes.PollsInBound, func() { c.poll(ctx, &running) })
	})
	running.Go(func() { c.runCopies(ctx) })
	running.Go(func() {
		pause.Every(ctx, c.o.MaxStaleness/changes.PollsInBound, func() { c.holdOrders(ctx) })
	})
	running.Wait()
}

// Round does once what Run does repeatedly, and returns when it is done. It is called instead
// of Run.
func (c *Cache) Round(ctx context.Context) error {
	var reads sync.WaitGroup
	c.poll(ctx, &reads)
	reads.Wait()
	for job := c.copies.take(); job != nil; job = c.copies.take() {
		for more := true; more; {
			var err error
			if more, err = c.copyPage(ctx, job); err != nil {
				c.copies.push(job, false)
				return err
			}
		}
	}
	c.holdOrders(ctx)
	return nil
}

// Room returns how many bytes of Options.Memory the tables leave. No I/O.
func (c *Cache) Room() int64 { return max(0, c.budget.limit-c.budget.used.Load()) }

// Composites fills in the users' composites in a bucket, by position, 0 for a user
// without one. They include all that any process had acknowledged at the moment asOf,
// and all that this process has acknowledged. ok is false if the cache does not hold the
// bucket, or can't prove that it is fresh; Redis is to be asked then. No I/O.
func (c *Cache) Composites(
	bucket *models.Bucket, users []models.RowID, composites []models.Composite,
) (asOf time.Time, ok bool) {
	resets := c.resets.Load() // before anything else is read
	t := (*c.tables.Load())[keyOf(bucket)]
	if t == nil {
		return time.Time{}, false
	}
	asOf, ok = t.provenAt(users)
	if ok && c.age(asOf) <= c.o.MaxStaleness {
		for i, user := range users {
			composites[i] = t.composite(user)
		}
		if !t.full.Load() && c.resets.Load() == resets {
			return asOf, true
		}
	}
	c.stats.Refused.Add(1)
	return time.Time{}, false
}

// Fresh reports whether an answer that was computed from composites of a moment may be
// given now. It counts the answer.
func (c *Cache) Fresh(asOf time.Time) bool {
	age := c.age(asOf)
	if age > c.o.MaxStaleness {
		c.stats.Refused.Add(1)
		return false
	}
	c.stats.Answers.Observe(age.Seconds())
	return true
}

func (c *Cache) age(asOf time.Time) time.Duration { return c.o.Elapsed().Sub(asOf) }

// Written notes entries that this process has written, before anybody learns of it: the
// newest entry of the stream holds them, or an earlier one. It is a board.Written.
func (c *Cache) Written(bucket *models.Bucket, shard int, newest string, entries []models.Entry) {
	t := (*c.tables.Load())[keyOf(bucket)]
	if t == nil || shard >= len(t.parts) {
		return
	}
	s := t.parts[shard].stream
	s.Lock()
	defer s.Unlock()
	if !s.Following() {
		return
	}
	read, err := s.expect(newest, c.o.Elapsed())
	if err != nil {
		s.StartOver(err)
		return
	}
	if !read {
		t.parts[shard].raise(entries)
		return
	}
	// Those who have less were lowered since, or Redis went back to a state that lacks the
	// lowering.
	var lowered []models.RowID
	for _, e := range entries {
		if t.composite(e.User) < e.Composite {
			lowered = append(lowered, e.User)
		}
	}
	if lowered != nil {
		c.lower(t.parts[shard], lowered)
	}
}

// empty removes the composites of a part. The stream is locked.
func (c *Cache) empty(p *part) {
	c.disbelieve(p)
	p.members = 0
	p.dropOrder()
	p.table.clear(p.shard)
}

// maxLowered is how many users of a part are read again. If more were lowered, the part is
// copied anew.
const maxLowered = 5000

// lower removes the composites of users of a part, and reads them again. The stream is locked.
func (c *Cache) lower(p *part, users []models.RowID) {
	var again []models.RowID // those that are being read
	if p.copying != nil {
		again = p.copying.rows
	}
	if !p.copied.Load() && again == nil || len(again)+len(users) > maxLowered {
		c.reset(p) // what is under way may have read them before
		return
	}
	c.disbelieve(p)
	p.remove(users)
	c.copies.add(p, slices.Concat(again, users))
}

// disbelieve ends the copy of a part, and makes readers ask Redis that have begun to
// read it. The stream is locked.
func (c *Cache) disbelieve(p *part) {
	p.copying = nil
	p.copied.Store(false)
	c.resets.Add(1)
}

// reset copies a part anew. The stream is locked.
func (c *Cache) reset(p *part) {
	c.empty(p)
	c.copies.add(p, nil)
}

// setTables changes the tables by a function.
func (c *Cache) setTables(change func(map[bucketKey]*table)) {
	tables := maps.Clone(*c.tables.Load())
	change(tables)
	c.tables.Store(&tables)
}

// report logs that a server does not respond.
func (c *Cache) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	c.o.Log.WarnContext(ctx, "change streams can't be read, so rankings are read from Redis", "error", err)
}
