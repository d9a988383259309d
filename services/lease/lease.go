// Package lease lets one replica at a time do a piece of work.
//
// A lease keeps replicas out of each other's way; it is no proof. A server
// that has failed over knows nothing of the leases it gave before, and the
// holder hears of that seconds later. What must never happen twice is guarded
// where it is written.
package lease

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrHeld says that somebody else holds the lease.
	ErrHeld = errors.New("somebody else holds the lease")
	// ErrLost says that the holder can't rely on its lease any more.
	ErrLost = errors.New("the lease was lost")
)

// Service gives leases. Safe for concurrent use.
type Service struct {
	// take takes a lease without waiting, or answers ErrHeld. lost is called
	// at most once, when the lease can't be relied upon any more. release
	// gives the lease up, and lost is not called after it.
	take func(ctx context.Context, name string, lost func(error)) (release func(), err error)
}

// Hold runs fn while it holds the lease of this name, and gives the lease up
// when fn has returned or panicked. It does not wait for a lease: ErrHeld
// where somebody else holds it, also where that is the same process. Any other
// failure to take it is the store's. fn has not run in either case.
//
// The context that fn is given ends with ctx, and as soon as the lease can't
// be relied upon: its cause is then ErrLost, and an error that fn answers says
// so too. Hold returns fn's error otherwise.
func (s *Service) Hold(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release, err := s.take(ctx, name, func(err error) {
		cancel(fmt.Errorf("lease %s: %w: %w", name, ErrLost, err))
	})
	if err != nil {
		return fmt.Errorf("take lease %s: %w", name, err)
	}
	defer release()
	err = fn(held)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLost) && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
