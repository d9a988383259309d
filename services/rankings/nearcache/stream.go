package nearcache

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// stream is the place up to which a change stream was read. All that the parts of its
// tables hold was in the stream up to there, or is expected to follow.
type stream struct {
	board.ChangeStream
	// provenAt is when the latest read was sent that has found the end of the stream:
	// the parts that are copied hold all that was acknowledged before. Nil if they may
	// lack something.
	provenAt atomic.Pointer[time.Time]
	// busy reports that the stream is being read.
	busy atomic.Bool

	mu        sync.Mutex
	following bool
	resumeAt  time.Time     // when to follow the stream again
	mark      changes.Place // the entry that was read last
	last      entryID       // its id
	parts     []*part
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

// errLost means that Redis has lost entries of a change stream or went back in time, or
// that they were removed before they were read.
var errLost = errors.New("the change stream does not continue what was read before")

// part is the part of a table that follows one stream.
type part struct {
	table  *table
	stream *stream
	shard  int
	// copied reports that the shard was read as a whole since the part began to follow
	// its stream, and that the stream was read up to the end of the copy.
	copied atomic.Bool
	// began counts how often the part was emptied, so that a copy that is under way
	// ends. Guarded by the stream's mu.
	began int
	// ends is the newest entry of the stream when the copy's last page was read; zero
	// while that was not read, and once copied is set. A user who is raised during the
	// copy may be on no page, and is in the stream before this entry. Guarded by the
	// stream's mu.
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

// apply applies a page of changes, which was read by a call sent at a moment. It
// returns errLost if the page does not continue what was read before, or lacks an entry
// that is expected. The tables may then hold less or more than Redis.
func (s *stream) apply(page board.ChangePage, sent time.Time, reset func(*part)) error {
	if page.Missing {
		return errLost
	}
	if sent.Sub(s.renewed) > remembered {
		s.read, s.earlier, s.renewed = map[entryID]bool{s.last: true}, s.read, sent
	}
	for _, c := range page.Changes {
		id, err := parseID(c.ID)
		if err != nil {
			return err
		}
		delete(s.expected, id)
		s.read[id] = true
		s.applyChange(c, reset)
	}
	last, err := parseID(page.Last.ID)
	if err != nil {
		return err
	}
	s.mark, s.last = page.Last, last
	for id, noted := range s.expected {
		if !last.before(id) || page.Complete && noted.Before(sent) {
			return errLost
		}
	}
	if len(s.expected) > maxExpected {
		return errLost
	}
	for _, p := range s.parts {
		p.finish()
	}
	if page.Complete {
		s.provenAt.Store(&sent)
	}
	return nil
}

// applyChange applies one change to the part of its bucket, if that is held.
func (s *stream) applyChange(c board.Change, reset func(*part)) {
	for _, p := range s.parts {
		if p.table.bucket.Name != c.Bucket {
			continue
		}
		for _, e := range c.Raised {
			p.table.raise(e)
		}
		if c.Reset {
			reset(p)
		}
	}
}

// expect notes that tables will hold the effects of an entry that was in the stream
// before now. It returns errLost if the stream was read past the entry without it, or
// if that is not known any more. read reports that the entry was read.
func (s *stream) expect(id string, now time.Time) (entry entryID, read bool, err error) {
	entry, err = parseID(id)
	switch {
	case err != nil: // the stream has no entries
		return entry, false, errLost
	case s.read[entry] || s.earlier[entry]:
		return entry, true, nil
	case !s.last.before(entry):
		return entry, false, errLost
	}
	if _, ok := s.expected[entry]; !ok {
		s.expected[entry] = now
	}
	return entry, false, nil
}

// finish sets copied if the stream was read up to the end of the copy.
func (p *part) finish() {
	if p.ends != (entryID{}) && !p.stream.last.before(p.ends) {
		p.ends = entryID{}
		p.copied.Store(true)
	}
}

// start begins to follow the stream after an entry.
func (s *stream) start(mark changes.Place, now time.Time) error {
	id, err := parseID(mark.ID)
	if err != nil {
		return err
	}
	s.following, s.mark, s.last = true, mark, id
	s.expected = make(map[entryID]time.Time)
	s.read, s.earlier, s.renewed = map[entryID]bool{id: true}, nil, now
	return nil
}
