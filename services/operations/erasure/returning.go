package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

const (
	// keepTime is how long something is kept that holds again when a user id returns.
	keepTime = 365 * 24 * time.Hour
	// erasureLimit is how many erasures of a user id may begin within erasurePeriod.
	erasureLimit  = 3
	erasurePeriod = 24 * time.Hour
	// forgetPage is how many erasures Forget reads at a time.
	forgetPage = 1000
)

// keepers returns the subjects that keep something, in the order in which it is moved, the last
// subject first: corrections and choices hide the user before friends see them.
func (s *Service) keepers() (list []models.Subject) {
	for _, subject := range slices.Backward(s.o.Subjects) {
		if subject.Return != nil {
			list = append(list, subject)
		}
	}
	return list
}

// Return moves what was kept of erased users to the rows under which their ids have returned. It
// may be repeated, and does nothing for other rows. A query for each, and the transactions of
// what is moved.
func (s *Service) Return(ctx context.Context, rows []models.RowID) error {
	var failed []error
	for _, row := range rows {
		if err := s.returnTo(ctx, row); err != nil {
			failed = append(failed, fmt.Errorf("move what is kept: %w", err))
		}
	}
	return errors.Join(failed...)
}

// returnTo moves what is kept of all former users of a user id to its present row. An erasure
// that is not finished may still find something to keep, so it is looked at again.
func (s *Service) returnTo(ctx context.Context, to models.RowID) error {
	failpoint.Hit("returning.created")
	former, err := s.o.Store.former(ctx, to)
	if err != nil {
		return err
	}
	for _, e := range former {
		for _, k := range s.keepers() {
			if err := k.Return(ctx, e.Row, to); err != nil {
				return err
			}
			failpoint.Hit("returning.part")
		}
		if e.FinishedAt != nil {
			if err := s.o.Store.moved(ctx, e.ID, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// Forget removes what is kept of users who were erased longer ago than keepTime. If nothing is kept of
// one, or all of it was moved, it removes the hash of the user id a day after the erasure. It
// returns the number of these. One query for each forgetPage erasures that
// have a hash, and a few for each of them.
func (s *Service) Forget(ctx context.Context) (forgotten int64, err error) {
	now := s.now()
	for after := int64(0); ; {
		page, err := s.o.Store.hashed(ctx, now.Add(-erasurePeriod), after, forgetPage)
		if err != nil {
			return forgotten, err
		}
		for _, e := range page {
			after = e.ID
			forget, err := s.forgets(ctx, &e, now)
			if err != nil {
				return forgotten, fmt.Errorf("erasure %d: %w", e.ID, err)
			}
			if forget {
				forgotten++
			}
		}
		if len(page) < forgetPage {
			return forgotten, nil
		}
	}
}

// forgets removes what is kept of a user and the hash of the user id, if it is time, and reports
// whether it was.
func (s *Service) forgets(ctx context.Context, e *models.Erasure, now time.Time) (bool, error) {
	if !e.Moved {
		keeps, err := s.keeps(ctx, e, now)
		if err != nil || keeps && now.Sub(e.BegunAt) < keepTime {
			return false, err
		}
	}
	for _, k := range s.keepers() { // what was lifted meanwhile is left, too
		if err := k.Forget(ctx, e.Row); err != nil {
			return false, err
		}
	}
	return s.o.Store.forget(ctx, e)
}

// keeps reports whether anything must hold again when the user id of an erasure returns, or has yet
// to be moved.
func (s *Service) keeps(ctx context.Context, e *models.Erasure, now time.Time) (bool, error) {
	if e.ReturnedRow != nil || runs(e.RequestsUntil, now) || runs(e.HidingsUntil, now) {
		return true, nil
	}
	rows, err := s.o.Store.unmoved(ctx, e.IDHash)
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		for _, k := range s.keepers() {
			if keeps, err := k.Keeps(ctx, row); err != nil || keeps {
				return keeps, err
			}
		}
	}
	return false, nil
}

// runs reports whether a limit that ends at a time still counts.
func runs(until *time.Time, now time.Time) bool { return until != nil && now.Before(*until) }
