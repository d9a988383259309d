package corrections

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// snapshot holds the corrections of buckets that may be in Redis. It is never changed.
type snapshot struct {
	// all has those that were lifted, too.
	all []models.Correction
	// held has those that hold, by user, and n is their number.
	held map[models.RowID][]*models.Correction
	n    int
}

func newSnapshot(all []models.Correction) *snapshot {
	s := &snapshot{all: all, held: make(map[models.RowID][]*models.Correction)}
	for i := range all {
		if c := &all[i]; c.LiftedAt == nil {
			s.held[c.User] = append(s.held[c.User], c)
			s.n++
		}
	}
	return s
}

// with returns a snapshot that has one correction more, or a newer version of it.
func (s *snapshot) with(c models.Correction) *snapshot {
	all := slices.DeleteFunc(slices.Clone(s.all), func(other models.Correction) bool { return other.ID == c.ID })
	if c.Hot {
		all = append(all, c)
	}
	return newSnapshot(all)
}

// of returns the correction of a user's score in a bucket that holds, or nil. Of two, the
// process has not heard that the older one was lifted.
func (s *snapshot) of(bucket *models.Bucket, user models.RowID) (newest *models.Correction) {
	for _, c := range s.held[user] {
		if c.Concerns(bucket) && (newest == nil || c.ID > newest.ID) {
			newest = c
		}
	}
	return newest
}

// Refresh reads the corrections. Two queries.
func (s *Service) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	s.loading.Lock()
	defer s.loading.Unlock()
	all, err := s.o.Store.hot(ctx)
	if err != nil {
		return err
	}
	pending, err := s.o.Store.countPending(ctx)
	if err != nil {
		return err
	}
	s.o.Rules.snapshot.Store(newSnapshot(all))
	s.stats.Pending.Store(pending)
	return nil
}

// Kind returns the kind of the correction of a user's score in a bucket that holds; empty
// if there is none. One query if the bucket is archived, otherwise no I/O.
func (s *Service) Kind(
	ctx context.Context, bucket *models.Bucket, user models.RowID, archived bool,
) (models.CorrectionKind, error) {
	if !archived {
		if c := s.o.Rules.find(bucket, user); c != nil {
			return c.Kind, nil
		}
		return "", nil
	}
	kind, err := s.o.Store.kind(ctx, bucket, user)
	return kind, models.Public("read a correction", err)
}

// compositeOf returns the entry that a correction puts on the board; 0 for none.
func compositeOf(c *models.Correction, bucket *models.Bucket) models.Composite {
	if c.Kind != models.CorrectionSet {
		return 0
	}
	return encode(bucket, c.Points, c.ReachedAt)
}

// encode returns the composite of a stored entry; 0 if there is none. Stored entries were
// decoded from composites of the bucket, or checked against them.
func encode(bucket *models.Bucket, points *models.Points, at *time.Time) models.Composite {
	if points == nil || at == nil {
		return 0
	}
	composite, err := score.Of(bucket).Encode(*points, models.TimestampOf(*at))
	if err != nil {
		return 0
	}
	return composite
}
