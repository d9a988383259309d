// Package lease lets one replica at a time do a piece of work. In Postgres a lease is an
// advisory lock of a session with a connection of its own, so that work of hours takes none from
// the pools.
//
// A lease avoids duplicate work; it does not guarantee exclusion. A server that has failed over
// has lost the leases that it granted, and their holders notice that seconds later. Work that
// must not happen twice needs a guard of its own in the store that it writes to.
package lease

import (
	"context"
	"errors"
	"fmt"

	"stepboard/models"
)

var (
	// ErrHeld reports that another caller holds the lease.
	ErrHeld = errors.New("somebody else holds the lease")
	// ErrLost reports that the holder can't rely on its lease any more.
	ErrLost = errors.New("the lease was lost")
)

// Service grants leases. Safe for concurrent use.
type Service struct {
	// acquire takes a lease without waiting, or returns ErrHeld. It calls lost at
	// most once, when the lease can't be relied upon any more. release releases
	// the lease; lost is not called after it.
	acquire func(ctx context.Context, name string, lost func(error)) (release func(), err error)
	close   func()
}

// Close closes what the service keeps open for the next lease. Leases that are held are not
// affected, and further ones can be taken.
func (s *Service) Close() { s.close() }

// Hold runs fn while it holds the lease of this name, and releases the lease when
// fn has returned or panicked. It does not wait for a lease: it returns ErrHeld if
// another caller holds it, be it in the same process. Any other error of taking
// the lease is CodeUnavailable. In both cases fn has not run.
//
// The context of fn ends with ctx, and as soon as the lease can't be relied upon.
// Its cause is then ErrLost, and Hold wraps an error of fn with ErrLost.
// Otherwise Hold returns the error of fn.
func (s *Service) Hold(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release, err := s.acquire(ctx, name, func(err error) {
		cancel(fmt.Errorf("lease %s: %w: %w", name, ErrLost, err))
	})
	if errors.Is(err, ErrHeld) {
		return fmt.Errorf("take lease %s: %w", name, err)
	}
	if err != nil {
		return models.Unavailable("take lease "+name, err)
	}
	defer release()
	err = fn(held)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLost) && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
