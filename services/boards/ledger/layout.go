package ledger

import (
	"cmp"
	"slices"
	"strings"

	"stepboard/internal/column"
	"stepboard/models"
)

// totalKey identifies a running total.
type totalKey struct {
	board string
	user  models.RowID
	name  string
}

// keyed is a total, or what has its key.
type keyed interface{ key() totalKey }

func (k totalKey) key() totalKey { return k }

// ownedBy returns the user whose total it is.
func (k totalKey) ownedBy() userKey { return userKey{k.board, k.user} }

// compare orders totals of one kind as their rows are locked.
func (k totalKey) compare(other totalKey) int {
	return cmp.Or(strings.Compare(k.board, other.board), cmp.Compare(k.user, other.user), strings.Compare(k.name, other.name))
}

// total is a running total that a flush may add to.
type total struct {
	totalKey
	bucket *models.Bucket
	// sumRow marks the sum of all totals of a user in a windowed bucket. It
	// raises nothing. Increments of a user in different hours lock it one after
	// the other, so that each of them reads a window's sum with those before.
	sumRow bool
	// index is the position in layout.totals.
	index int
}

// windowKey identifies a window: the totals of a user from one on.
type windowKey struct {
	board string
	user  models.RowID
	since string
}

// window is the part of a user's totals that makes up a score. In a bucket
// without a window that is one total.
type window struct {
	windowKey
	total *total
	// index is the position in layout.windows.
	index int
}

// layout relates the increments of a flush to the totals that they are added to
// and to the windows that are their scores. It is not changed once it is made.
type layout struct {
	// totals are in the order in which their rows are locked.
	totals  []*total
	windows []*window
	// summed holds those of the windows that the database has to add up.
	summed []*window
	// places has a place for each increment. It is zero for those that were
	// counted before, that came while their board was closed, or that are left out
	// because their user's rows are locked.
	places []place
}

// place says where one increment counts.
type place struct {
	total *total
	// sumRow is nil in a bucket without a window.
	sumRow *total
	// window is the score that the increment leads to.
	window *window
	// user holds all windows of the increment's user on its board: one, or two if
	// the flush has increments of two hours.
	user *userWindows
}

type userWindows struct{ windows []*window }

// addTo adds an amount to the sums of the windows that an increment lies in. Where the best
// counts there are no sums.
func (p place) addTo(sums []int64, inc *increment, amount int64) {
	if inc.totals.Bucket.Best {
		return
	}
	for _, w := range p.user.windows {
		if inc.totals.Total >= w.since {
			sums[w.index] += amount
		}
	}
}

// newLayout makes the layout of the increments that are not known and not left
// out.
func newLayout(increments []*increment, s state) layout {
	b := layoutBuilder{
		layout: layout{totals: make([]*total, 0, len(increments)), places: make([]place, len(increments))},
		byKey:  make(map[totalKey]*total, len(increments)),
		users:  make(map[userKey]*userWindows, len(increments)),
	}
	for i, inc := range increments {
		if _, ok := s.known[inc.key()]; !ok && inc.closed == nil && !s.locked[inc.user()] {
			b.places[i] = b.place(inc)
		}
	}
	slices.SortFunc(b.totals, func(a, b *total) int { return a.compare(b) })
	for i, t := range b.totals {
		t.index = i
	}
	return b.layout
}

// layoutBuilder is a layout in the making.
type layoutBuilder struct {
	layout
	byKey map[totalKey]*total
	users map[userKey]*userWindows
}

// compare orders totals as their rows are locked: sums first, because each kind has a statement
// of its own.
func (t *total) compare(other *total) int {
	switch {
	case t.bucket.Best == other.bucket.Best:
		return t.totalKey.compare(other.totalKey)
	case other.bucket.Best:
		return -1
	default:
		return 1
	}
}

type userKey struct {
	board string
	user  models.RowID
}

func (b *layoutBuilder) place(inc *increment) place {
	bucket := inc.totals.Bucket
	p := place{total: b.total(totalKey{inc.board, inc.row, inc.totals.Total}, bucket, false)}
	if bucket.WindowHours > 0 {
		p.sumRow = b.total(totalKey{inc.board, inc.row, bucket.Name}, bucket, true)
	}
	key := userKey{inc.board, inc.row}
	if p.user = b.users[key]; p.user == nil {
		p.user = &userWindows{}
		b.users[key] = p.user
	}
	for _, w := range p.user.windows {
		if w.since == inc.totals.Since {
			p.window = w
			return p
		}
	}
	p.window = &window{windowKey: windowKey{inc.board, inc.row, inc.totals.Since}, total: p.total, index: len(b.windows)}
	p.user.windows = append(p.user.windows, p.window)
	b.windows = append(b.windows, p.window)
	if bucket.WindowHours > 0 {
		b.summed = append(b.summed, p.window)
	}
	return p
}

func (b *layoutBuilder) total(key totalKey, bucket *models.Bucket, sumRow bool) *total {
	t := b.byKey[key]
	if t == nil {
		t = &total{totalKey: key, bucket: bucket, sumRow: sumRow}
		b.byKey[key] = t
		b.totals = append(b.totals, t)
	}
	return t
}

// sums returns the score of each window, in the order of l.windows, from the
// balances of all totals and the sums of l.summed.
func (l *layout) sums(totals []balance, summed []int64) []int64 {
	sums := column.Of(l.windows, func(w *window) int64 { return totals[w.total.index].score })
	for i, w := range l.summed {
		sums[w.index] = summed[i]
	}
	return sums
}
