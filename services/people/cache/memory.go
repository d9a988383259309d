package cache

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"stepboard/internal/keys"
	"stepboard/models"
)

// copyOverhead is the memory of a copy besides its packed members, in bytes: the
// structure, and its place in the cache.
const copyOverhead = 130

// Memory holds copies of sets in the process, as sorted differences of row ids. Those that are
// used least go first. It does not know when a set changes: whoever uses it must forget the set
// then. Safe for concurrent use.
type Memory struct {
	lifetime time.Duration
	bytes    func() int64
	elapsed  models.Clock
	began    time.Time // times are counted from here, by elapsed
	copies   *otter.Cache[Set, memoryCopy]
	stripes  [keys.Stripes]memoryStripe
}

// memoryStripe guards the copies of the sets of one stripe.
type memoryStripe struct {
	mu sync.Mutex // held by whoever changes copies
	// reads holds the sets that are being read and may be kept.
	reads map[Set]*Reading
	// resets counts how often all copies were removed: those of an earlier count are not used,
	// and make room for others.
	resets atomic.Int64
}

// memoryCopy is the copy of a set.
type memoryCopy struct {
	packed []byte
	readAt time.Duration // since the memory began
	resets int64         // of the stripe
}

// Reading is a set that is being read.
type Reading struct {
	of    Set
	began time.Duration // since the memory began
}

// NewMemory returns a memory without copies. A copy is used for a lifetime after it was read, in
// case that something unforeseen makes it outdated. bytes returns how many bytes all copies may
// take, which may change. elapsed is the clock that ages are measured by.
func NewMemory(lifetime time.Duration, bytes func() int64, elapsed models.Clock) *Memory {
	m := &Memory{lifetime: lifetime, bytes: bytes, elapsed: elapsed, began: elapsed()}
	m.copies = otter.Must(&otter.Options[Set, memoryCopy]{
		MaximumWeight: 1, // until Shrink
		Weigher:       func(_ Set, c memoryCopy) uint32 { return uint32(cap(c.packed) + copyOverhead) },
	})
	m.Shrink()
	for i := range m.stripes {
		m.stripes[i].reads = make(map[Set]*Reading)
	}
	return m
}

// now returns the time since the memory began.
func (m *Memory) now() time.Duration { return m.elapsed().Sub(m.began) }

// lock locks the stripe of a set.
func (m *Memory) lock(of Set) *memoryStripe {
	s := &m.stripes[keys.StripeOf(of.Owner)]
	s.mu.Lock()
	return s
}

// find returns the copy of a set, unless it was removed with those of its stripe.
func (m *Memory) find(of Set) (c memoryCopy, found bool) {
	c, found = m.copies.GetIfPresent(of)
	return c, found && c.resets == m.stripes[keys.StripeOf(of.Owner)].resets.Load()
}

// Get returns the members of a set of which there is a copy, in the order of row ids. The caller
// may change them, and there is room for one more.
func (m *Memory) Get(of Set) (members []models.RowID, found bool) {
	c, found := m.find(of)
	if !found || c.readAt < m.now()-m.lifetime {
		return nil, false
	}
	return unpack(c.packed), true
}

// Begin announces that a set is about to be read. It returns nil if the set is being read
// already, so that this reader's can't be kept. End must follow.
func (m *Memory) Begin(of Set) *Reading {
	s := m.lock(of)
	defer s.mu.Unlock()
	if s.reads[of] != nil {
		return nil
	}
	r := &Reading{of: of, began: m.now()}
	s.reads[of] = r
	return r
}

// End ends the reading of a set, which may be nil. It keeps the members if they are to be kept,
// unless the set was forgotten since Begin.
func (m *Memory) End(r *Reading, members []models.RowID, keep bool) {
	if r == nil {
		return
	}
	var packed []byte
	if keep {
		packed = pack(members)
	}
	s := m.lock(r.of)
	defer s.mu.Unlock()
	if s.reads[r.of] != r {
		return
	}
	delete(s.reads, r.of)
	if keep {
		m.copies.Set(r.of, memoryCopy{packed, r.began, s.resets.Load()})
	}
}

// Forget removes the copies of sets, and prevents copies of what is being read.
func (m *Memory) Forget(sets []Set) {
	for _, of := range sets {
		s := m.lock(of)
		delete(s.reads, of)
		m.copies.Invalidate(of)
		s.mu.Unlock()
	}
}

// removeMember removes a member from the copies of sets, and prevents copies of what is being
// read.
func (m *Memory) removeMember(sets []Set, gone models.RowID) {
	for _, of := range sets {
		s := m.lock(of)
		delete(s.reads, of)
		if c, found := m.find(of); found {
			members := unpack(c.packed)
			if i, found := slices.BinarySearch(members, gone); found {
				c.packed = pack(slices.Delete(members, i, i+1))
				m.copies.Set(of, c)
			}
		}
		s.mu.Unlock()
	}
}

// Reset removes all copies of a stripe, and prevents copies of what is being read.
func (m *Memory) Reset(stripe int) {
	s := &m.stripes[stripe]
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.reads)
	s.resets.Add(1)
}

// Shrink drops the copies that no longer fit.
func (m *Memory) Shrink() { m.copies.SetMaximum(uint64(m.bytes())) }

// Size returns how many bytes the copies take, and how many copies there are.
func (m *Memory) Size() (bytes, copies int64) {
	return int64(m.copies.WeightedSize()), int64(m.copies.EstimatedSize())
}

// pack encodes members as their sorted differences, which takes 3 bytes each for 200 of
// 10 million users. The result is never nil.
func pack(members []models.RowID) []byte {
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	buf := binary.AppendUvarint(make([]byte, 0, 3*len(sorted)+2), uint64(len(sorted)))
	var last models.RowID
	for _, id := range sorted {
		buf = binary.AppendUvarint(buf, uint64(id-last))
		last = id
	}
	return slices.Clone(buf) // its room was for row ids that are far apart
}

// unpack decodes what pack has encoded, with room for one more member.
func unpack(packed []byte) []models.RowID {
	n, i := binary.Uvarint(packed)
	members := make([]models.RowID, n, n+1)
	var last uint64
	for m := range members {
		// As binary.Uvarint, without its checks.
		var difference uint64
		for shift := 0; ; shift += 7 {
			b := packed[i]
			i++
			difference |= uint64(b&0x7f) << shift
			if b < 0x80 {
				break
			}
		}
		last += difference
		members[m] = models.RowID(last)
	}
	return members
}
