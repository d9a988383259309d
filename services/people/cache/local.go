package cache

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
)

// Local holds the copies of the only process on its stores, in its memory. Changes are marked in
// the memory, too: nothing else can change a set, or keep a copy. So a copy is always the present
// set, and nothing is lost but with the process. Safe for concurrent use.
type Local struct {
	memory *Memory
	// lifetime is that of a copy, and of the mark of a change whose outcome is unknown.
	lifetime time.Duration
	elapsed  models.Clock
	marks    [keys.Stripes]marks
	stats    LocalStats
}

// LocalStats counts the sets that were found in memory, and those that were not.
type LocalStats struct{ Found, Missing atomic.Int64 }

// marks are the changes of the sets of one stripe that are under way, or whose outcome is unknown.
type marks struct {
	mu sync.Mutex
	of map[Set]mark
	// most is the number of marks above which those that no longer hold are removed.
	most int
}

// fewMarks is the number of marks in a stripe that may stay although they no longer hold.
const fewMarks = 64

// mark prevents copies of a set.
type mark struct {
	changes int       // under way
	until   time.Time // for changes of unknown outcome
}

// NewLocal returns copies that last no longer than lifetime, and take no more than so many bytes.
// elapsed is the clock that ages are measured by.
func NewLocal(bytes int64, lifetime time.Duration, elapsed models.Clock) *Local {
	l := &Local{
		memory:   NewMemory(lifetime, func() int64 { return bytes }, elapsed),
		lifetime: lifetime, elapsed: elapsed,
	}
	for i := range l.marks {
		l.marks[i].of = make(map[Set]mark)
	}
	return l
}

// Stats returns the counts of this process.
func (l *Local) Stats() *LocalStats { return &l.stats }

// Size returns how many bytes the copies take, and how many copies there are.
func (l *Local) Size() (bytes, copies int64) { return l.memory.Size() }

func (l *Local) nearCache() Near { return nil }

func (l *Local) find(_ context.Context, of ...Set) ([]copied, error) {
	found := make([]copied, len(of))
	for i, set := range of {
		if found[i].members, found[i].found = l.memory.Get(set); found[i].found {
			l.stats.Found.Add(1)
		} else {
			l.stats.Missing.Add(1)
		}
	}
	return found, nil
}

// load implements Copies. If several readers load a set, the copy is that of the first one.
func (l *Local) load(ctx context.Context, of Set, _ copied, _ error, src source) (members []models.RowID, stored bool, err error) {
	r, unmarked := l.begin(of)
	defer func() { l.memory.End(r, members, stored) }()
	members, err = src.read(ctx)
	stored = unmarked && err == nil
	return members, stored, err
}

// begin announces that a set is about to be read, and reports whether no change of it is under
// way. It looks for changes last: one that begins afterwards makes the memory forget the reading.
func (l *Local) begin(of Set) (r *Reading, unmarked bool) {
	r = l.memory.Begin(of)
	m := l.marksOf(of)
	m.mu.Lock()
	defer m.mu.Unlock()
	return r, !m.of[of].holds(l.elapsed())
}

func (m mark) holds(now time.Time) bool { return m.changes > 0 || now.Before(m.until) }

func (l *Local) marksOf(of Set) *marks { return &l.marks[keys.StripeOf(of.Owner)] }

// mark implements Copies. A reader that sees no mark has begun before, so its reading, or its
// copy, is forgotten here. It never fails.
func (l *Local) mark(_ context.Context, w writer, sets []Set) error {
	l.change(sets, func(m *mark, _ time.Time) { m.changes++ })
	if w.gone != 0 {
		l.memory.removeMember(sets, w.gone)
	} else {
		l.memory.Forget(sets)
	}
	return nil
}

// clear implements Copies. A reader that sees no mark any more begins to read after the commit,
// so there is nothing to forget.
func (l *Local) clear(_ context.Context, _ writer, sets []Set) error {
	l.change(sets, func(m *mark, _ time.Time) { m.changes-- })
	return nil
}

// keep implements Copies. The marks last as long as a copy.
func (l *Local) keep(_ context.Context, _ writer, sets []Set) error {
	l.change(sets, func(m *mark, now time.Time) { m.changes, m.until = m.changes-1, now.Add(l.lifetime) })
	return nil
}

// change changes the marks of sets.
func (l *Local) change(sets []Set, change func(m *mark, now time.Time)) {
	now := l.elapsed()
	for _, of := range sets {
		l.marksOf(of).change(of, now, change)
	}
}

func (m *marks) change(of Set, now time.Time, change func(m *mark, now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := m.of[of]
	change(&changed, now)
	if !changed.holds(now) {
		delete(m.of, of)
		return
	}
	m.of[of] = changed
	if len(m.of) > m.most {
		maps.DeleteFunc(m.of, func(_ Set, m mark) bool { return !m.holds(now) })
		m.most = 2*len(m.of) + fewMarks
	}
}

// RemoveOf implements Copies.
func (l *Local) RemoveOf(_ context.Context, users []models.RowID) (removed int64, err error) {
	for _, user := range users {
		for _, kind := range ofUsers {
			l.memory.Forget([]Set{{Kind: kind, Owner: int64(user)}})
		}
	}
	return 0, nil
}

// DropAll implements Copies.
func (l *Local) DropAll(context.Context) error {
	for stripe := range keys.Stripes {
		l.memory.Reset(stripe)
	}
	return nil
}
