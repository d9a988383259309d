package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
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
	errs, _ := s.countAll(ctx, items, s.locks.probing())
	return errs
}

// countAll counts increments and gives them their results. It returns an error for each, and the
// suspects among their users.
func (s *Service) countAll(ctx context.Context, items []*pending, probe bool) (errs []error, suspects []userKey) {
	out, err := s.count(ctx, incrementsOf(items), probe)
	switch {
	case errors.Is(err, errLocked):
		return slices.Repeat([]error{errLocked}, len(items)), nil
	case err != nil:
		return slices.Repeat([]error{models.Unavailable("count increments", err)}, len(items)), nil
	default:
		return s.deliver(items, out), out.suspects
	}
}

func incrementsOf(items []*pending) []*increment {
	return column.Of(items, func(p *pending) *increment { return &p.increment })
}

// deliver gives the increments their results. The error of those that were left
// out is errLocked.
func (s *Service) deliver(items []*pending, out outcome) []error {
	errs := make([]error, len(items))
	var busy, ready []userKey
	for i, p := range items {
		p.total = out.totals[i]
		switch *p.result = out.results[i]; p.result.Status {
		case "":
			errs[i] = errLocked
			busy = append(busy, p.user())
		case Applied:
			ready = append(ready, p.user())
			s.stats.Applied.Add(1)
		case Duplicate:
			s.stats.Duplicates.Add(1)
		case Rejected:
			s.stats.Rejected.Add(1)
		}
	}
	s.locks.update(busy, ready)
	s.stats.Flushes.Add(1)
	return errs
}

// mode says how an attempt treats rows that other transactions may change.
type mode struct {
	// careful means that the totals are locked and read before they are increased,
	// so that decide rejects increments that pass the largest score. Otherwise the
	// attempt assumes that none does, and returns errOverMax if one does.
	careful bool
	// probe means that users are left out whose rows are locked.
	probe bool
	// locked holds further users to leave out.
	locked map[userKey]bool
}

// count stores the increments, in as many attempts as that takes. After waiting
// for a lock it leaves out the increments of users whose rows may be locked. It
// returns errLocked if that does not help.
func (s *Service) count(ctx context.Context, increments []*increment, probe bool) (outcome, error) {
	m := mode{probe: probe, locked: make(map[userKey]bool)}
	var suspects []userKey
	var err error
	for range maxAttempts {
		var out outcome
		out, err = s.attempt(ctx, increments, m)
		switch {
		case err == nil:
			out.suspects = suspects
			return out, nil
		case errors.Is(err, errOverMax):
			m.careful = true
		case errors.Is(err, errLocked) && !m.probe:
			s.locks.probe()
			m.probe = true
		case errors.Is(err, errLocked) && len(out.suspects) > 0:
			suspects = append(suspects, out.suspects...)
			for _, user := range out.suspects {
				m.locked[user] = true
			}
		case !errors.Is(err, errDuplicateID) && !errors.Is(err, errConflict):
			return outcome{}, err
		}
		s.stats.Retries.Add(1)
	}
	return outcome{}, fmt.Errorf("tried %d times: %w", maxAttempts, err)
}

// attempt stores the increments in one transaction: it reads the state, decides,
// and writes. If it returns errLocked, the outcome has the suspects.
func (s *Service) attempt(ctx context.Context, increments []*increment, m mode) (out outcome, err error) {
	err = s.store.transactor.transact(ctx, func(tx transaction) error {
		before, err := readState(ctx, tx, increments, m)
		if err != nil {
			return err
		}
		failpoint.Hit("ledger.read")
		d := decide(before, increments)
		if len(d.accepted) == 0 {
			out = outcome{results: d.results, totals: d.known}
			return nil
		}
		out.suspects = d.usersIn(before.fresh, increments)
		after, err := tx.add(ctx, d.additions, d.summed)
		if err != nil {
			return fmt.Errorf("add to totals: %w", err)
		}
		failpoint.Hit("ledger.added")
		var ok bool
		if out, ok = assignScores(increments, d, after); !ok {
			return errOverMax
		}
		if err := tx.finish(ctx, out.events); err != nil {
			out.suspects = d.users(increments) // another one may be inserting an id of any of them
			return fmt.Errorf("store increments: %w", err)
		}
		return nil
	})
	if err == nil {
		failpoint.Hit("ledger.committed")
	}
	return out, err
}

// readState reads which increments are known and which events take increments, probes the rows of
// the others, and locks their totals and reads their sums, as far as the mode says.
func readState(ctx context.Context, tx transaction, increments []*increment, m mode) (state, error) {
	known, events, err := tx.read(ctx, eventKeys(increments), openEvents(increments))
	if err != nil {
		return state{}, fmt.Errorf("look for known event ids: %w", err)
	}
	open(increments, events)
	s := state{known: known, locked: m.locked}
	if m.probe {
		totals := newLayout(increments, s).totals
		rows, err := tx.probe(ctx, totals)
		if err != nil {
			return state{}, fmt.Errorf("probe totals: %w", err)
		}
		s = s.probed(totals, rows)
	}
	if !m.careful {
		return s, nil
	}
	l := newLayout(increments, s)
	stored, err := tx.lock(ctx, l.totals, l.summed)
	if err != nil {
		return state{}, fmt.Errorf("lock totals: %w", err)
	}
	s.sums = make(map[windowKey]int64, len(l.windows))
	for i, sum := range l.sums(stored.totals, stored.windows) {
		s.sums[l.windows[i].windowKey] = sum
	}
	return s, nil
}
