package passed

import (
	"context"
	"maps"
	"sync"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
)

// LocalStates remembers what was seen of users in the memory of the only process on its stores: up to
// some 2 KB for each who wants to be told. A restart forgets it. Safe for concurrent use.
type LocalStates struct {
	clock models.Clock
	began time.Time

	mu    sync.Mutex
	users map[models.RowID]kept
	// prune is when texts that have expired are removed next.
	prune time.Time
}

type kept struct {
	text    string
	expires time.Time
}

// NewLocalStates returns empty states.
func NewLocalStates(clock models.Clock) *LocalStates {
	return &LocalStates{clock: clock, began: clock(), users: make(map[models.RowID]kept)}
}

// Load implements States. No I/O.
func (s *LocalStates) Load(_ context.Context, users []models.RowID) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	return column.Of(users, func(user models.RowID) string { return s.text(user, now) }), nil
}

func (s *LocalStates) text(user models.RowID, now time.Time) string {
	if k := s.users[user]; now.Before(k.expires) {
		return k.text
	}
	return ""
}

// Swap implements States. No I/O.
func (s *LocalStates) Swap(_ context.Context, swaps []Swap) (swapped []bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.forget(now)
	swapped = make([]bool, len(swaps))
	for i, swap := range swaps {
		if swapped[i] = s.text(swap.User, now) == swap.Old; swapped[i] {
			s.users[swap.User] = kept{swap.New, now.Add(keep)}
		}
	}
	return swapped, nil
}

// forget removes what has expired, now and then.
func (s *LocalStates) forget(now time.Time) {
	if now.Before(s.prune) {
		return
	}
	s.prune = now.Add(keep)
	maps.DeleteFunc(s.users, func(_ models.RowID, k kept) bool { return !now.Before(k.expires) })
}

// Began implements States.
func (s *LocalStates) Began() time.Time { return s.began }

// Erase implements States. No I/O.
func (s *LocalStates) Erase(_ context.Context, users ...models.RowID) (erased int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.users)
	for _, user := range users {
		delete(s.users, user)
	}
	return int64(before - len(s.users)), nil
}
