package ranking

import (
	"context"
	"errors"
	"time"

	"stepboard/internal/reuse"
	"stepboard/models"
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

// errAgain means that an attempt has learned that it must read elsewhere, and has noted where. So
// it is to be repeated from the beginning, because all of an answer is from one place.
var errAgain = errors.New("to be read elsewhere")

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
