package nearcache

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// stream is a change stream that is followed. All that the parts of its tables hold was in
// the stream up to the entry that was read last, or is expected to follow. Its lock guards all
// of it.
type stream struct {
	*changes.Stream[board.ChangeStream, board.Change]
	cache *Cache

	last  string // the id of the entry that was read last
	parts []*part
	// expected holds the ids of entries whose effects the tables have already, from
	// copies or from this process's own writes, and when they were noted. If the stream
	// goes on without one of them, Redis has lost it.
	expected map[string]time.Time
	// read holds the ids of the entries that were read lately, and earlier those that were
	// read before renewed.
	read, earlier map[string]bool
	renewed       time.Time
}

// remembered is how long the ids of entries are kept at least after they were read: as
// long as a command takes. Then whether an older entry was read is not known.
const remembered = 2 * readTimeout

// maxExpected bounds the entries that are expected, if a stream can't be read for a
// long time.
const maxExpected = 100_000

// part is the part of a table that follows one stream.
type part struct {
	table  *table
	stream *stream
	shard  int
	// copied reports that the shard was read as a whole since the part began to follow
	// its stream, and that the stream was read up to the end of the copy.
	copied atomic.Bool
	// order holds the entries in ranking order; nil if there is no order list. It is set
	// while the stream is locked, and removed while the list is.
	order atomic.Pointer[order]
	// members is how many users of the part have a composite, and copying the copy that is under way;
	// nil once copied is set, and while the stream is not followed. Guarded by the stream's lock.
	members int
	copying *copying
}

// compareIDs compares the ids of two entries of a stream, such as 1763600000000-0, which rise.
func compareIDs(a, b string) int {
	aMilli, aSequence, _ := strings.Cut(a, "-")
	bMilli, bSequence, _ := strings.Cut(b, "-")
	return cmp.Or(cmp.Compare(len(aMilli), len(bMilli)), cmp.Compare(aMilli, bMilli),
		cmp.Compare(len(aSequence), len(bSequence)), cmp.Compare(aSequence, bSequence))
}

// Begin begins to follow the stream after an entry, and to copy its parts.
func (s *stream) Begin(from changes.Place) error {
	s.last, s.renewed = from.ID, s.cache.o.Elapsed()
	s.expected = make(map[string]time.Time)
	s.read, s.earlier = map[string]bool{from.ID: true}, nil
	for _, p := range s.parts {
		s.cache.copies.add(p, nil)
	}
	return nil
}

// Apply applies a page of changes. It returns changes.ErrLost if the page lacks an entry that
// is expected. The tables may then hold less or more than Redis.
func (s *stream) Apply(page changes.Page[board.Change], sent time.Time) error {
	if sent.Sub(s.renewed) > remembered {
		s.read, s.earlier, s.renewed = map[string]bool{s.last: true}, s.read, sent
	}
	for _, c := range page.Entries {
		delete(s.expected, c.ID)
		s.read[c.ID] = true
		s.applyChange(c)
	}
	s.last = page.Last.ID
	for id, noted := range s.expected {
		if compareIDs(id, s.last) <= 0 || page.Complete && noted.Before(sent) {
			return changes.ErrLost
		}
	}
	if len(s.expected) > maxExpected {
		return changes.ErrLost
	}
	for _, p := range s.parts {
		p.finish()
	}
	return nil
}

// Drop empties the parts. They are copied anew after a random time, so that not all processes
// copy at once.
func (s *stream) Drop(cause error) {
	s.cache.o.Log.Warn("a shard of a board is copied anew", "board", s.Key.Board, "shard", s.Key.Shard, "error", cause)
	for _, p := range s.parts {
		s.cache.empty(p)
	}
	s.cache.stats.StartedOver.Add(1)
}

// applyChange applies one change to the part of its bucket, if that is held.
func (s *stream) applyChange(c board.Change) {
	for _, p := range s.parts {
		if p.table.bucket.Name != c.Bucket {
			continue
		}
		p.raise(c.Raised)
		switch {
		case c.Reset:
			s.cache.reset(p)
		case c.Lowered != nil:
			s.cache.lower(p, c.Lowered)
		}
	}
}

// expect notes that tables will hold the effects of an entry that was in the stream
// before now. It returns changes.ErrLost if there is none, if the stream was read past the entry without
// it, or if that is not known any more. read reports that the entry was read.
func (s *stream) expect(id string, now time.Time) (read bool, err error) {
	switch {
	case s.read[id] || s.earlier[id]:
		return true, nil
	case id == "" || compareIDs(id, s.last) <= 0:
		return false, changes.ErrLost
	}
	if _, ok := s.expected[id]; !ok {
		s.expected[id] = now
	}
	return false, nil
}

// finish sets copied if the stream was read up to the end of the copy.
func (p *part) finish() {
	if job := p.copying; job != nil && job.ends != "" && compareIDs(job.ends, p.stream.last) <= 0 {
		p.copying = nil
		p.copied.Store(true)
	}
}
