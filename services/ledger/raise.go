package ledger

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/score"
)

const (
	// raisePatience is how long a call waits for the buckets to be raised, so that
	// a Redis that hangs does not hold up increments that are counted.
	raisePatience = 500 * time.Millisecond
	// maxRaises is how many raises may be under way. If all of them hang, further
	// ones are left to the reconciler.
	maxRaises = 2
	// raiseTimeout bounds one raise.
	raiseTimeout = 5 * time.Second
)

// raisesOf returns the raises that a flush leads to. Each has the whole total,
// so they may be applied in any order and again.
func (s *Service) raisesOf(ctx context.Context, totals []changedTotal) []models.Raise {
	raises := make([]models.Raise, 0, len(totals))
	for _, t := range totals {
		if t.sumRow {
			continue
		}
		composite, err := score.Of(t.bucket).Encode(t.score, t.reachedAt)
		if err != nil {
			s.log.ErrorContext(ctx, "a total can't be in its bucket", "board", t.board, "total", t.name, "error", err)
			continue
		}
		raises = append(raises, models.Raise{Bucket: t.bucket, Entry: models.Entry{User: t.user, Composite: composite}})
	}
	return raises
}

// raise raises the buckets and waits for it as long as a call may wait. Totals
// that do not reach Redis are left to the reconciler.
func (s *Service) raise(ctx context.Context, raises []models.Raise) {
	if len(raises) == 0 {
		return
	}
	select {
	case s.raising <- struct{}{}:
	default: // the earlier ones hang
		s.stats.Unraised.Add(int64(len(raises)))
		return
	}
	done := make(chan struct{})
	s.raises.Go(func() {
		defer close(done)
		defer func() { <-s.raising }()
		// The raise goes on after the call has stopped waiting for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), raiseTimeout)
		defer cancel()
		s.recordRaise(ctx, s.boards.Raise(ctx, raises))
	})
	patience := time.NewTimer(raisePatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

// recordRaise counts the totals that were not raised. It logs the first failure
// and the first success after it.
func (s *Service) recordRaise(ctx context.Context, errs []error) {
	var failed int64
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			first = err
		}
	}
	s.stats.Unraised.Add(failed)
	if was := s.behind.Swap(failed > 0); failed > 0 && !was {
		s.log.WarnContext(ctx, "increments are counted and do not reach Redis; they will be brought there later", "error", first)
	} else if failed == 0 && was {
		s.log.InfoContext(ctx, "increments reach Redis again")
	}
}
