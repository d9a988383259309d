package ranking

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// attempt is one reading of what a request asks for. While near is set, it is a Reader of the
// memory of the process.
type attempt struct {
	place
	// near is nil if the store is to be asked: the bucket is not hot, or memory has no answer.
	near NearCache
	// asOf is the moment for which all that was read from memory is complete; zero if nothing
	// was.
	asOf time.Time
	// gone are users who were erased after their scores had been read.
	gone []models.RowID

	entries    *[]models.Entry
	composites *[]models.Composite
}

// entriesMemory and compositesMemory are for the entries and the scores of attempts.
var (
	entriesMemory    reuse.Slices[models.Entry]
	compositesMemory reuse.Slices[models.Composite]
)

// errAgain means that the reading must be repeated from the beginning, because all of an answer is from one store and of
// the same people. Either memory, which was asked, does not have it, or a span turned out to have days that not all
// friends show. The attempt has noted which.
var errAgain = errors.New("another store has the answer now")

// errLacking means that Redis lacks updates of a bucket that takes no more.
var errLacking = errors.New("some of its updates are not in Redis again yet")

// answer calls read, which makes the answer of a request, until the answer may be given. Memory is
// asked first, and then the store. It locates the bucket and repeats the reading if a cold bucket
// was archived meanwhile, somebody was erased, or the answer from memory is too old in the end:
// what locate finds out about Redis vouches for one reading, and costs nothing for a bucket that
// takes updates.
func (s *Service) answer(ctx context.Context, r *request, read func(*attempt) error) error {
	a := &attempt{near: s.o.NearCache, entries: entriesMemory.Get(0), composites: compositesMemory.Get(0)}
	defer entriesMemory.Put(a.entries)
	defer compositesMemory.Put(a.composites)
	for {
		var err error
		if a.place, err = s.locate(ctx, r); err != nil {
			return err
		}
		if r.current && a.bucket != nil && a.bucket.Final(r.now) && !a.final {
			return models.Unavailable("read a final bucket", errLacking)
		}
		if r.current || !a.hot(r.now) {
			a.near = nil
		}
		known := len(a.gone)
		for err = errAgain; errors.Is(err, errAgain); {
			a.asOf = time.Time{}
			err = read(a)
		}
		if err != nil {
			return err
		}
		moved, err := s.moved(ctx, r, a.place)
		switch {
		case err != nil:
			return err
		case moved || len(a.gone) > known:
		case !a.asOf.IsZero() && !a.near.Fresh(a.asOf):
			a.near = nil
		default:
			s.count(r, a)
			return nil
		}
	}
}

// store returns what the bucket is read from.
func (s *Service) store(a *attempt) Reader {
	switch {
	case a.near != nil:
		return a
	case a.archived:
		return s.o.Archive
	default:
		return s.o.Entries
	}
}

// Composites returns the composites that memory has, which are valid until the next call, or
// errAgain.
func (a *attempt) Composites(_ context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	clear(*a.composites)
	*a.composites = slices.Grow((*a.composites)[:0], len(users))[:len(users)]
	asOf, ok := a.near.Composites(bucket, users, *a.composites)
	return *a.composites, a.remembered(asOf, ok)
}

// Window returns the window that memory has, or errAgain.
func (a *attempt) Window(_ context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	w, asOf, ok := a.near.Window(bucket, at, back, forward)
	return w, a.remembered(asOf, ok)
}

// remembered notes an answer of memory. If there is none, the store is asked from then on.
func (a *attempt) remembered(asOf time.Time, ok bool) error {
	if !ok {
		a.near = nil
		return errAgain
	}
	a.note(asOf)
	return nil
}

// note notes that something is complete as of a moment; zero if it is not from memory. What is
// read beside the store does not count.
func (a *attempt) note(asOf time.Time) {
	if a.near != nil && !asOf.IsZero() && (a.asOf.IsZero() || asOf.Before(a.asOf)) {
		a.asOf = asOf
	}
}

// Answers counts answers of one list by where they came from. A span that has hot days counts as
// one from Redis.
type Answers struct{ Memory, Redis, Archive atomic.Int64 }

// Lists are the lists that are counted.
var Lists = []string{"friends", "group", "top", "around", "me"}

// Answers returns the counts of a list, one of Lists, which go on counting.
func (s *Service) Answers(list string) *Answers { return s.answers[list] }

// count counts an answer, if those of its list are counted.
func (s *Service) count(r *request, a *attempt) {
	answers := s.answers[r.list]
	switch {
	case answers == nil:
	case !a.asOf.IsZero():
		answers.Memory.Add(1)
	case a.source() == models.SourceArchive:
		answers.Archive.Add(1)
	default:
		answers.Redis.Add(1)
	}
}
