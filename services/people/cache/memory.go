package cache

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
)

// copyOverhead is the memory of a copy besides its packed members, in bytes: the
// structure, and its place in the map.
const copyOverhead = 200

// Memory holds copies of sets in the process, as sorted differences of row ids. Those that were
// not used for the longest time go first. It does not know when a set changes: whoever uses it
// must forget the set then. Safe for concurrent use.
type Memory struct {
	lifetime time.Duration
	bytes    func() int64
	elapsed  models.Clock
	began    time.Time // times are counted from here, by elapsed
	stripes  [keys.Stripes]memoryStripe
}

// NewMemory returns a memory without copies. A copy is used for a lifetime after it was read, in
// case that something unforeseen makes it outdated. bytes returns how many bytes all copies may
// take, which may change; it must be quick. elapsed is the clock that ages are measured by.
func NewMemory(lifetime time.Duration, bytes func() int64, elapsed models.Clock) *Memory {
	m := &Memory{lifetime: lifetime, bytes: bytes, elapsed: elapsed, began: elapsed()}
	for i := range m.stripes {
		m.stripes[i].reset()
	}
	return m
}

// memoryStripe holds the copies of the sets of one stripe.
type memoryStripe struct {
	mu     sync.Mutex
	copies map[Set]*memoryCopy
	// reads holds the sets that are being read and may be kept.
	reads map[Set]*Reading
	// used is the head of a ring of the copies, the one used last first.
	used  memoryCopy
	bytes int64
}

// memoryCopy is the copy of a set.
type memoryCopy struct {
	of         Set
	packed     []byte
	readAt     time.Duration // since the memory began
	next, prev *memoryCopy
}

func (p *memoryCopy) bytes() int64 { return int64(cap(p.packed)) + copyOverhead }

func (p *memoryCopy) unlink() { p.prev.next, p.next.prev = p.next, p.prev }

func (p *memoryCopy) linkBehind(q *memoryCopy) {
	p.prev, p.next = q, q.next
	q.next.prev, q.next = p, p
}

// Reading is a set that is being read.
type Reading struct {
	of    Set
	began time.Duration // since the memory began
}

// now returns the time since the memory began.
func (m *Memory) now() time.Duration { return m.elapsed().Sub(m.began) }

func (m *Memory) stripe(of Set) *memoryStripe { return &m.stripes[keys.StripeOf(of.Owner)] }

// Get returns the members of a set of which there is a copy, in the order of row ids. The caller
// may change them, and there is room for one more.
func (m *Memory) Get(of Set) (members []models.RowID, found bool) {
	packed := m.stripe(of).get(of, m.now()-m.lifetime)
	if packed == nil {
		return nil, false
	}
	return unpack(packed), true
}

// Begin announces that a set is about to be read. It returns nil if the set is being read
// already, so that this reader's can't be kept. End must follow.
func (m *Memory) Begin(of Set) *Reading { return m.stripe(of).begin(of, m.now()) }

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
	m.stripe(r.of).end(r, packed, m.perStripe())
}

// Forget removes the copies of sets, and prevents copies of what is being read.
func (m *Memory) Forget(sets []Set) {
	for _, of := range sets {
		m.stripe(of).forget(of)
	}
}

// removeMember removes a member from the copies of sets, and prevents copies of what is being
// read.
func (m *Memory) removeMember(sets []Set, gone models.RowID) {
	for _, of := range sets {
		m.stripe(of).removeMember(of, gone)
	}
}

// Reset removes all copies of a stripe, and prevents copies of what is being read.
func (m *Memory) Reset(stripe int) { m.stripes[stripe].reset() }

// perStripe returns how many bytes the copies of one stripe may take.
func (m *Memory) perStripe() int64 { return m.bytes() / keys.Stripes }

// Shrink drops the copies that no longer fit.
func (m *Memory) Shrink() {
	most := m.perStripe()
	for i := range m.stripes {
		m.stripes[i].shrink(most)
	}
}

// Size returns how many bytes the copies take, and how many copies there are.
func (m *Memory) Size() (bytes, copies int64) {
	for i := range m.stripes {
		b, n := m.stripes[i].size()
		bytes, copies = bytes+b, copies+n
	}
	return bytes, copies
}

func (s *memoryStripe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies, s.reads = make(map[Set]*memoryCopy), make(map[Set]*Reading)
	s.used.next, s.used.prev = &s.used, &s.used
	s.bytes = 0
}

// get returns the packed members of a set, which must not be changed; nil if there is no copy
// that was read since the given time.
func (s *memoryStripe) get(of Set, since time.Duration) (packed []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.copies[of]
	if p == nil || p.readAt < since {
		return nil
	}
	p.unlink()
	p.linkBehind(&s.used)
	return p.packed
}

func (s *memoryStripe) begin(of Set, now time.Duration) *Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[of] != nil {
		return nil
	}
	r := &Reading{of: of, began: now}
	s.reads[of] = r
	return r
}

// end keeps what was read unless packed is nil or the set was forgotten meanwhile. The copies of
// the stripe take at most so many bytes.
func (s *memoryStripe) end(r *Reading, packed []byte, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[r.of] != r {
		return
	}
	delete(s.reads, r.of)
	if packed == nil {
		return
	}
	s.remove(s.copies[r.of])
	s.add(&memoryCopy{of: r.of, packed: packed, readAt: r.began})
	s.evict(most)
}

func (s *memoryStripe) forget(of Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, of)
	s.remove(s.copies[of])
}

func (s *memoryStripe) removeMember(of Set, gone models.RowID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, of)
	p := s.copies[of]
	if p == nil {
		return
	}
	members := unpack(p.packed)
	i, found := slices.BinarySearch(members, gone)
	if !found {
		return
	}
	s.remove(p)
	s.add(&memoryCopy{of: of, packed: pack(slices.Delete(members, i, i+1)), readAt: p.readAt})
}

// add adds a copy of a set that has none, as the one used last.
func (s *memoryStripe) add(p *memoryCopy) {
	s.copies[p.of] = p
	p.linkBehind(&s.used)
	s.bytes += p.bytes()
}

// remove removes a copy, if it is not nil.
func (s *memoryStripe) remove(p *memoryCopy) {
	if p == nil {
		return
	}
	p.unlink()
	delete(s.copies, p.of)
	s.bytes -= p.bytes()
}

// shrink removes the copies that were not used for the longest time until the others
// take at most so many bytes.
func (s *memoryStripe) shrink(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(most)
}

func (s *memoryStripe) evict(most int64) {
	for s.bytes > most {
		s.remove(s.used.prev)
	}
}

func (s *memoryStripe) size() (bytes, copies int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, int64(len(s.copies))
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
