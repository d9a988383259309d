package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stepboard/models"
)

// maxAttempts bounds how often a transaction is tried. It is tried again if
// another replica was faster, which can't happen for ever.
const maxAttempts = 10

var (
	// errDuplicateID means that another transaction has counted one of the ids
	// meanwhile.
	errDuplicateID = errors.New("an event id was counted by another transaction meanwhile")
	// errConflict means that the database has ended the transaction in favour of
	// another one.
	errConflict = errors.New("the transaction conflicts with another one")
	// errOverMax means that a score would pass the largest of its board.
	errOverMax = errors.New("a score passes the largest")
)

// flush counts the increments of several calls.
func (s *Service) flush(ctx context.Context, items []*pending) []error {
	increments := make([]*increment, len(items))
	for i, p := range items {
		increments[i] = &p.increment
	}
	out, err := s.count(ctx, increments)
	if err != nil {
		return slices.Repeat([]error{models.Unavailable("count increments", err)}, len(items))
	}
	for i, p := range items {
		*p.result = out.results[i]
	}
	s.stats.count(out.results)
	s.raise(ctx, s.raisesOf(ctx, out.totals))
	return nil
}

// count stores the increments, in as many attempts as that takes.
func (s *Service) count(ctx context.Context, increments []*increment) (outcome, error) {
	careful := false
	var err error
	for range maxAttempts {
		var out outcome
		out, err = s.attempt(ctx, increments, careful)
		switch {
		case err == nil:
			return out, nil
		case errors.Is(err, errOverMax):
			careful = true
		case !errors.Is(err, errDuplicateID) && !errors.Is(err, errConflict):
			return outcome{}, err
		}
		s.stats.Retries.Add(1)
	}
	return outcome{}, fmt.Errorf("tried %d times: %w", maxAttempts, err)
}

// attempt stores the increments in one transaction: it reads the state, decides,
// and writes. It assumes that no score passes the largest of its board, and
// returns errOverMax if one does. A careful attempt locks and reads the totals
// first, so that decide rejects such increments.
func (s *Service) attempt(ctx context.Context, increments []*increment, careful bool) (out outcome, err error) {
	err = s.store.transactor.transact(ctx, func(tx transaction) error {
		before, err := readState(ctx, tx, increments, careful)
		if err != nil {
			return err
		}
		d := decide(before, increments)
		if len(d.accepted) == 0 {
			out = outcome{results: d.results}
			return nil
		}
		after, err := tx.add(ctx, d.additions, d.summed)
		if err != nil {
			return fmt.Errorf("add to totals: %w", err)
		}
		var ok bool
		if out, ok = assignScores(increments, d, after); !ok {
			return errOverMax
		}
		if err := tx.finish(ctx, out.events); err != nil {
			return fmt.Errorf("store increments: %w", err)
		}
		return nil
	})
	return out, err
}

// readState reads which increments are known and, for a careful attempt, locks
// the totals of the others and reads their sums.
func readState(ctx context.Context, tx transaction, increments []*increment, careful bool) (state, error) {
	known, err := tx.known(ctx, eventKeys(increments))
	if err != nil {
		return state{}, fmt.Errorf("look for known event ids: %w", err)
	}
	if !careful {
		return state{known: known}, nil
	}
	l := newLayout(increments, known)
	locked, err := tx.lock(ctx, l.totals, l.summed)
	if err != nil {
		return state{}, fmt.Errorf("lock totals: %w", err)
	}
	sums := make(map[windowKey]int64, len(l.windows))
	for i, sum := range l.sums(locked.totals, locked.windows) {
		sums[l.windows[i].windowKey] = sum
	}
	return state{known: known, sums: sums}, nil
}
