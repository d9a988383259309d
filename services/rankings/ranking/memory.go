package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
)

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
