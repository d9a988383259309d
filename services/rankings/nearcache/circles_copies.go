package nearcache

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"stepboard/models"
	"stepboard/services/people/cache"
)

const (
	// copyLifetime is the longest that a copy is used. Redis, too, keeps a set for a
	// limited time only, in case that something unforeseen makes it outdated.
	copyLifetime = 10 * time.Minute
	// copyOverhead is the memory of a copy besides its packed members, in bytes: the
	// structure, and its place in the map.
	copyOverhead = 200
)

// stripe holds the copies of the sets of one stripe. Safe for concurrent use.
type stripe struct {
	mu     sync.Mutex
	copies map[cache.Set]*copied
	// reads holds the sets that are being read and may be kept.
	reads map[cache.Set]*reading
	// used is the head of a ring of the copies, the one used last first.
	used  copied
	bytes int64
}

// copied is the copy of a set.
type copied struct {
	of         cache.Set
	packed     []byte
	readAt     time.Duration // since the near cache began
	next, prev *copied
}

func (p *copied) bytes() int64 { return int64(cap(p.packed)) + copyOverhead }

func (p *copied) unlink() { p.prev.next, p.next.prev = p.next, p.prev }

func (p *copied) linkBehind(q *copied) {
	p.prev, p.next = q, q.next
	q.next.prev, q.next = p, p
}

// reading is a set that is being read.
type reading struct{ of cache.Set }

// reset drops all copies, and prevents copies of what is being read.
func (s *stripe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies, s.reads = make(map[cache.Set]*copied), make(map[cache.Set]*reading)
	s.used.next, s.used.prev = &s.used, &s.used
	s.bytes = 0
}

// get returns the packed members of a set, which must not be changed.
func (s *stripe) get(of cache.Set, now time.Duration) (packed []byte, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.copies[of]
	if p == nil || now-p.readAt > copyLifetime {
		return nil, false
	}
	p.unlink()
	p.linkBehind(&s.used)
	return p.packed, true
}

// begin announces that a set is about to be read. It returns nil if the set is being
// read already, so that this reader's can't be kept.
func (s *stripe) begin(of cache.Set) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[of] != nil {
		return nil
	}
	r := &reading{of: of}
	s.reads[of] = r
	return r
}

// end ends the reading of a set, and keeps what was read unless packed is nil or the set
// was forgotten meanwhile. The copies of the stripe take at most so many bytes.
func (s *stripe) end(r *reading, packed []byte, began time.Duration, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil || s.reads[r.of] != r {
		return
	}
	delete(s.reads, r.of)
	if packed == nil {
		return
	}
	s.remove(s.copies[r.of])
	p := &copied{of: r.of, packed: packed, readAt: began}
	s.copies[r.of] = p
	p.linkBehind(&s.used)
	s.bytes += p.bytes()
	s.evict(most)
}

// forget removes the copy of a set, and prevents one of what is being read.
func (s *stripe) forget(of cache.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, of)
	s.remove(s.copies[of])
}

// remove removes a copy, if it is not nil.
func (s *stripe) remove(p *copied) {
	if p == nil {
		return
	}
	p.unlink()
	delete(s.copies, p.of)
	s.bytes -= p.bytes()
}

// shrink removes the copies that were not used for the longest time until the others
// take at most so many bytes.
func (s *stripe) shrink(most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(most)
}

func (s *stripe) evict(most int64) {
	for s.bytes > most {
		s.remove(s.used.prev)
	}
}

func (s *stripe) size() (bytes, copies int64) {
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
	return slices.Clip(buf)
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
