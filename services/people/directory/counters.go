package directory

import (
	"context"
	"fmt"
	"slices"

	"stepboard/models"
)

// Counters are the highest row id and the highest version that were handed out.
type Counters struct {
	Row     models.RowID
	Version int64
}

// gap is a range of row ids that no user has or will have.
type gap struct {
	First, Last models.RowID
}

// skipAhead is how far rebuild moves the counters past the highest numbers that Redis
// has: the last ones may not have reached it.
const skipAhead = 1_000_000

// noteHighest reads the counters and the gaps in SQL, and stores the counters in Redis
// if they have grown. A failure is repaired by the next look.
func (s *Service) noteHighest(ctx context.Context) {
	counters, err := s.store.db.counters(ctx)
	if err != nil {
		return
	}
	gaps, err := s.store.db.gaps(ctx)
	if err != nil {
		return
	}
	s.handedOut.Store(&handedOut{counters, gaps})
	if counters == s.noted {
		return
	}
	if s.redis.raiseHighest(ctx, counters) == nil {
		s.noted = counters
	}
}

// handedOut says which row ids exist.
type handedOut struct {
	Counters
	gaps []gap
}

func (h *handedOut) has(row models.RowID) bool {
	if row > h.Row {
		return false
	}
	i, _ := slices.BinarySearchFunc(h.gaps, row, func(g gap, row models.RowID) int { return int(g.Last - row) })
	return i == len(h.gaps) || row < h.gaps[i].First
}

// Exists reports whether a row id was handed out to a user. One query if it is higher
// than those known in the process; CodeUnavailable if SQL is away then.
func (s *Service) Exists(ctx context.Context, row models.RowID) (bool, error) {
	if known := s.handedOut.Load(); known != nil && row <= known.Row {
		return known.has(row), nil
	}
	counters, err := s.store.db.counters(ctx)
	if err != nil {
		return false, models.Unavailable("look up a user", err)
	}
	gaps, err := s.store.db.gaps(ctx)
	if err != nil {
		return false, models.Unavailable("look up a user", err)
	}
	known := &handedOut{counters, gaps}
	s.handedOut.Store(known)
	return known.has(row), nil
}

// CheckCounters returns an error if Redis has seen higher row ids or versions than SQL
// has handed out: an older backup was restored then, and the next user would get
// somebody else's row id.
func (s *Service) CheckCounters(ctx context.Context) error {
	seen, err := s.redis.highest(ctx)
	if err != nil {
		return models.Unavailable("check users", err)
	}
	has, err := s.store.db.counters(ctx)
	if err != nil {
		return models.Unavailable("check users", err)
	}
	if seen.Row > has.Row || seen.Version > has.Version {
		return fmt.Errorf("the database is older than Redis, which has seen %d users where the database has %d "+
			"(versions of records: %d and %d): if it was restored from a backup, run `stepboard rebuild`",
			seen.Row, has.Row, seen.Version, has.Version)
	}
	return nil
}

// Rebuild moves the counters of SQL past those that Redis has seen, if they are behind,
// and removes the copies of all records from Redis. It is for a database that was
// restored from a backup. It returns how many row ids nobody will get, and walks over
// all keys of every master.
func (s *Service) Rebuild(ctx context.Context) (skipped int64, err error) {
	seen, err := s.redis.highest(ctx)
	if err != nil {
		return 0, models.Unavailable("rebuild users", err)
	}
	has, err := s.store.db.counters(ctx)
	if err != nil {
		return 0, models.Unavailable("rebuild users", err)
	}
	if seen.Row > has.Row || seen.Version > has.Version {
		to := Counters{Row: max(seen.Row, has.Row) + skipAhead, Version: max(seen.Version, has.Version) + skipAhead}
		if err := s.store.db.skip(ctx, to); err != nil {
			return 0, models.Unavailable("rebuild users", err)
		}
		skipped = int64(to.Row - has.Row)
	}
	if err := s.redis.dropAll(ctx); err != nil {
		return skipped, models.Unavailable("rebuild users", err)
	}
	return skipped, nil
}
