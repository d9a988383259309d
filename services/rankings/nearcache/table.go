package nearcache

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/boards/orderlist"
)

const (
	// pageUsers is how many row ids a page of a table covers.
	pageUsers = 1 << 16
	// pageBytes is the size of a page, apart from which a table takes next to nothing.
	pageBytes = 8 * pageUsers
	// maxRow is the largest row id that a table takes. Row ids have nearly no gaps, so
	// a larger one is a mistake, for which the list of pages must not grow.
	maxRow = orderlist.MaxRow
)

// page holds the composites of pageUsers users, 0 for those without a score.
type page [pageUsers]atomic.Int64

// budget is the memory that all pages together may take. Safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

// reserve takes bytes from the budget. It reports false if fewer are left.
func (b *budget) reserve(bytes int64) bool {
	if b.used.Add(bytes) > b.limit {
		b.used.Add(-bytes)
		return false
	}
	return true
}

// table is a flat table of the composites of one bucket, indexed by row id. A page is
// allocated when its first user gets a score. Reads take no lock. Safe for concurrent
// use.
type table struct {
	bucket *models.Bucket
	// parts are the bucket's shards, of which each follows a stream.
	parts []*part
	pages atomic.Pointer[[]*page]
	// full reports that a composite is missing because the budget had no room for it.
	full atomic.Bool

	// readable is when the table was last seen to be readable. Only Cache.run uses it.
	readable time.Time
	// ranked is when a rank was last asked for, by Cache.now; 0 if none was.
	ranked atomic.Int64

	mu     sync.Mutex // of adding and releasing pages
	budget *budget
	taken  int64 // bytes of the budget
}

func newTable(bucket *models.Bucket, budget *budget, now time.Time) *table {
	t := &table{bucket: bucket, budget: budget, readable: now}
	t.pages.Store(&[]*page{})
	return t
}

// stored returns the page of a user, nil if there is none.
func (t *table) stored(user models.RowID) *page {
	pages := *t.pages.Load()
	if i := uint64(user) / pageUsers; i < uint64(len(pages)) {
		return pages[i]
	}
	return nil
}

// composite returns a user's composite, 0 for a user without a score.
func (t *table) composite(user models.RowID) models.Composite {
	if p := t.stored(user); p != nil {
		return models.Composite(p[user%pageUsers].Load())
	}
	return 0
}

// raise sets a user's composite unless the stored one is larger, and returns what was stored
// before. If there is no room for it, the table is full from then on, and raised is false.
func (t *table) raise(e models.Entry) (before models.Composite, raised bool) {
	p := t.page(e.User)
	if p == nil {
		t.full.Store(true)
		return 0, false
	}
	cell := &p[e.User%pageUsers]
	for {
		stored := cell.Load()
		if int64(e.Composite) <= stored {
			return 0, false
		}
		if cell.CompareAndSwap(stored, int64(e.Composite)) {
			return models.Composite(stored), true
		}
	}
}

// remove removes a user's composite, and returns what it was.
func (t *table) remove(user models.RowID) (before models.Composite) {
	if p := t.stored(user); p != nil {
		return models.Composite(p[user%pageUsers].Swap(0))
	}
	return 0
}

// page returns the page of a user, and allocates it if there is none. It returns nil
// if there is no room for it.
func (t *table) page(user models.RowID) *page {
	if user < 1 || user > maxRow {
		return nil
	}
	if p := t.stored(user); p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.stored(user); p != nil {
		return p
	}
	if t.full.Load() || !t.budget.reserve(pageBytes) {
		return nil
	}
	t.taken += pageBytes
	// Readers have the old list, so it is not changed.
	i, pages := int(user/pageUsers), *t.pages.Load()
	grown := make([]*page, max(len(pages), i+1))
	copy(grown, pages)
	grown[i] = new(page)
	t.pages.Store(&grown)
	return grown[i]
}

// clear removes the composites of one shard. It may run beside readers, which must not
// believe what they read meanwhile. O(users of the shard).
func (t *table) clear(shard int) {
	for _, cell := range t.cells(shard) {
		cell.Store(0)
	}
}

// cells returns the users of a shard that have a cell, and their cells.
func (t *table) cells(shard int) iter.Seq2[models.RowID, *atomic.Int64] {
	return func(yield func(models.RowID, *atomic.Int64) bool) {
		step := len(t.parts)
		for i, p := range *t.pages.Load() {
			if p == nil {
				continue
			}
			// The page's first user of the shard.
			first := ((shard-i*pageUsers)%step + step) % step
			for at := first; at < pageUsers; at += step {
				if !yield(models.RowID(i*pageUsers+at), &p[at]) {
					return
				}
			}
		}
	}
}

// overflowed reports whether the table is full and still has pages.
func (t *table) overflowed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.full.Load() && t.taken > 0
}

// release gives the table's pages back to the budget. The table takes no composites
// from then on.
func (t *table) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.full.Store(true)
	t.pages.Store(&[]*page{})
	t.budget.used.Add(-t.taken)
	t.taken = 0
}

// provenAt returns the moment for which the shards of the users are proven to be
// complete: the earliest of theirs. It returns false if one of them is not. Without
// users it is that of all shards.
func (t *table) provenAt(users []models.RowID) (at time.Time, ok bool) {
	var asked [maxShards / 64]uint64
	some := len(t.parts) > 1 && len(users) > 0
	if some {
		for _, user := range users {
			shard := t.bucket.Shard(user)
			asked[shard/64] |= 1 << (shard % 64)
		}
	}
	for shard, p := range t.parts {
		if some && asked[shard/64]&(1<<(shard%64)) == 0 {
			continue
		}
		if !p.copied.Load() {
			return time.Time{}, false
		}
		proven, ok := p.stream.Proven()
		if !ok {
			return time.Time{}, false
		}
		if at.IsZero() || proven.Before(at) {
			at = proven
		}
	}
	return at, true
}

// maxShards is the largest number of shards of a bucket.
const maxShards = 1024

// bucketKey identifies a bucket.
type bucketKey struct{ board, name string }

func keyOf(b *models.Bucket) bucketKey { return bucketKey{b.Board, b.Name} }
