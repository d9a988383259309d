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

// skipAhead is how far the counters of a restored database are moved past the highest numbers that
// are known: the last ones may not have reached Redis, and a folder may have lost its database.
const skipAhead = 1_000_000

// noteHighest reads the counters and the gaps in SQL, and stores the counters in Redis
// if they have grown. A failure is repaired by the next look.
func (s *Service) noteHighest(ctx context.Context) {
	known, err := s.readHandedOut(ctx)
	if err != nil || known.Counters == s.noted {
		return
	}
	if s.redis.raiseHighest(ctx, known.Counters) == nil {
		s.noted = known.Counters
	}
}

// readHandedOut reads which row ids exist. Two queries.
func (s *Service) readHandedOut(ctx context.Context) (*handedOut, error) {
	counters, err := s.store.counters(ctx)
	if err != nil {
		return nil, err
	}
	gaps, err := s.store.gaps(ctx)
	if err != nil {
		return nil, err
	}
	known := &handedOut{counters, gaps}
	s.handedOut.Store(known)
	return known, nil
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

// Exists reports whether a row id was handed out to a user. Two queries if it is higher
// than those known in the process; CodeUnavailable if SQL is away then.
func (s *Service) Exists(ctx context.Context, row models.RowID) (bool, error) {
	known := s.handedOut.Load()
	if known == nil || row > known.Row {
		var err error
		if known, err = s.readHandedOut(ctx); err != nil {
			return false, models.Unavailable("look up a user", err)
		}
	}
	return known.has(row), nil
}

// behind returns the counters that Redis has seen, those of SQL, and whether these are behind.
func (s *Service) behind(ctx context.Context) (seen, has Counters, behind bool, err error) {
	if seen, err = s.redis.highest(ctx); err == nil {
		has, err = s.store.counters(ctx)
	}
	return seen, has, seen.Row > has.Row || seen.Version > has.Version, err
}

// CheckCounters returns an error if Redis has seen higher row ids or versions than SQL
// has handed out: an older backup was restored then, and the next user would get
// somebody else's row id.
func (s *Service) CheckCounters(ctx context.Context) error {
	seen, has, behind, err := s.behind(ctx)
	if err != nil {
		return models.Unavailable("check users", err)
	}
	if behind {
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
	seen, has, behind, err := s.behind(ctx)
	if err != nil {
		return 0, models.Unavailable("rebuild users", err)
	}
	if behind {
		if skipped, err = s.skip(ctx, seen, has); err != nil {
			return 0, models.Unavailable("rebuild users", err)
		}
	}
	err = s.redis.dropAll(ctx)
	return skipped, models.Public("rebuild users", err)
}

// Skip moves the counters of a restored database past its own and those that the replaced one had, as
// far as they are known. A few statements.
func (s *Service) Skip(ctx context.Context, seen Counters) error {
	has, err := s.store.counters(ctx)
	if err == nil {
		_, err = s.skip(ctx, seen, has)
	}
	return models.Public("skip row ids", err)
}

// skip moves the counters past those that were seen and those of SQL, and returns how many row ids
// nobody will get.
func (s *Service) skip(ctx context.Context, seen, has Counters) (skipped int64, err error) {
	to := Counters{Row: max(seen.Row, has.Row) + skipAhead, Version: max(seen.Version, has.Version) + skipAhead}
	return int64(to.Row - has.Row), s.store.skip(ctx, to)
}
