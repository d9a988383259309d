package nearcache

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// stream is a change stream that is followed. All that the parts of its tables hold was in
// the stream up to the entry that was read last, or is expected to follow. Its lock guards all
// of it.
type stream struct {
	*changes.Stream[board.ChangeStream, board.Change]
	cache *Cache

	last  entryID // of the entry that was read last
	parts []*part
	// expected holds the ids of entries whose effects the tables have already, from
	// copies or from this process's own writes, and when they were noted. If the stream
	// goes on without one of them, Redis has lost it.
	expected map[entryID]time.Time
	// read holds the ids of the entries that were read lately, and earlier those that were
	// read before renewed.
	read, earlier map[entryID]bool
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
	// while the stream is locked.
	order atomic.Pointer[order]
	// members is how many users of the part have a composite. Guarded by the stream's lock.
	members int
	// lowered are users whose entries are being read again, while all others are copied.
	// Guarded by the stream's lock.
	lowered []models.RowID
	// began counts how often the part was emptied, so that a copy that is under way
	// ends. Guarded by the stream's lock.
	began int
	// ends is the newest entry of the stream when the copy's last page was read; zero
	// while that was not read, and once copied is set. A user who is raised during the
	// copy may be on no page, and is in the stream before this entry. Guarded by the
	// stream's lock.
	ends entryID
}

// entryID is the id of an entry of a stream. Ids of a stream rise.
type entryID struct{ ms, seq uint64 }

func (a entryID) before(b entryID) bool { return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq }

// parseID parses the id of an entry, such as 1763600000000-0.
func parseID(text string) (id entryID, err error) {
	ms, seq, ok := strings.Cut(text, "-")
	if ok {
		if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
			id.seq, err = strconv.ParseUint(seq, 10, 64)
		}
	}
	if !ok || err != nil {
		return entryID{}, fmt.Errorf("%q is not the id of an entry of a stream", text)
	}
	return id, nil
}

// Begin begins to follow the stream after an entry, and to copy its parts.
func (s *stream) Begin(from changes.Place) error {
	id, err := parseID(from.ID)
	if err != nil {
		return err
	}
	s.last, s.renewed = id, s.cache.o.Elapsed()
	s.expected = make(map[entryID]time.Time)
	s.read, s.earlier = map[entryID]bool{id: true}, nil
	for _, p := range s.parts {
		s.cache.copies.add(p)
	}
	return nil
}

// Apply applies a page of changes. It returns changes.ErrLost if the page lacks an entry that
// is expected. The tables may then hold less or more than Redis.
func (s *stream) Apply(page changes.Page[board.Change], sent time.Time) error {
	if sent.Sub(s.renewed) > remembered {
		s.read, s.earlier, s.renewed = map[entryID]bool{s.last: true}, s.read, sent
	}
	for _, c := range page.Entries {
		id, err := parseID(c.ID)
		if err != nil {
			return err
		}
		delete(s.expected, id)
		s.read[id] = true
		s.applyChange(c)
	}
	last, err := parseID(page.Last.ID)
	if err != nil {
		return err
	}
	s.last = last
	for id, noted := range s.expected {
		if !last.before(id) || page.Complete && noted.Before(sent) {
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
// before now. It returns changes.ErrLost if the stream was read past the entry without it, or
// if that is not known any more. read reports that the entry was read.
func (s *stream) expect(id string, now time.Time) (entry entryID, read bool, err error) {
	entry, err = parseID(id)
	switch {
	case err != nil: // the stream has no entries
		return entry, false, changes.ErrLost
	case s.read[entry] || s.earlier[entry]:
		return entry, true, nil
	case !s.last.before(entry):
		return entry, false, changes.ErrLost
	}
	if _, ok := s.expected[entry]; !ok {
		s.expected[entry] = now
	}
	return entry, false, nil
}

// finish sets copied if the stream was read up to the end of the copy.
func (p *part) finish() {
	if p.ends != (entryID{}) && !p.stream.last.before(p.ends) {
		p.ends, p.lowered = entryID{}, nil
		p.copied.Store(true)
	}
}
