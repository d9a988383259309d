package nearcache

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/orderlist"
)

const (
	// orderIdle is how long order lists of a board are kept after the last question for a rank.
	orderIdle = time.Hour
	// orderBatch is how many entries change while an order list is locked.
	orderBatch = 64
)

// order is the order list of a part. Its lock is taken after the stream's, and every change of
// the part's composites holds both.
type order struct {
	mu   sync.RWMutex
	list orderlist.List
	// complete reports that the list has all entries of the part.
	complete bool
	// gone reports that the list was dropped, for good. The part has none then, or another one.
	gone   bool
	part   *part
	budget *budget
	taken  int64 // bytes of the budget
	// waiting counts the changes that wait for the lock. While there are any, complete lets
	// them go first.
	waiting atomic.Int32
}

// change calls fn with the list, or with nil if it was dropped. It drops the list if the budget
// has no room for what it takes then.
func (o *order) change(fn func(*orderlist.List)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		fn(nil)
		return
	}
	fn(&o.list)
	switch more := o.list.Bytes() - o.taken; {
	case more <= 0:
		o.budget.used.Add(more)
		o.taken += more
	case o.budget.reserve(more):
		o.taken += more
	default:
		o.drop()
	}
}

// drop drops the list. It is locked.
func (o *order) drop() {
	o.part.order.CompareAndSwap(o, nil)
	o.budget.used.Add(-o.taken)
	o.list, o.complete, o.gone, o.taken = orderlist.List{}, false, true, 0
}

// window returns the part's share of a window. ok is false if the list is not complete.
func (o *order) window(at models.Entry, back, forward int) (w board.ShardWindow, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return board.WindowIn(&o.list, at, back, forward), o.complete
}

// changeEach calls fn with each of some values, and with the order list of the part, nil if there
// is none. The stream is locked.
func changeEach[T any](p *part, values []T, fn func(value T, list *orderlist.List)) {
	o := p.order.Load()
	if o == nil {
		for _, v := range values {
			fn(v, nil)
		}
		return
	}
	for batch := range slices.Chunk(values, orderBatch) {
		o.waiting.Add(1)
		o.change(func(list *orderlist.List) {
			o.waiting.Add(-1)
			for _, v := range batch {
				fn(v, list)
			}
		})
	}
}

// raise raises the composites of users of the part. The stream is locked.
func (p *part) raise(entries []models.Entry) {
	changeEach(p, entries, func(e models.Entry, list *orderlist.List) {
		before, raised := p.table.raise(e)
		if raised && before == 0 {
			p.members++
		}
		if raised && list != nil {
			list.Remove(models.Entry{User: e.User, Composite: before})
			list.Insert(e)
		}
	})
}

// remove removes the composites of users of the part. The stream is locked.
func (p *part) remove(users []models.RowID) {
	changeEach(p, users, func(user models.RowID, list *orderlist.List) {
		before := p.table.remove(user)
		if before != 0 {
			p.members--
		}
		if before != 0 && list != nil {
			list.Remove(models.Entry{User: user, Composite: before})
		}
	})
}

// dropOrder drops the order list of the part, if there is one. The stream is locked.
func (p *part) dropOrder() {
	if o := p.order.Load(); o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.drop()
	}
}

// Window returns the entries of a bucket around a position, as board.Store.Window does, as of a
// moment as in Composites. ok is false also if there is no order list of the bucket yet, which
// begins with the first question for it. No I/O; O(log n) for each shard, plus the entries.
func (c *Cache) Window(bucket *models.Bucket, at models.Entry, back, forward int) (w board.Window, asOf time.Time, ok bool) {
	resets := c.resets.Load() // before anything else is read
	t := (*c.tables.Load())[keyOf(bucket)]
	if t == nil || c.orders.limit == 0 {
		return w, asOf, false
	}
	t.ranked.Store(int64(c.now()))
	if asOf, ok = t.provenAt(nil); !ok || c.age(asOf) > c.o.MaxStaleness {
		c.stats.Refused.Add(1)
		return w, asOf, false
	}
	parts := make([]board.ShardWindow, len(t.parts))
	for i, p := range t.parts {
		o := p.order.Load()
		if o == nil {
			ok = false
		} else if ok {
			parts[i], ok = o.window(at, back, forward)
		}
	}
	if !ok || t.full.Load() || c.resets.Load() != resets {
		c.stats.Unordered.Add(1)
		return w, asOf, false
	}
	return board.MergeShards(parts, back, forward), asOf, true
}

// now returns the time since the cache began, at least 1.
func (c *Cache) now() time.Duration { return 1 + c.o.Elapsed().Sub(c.began) }

// holdOrders makes the order lists of boards that were asked for a rank lately, one after the
// other, also of the bucket that comes next, which is nearly empty. It drops those of others.
func (c *Cache) holdOrders(ctx context.Context) {
	asked := make(map[string]bool)
	tables := slices.SortedFunc(maps.Values(*c.tables.Load()), func(a, b *table) int {
		return cmp.Or(cmp.Compare(a.bucket.Board, b.bucket.Board), cmp.Compare(a.bucket.Name, b.bucket.Name))
	})
	for _, t := range tables {
		ranked := time.Duration(t.ranked.Load())
		asked[t.bucket.Board] = asked[t.bucket.Board] || ranked != 0 && c.now()-ranked < orderIdle
	}
	var withoutRoom int64
	for _, t := range tables {
		room := asked[t.bucket.Board] && c.holdOrder(ctx, t)
		if !room {
			for _, p := range t.parts {
				p.stream.Lock()
				p.dropOrder()
				p.stream.Unlock()
			}
		}
		if asked[t.bucket.Board] && !room {
			withoutRoom++
		}
	}
	c.stats.OrderBytes.Store(c.orders.used.Load())
	c.stats.OrdersWithoutRoom.Store(withoutRoom)
}

// holdOrder makes the order lists that a table lacks, once its parts are copied. It reports false
// if there is no room for all of them.
func (c *Cache) holdOrder(ctx context.Context, t *table) (room bool) {
	var lacking []*part
	var need int64
	for _, p := range t.parts {
		p.stream.Lock()
		if p.order.Load() == nil {
			lacking, need = append(lacking, p), need+int64(p.members)*orderlist.EntryBytes
		}
		p.stream.Unlock()
	}
	if c.orders.used.Load()+need > c.orders.limit {
		return false
	}
	for _, p := range lacking {
		if ctx.Err() == nil {
			c.makeOrder(p)
		}
	}
	return true
}

// makeOrder makes the order list of a part, if that is copied. Whoever changes the part meanwhile
// changes the list, too, and waits for at most orderBatch entries to be inserted. What is inserted
// twice is there once, so nothing needs to be remembered until the end.
func (c *Cache) makeOrder(p *part) {
	p.stream.Lock()
	if !p.copied.Load() { // or not any more, or the table was dropped
		p.stream.Unlock()
		return
	}
	o := &order{part: p, budget: &c.orders}
	p.order.Store(o)
	p.stream.Unlock()
	batch := make([]models.RowID, 0, orderBatch)
	insert := func() {
		for o.waiting.Load() > 0 {
			runtime.Gosched()
		}
		o.change(func(list *orderlist.List) {
			for _, user := range batch {
				if composite := p.table.composite(user); composite != 0 && list != nil {
					list.Insert(models.Entry{User: user, Composite: composite})
				}
			}
		})
		batch = batch[:0]
	}
	for user, cell := range p.table.cells(p.shard) {
		if cell.Load() == 0 {
			continue // whoever raises it from now on inserts it
		}
		if batch = append(batch, user); len(batch) == orderBatch {
			insert()
		}
	}
	insert()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.complete = !o.gone
	if o.complete {
		c.stats.Orders.Add(1)
	}
}
