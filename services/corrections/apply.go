package corrections

import (
	"context"
	"slices"
	"sync/atomic"

	"stepboard/models"
)

// Stats counts the work of this process, and what it has last seen. The metrics of the job
// say when Apply has last succeeded.
type Stats struct {
	// Changed is how many entries of boards were changed because they did not agree with
	// the corrections.
	Changed atomic.Int64
	// Pending is how many archived buckets had corrections to apply at the last Refresh.
	Pending atomic.Int64
}

// Stats returns the counters of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Held returns how many corrections hold that concern buckets in Redis. No I/O.
func (s *Service) Held() int { return s.snapshot.Load().held }

// Apply makes the boards in Redis agree with all corrections, whatever other processes
// have written meanwhile, and returns how many entries it has changed. It is called every
// few seconds. Without corrections it makes two queries. Otherwise it makes three, and sends
// one command for each shard of the buckets that are not archived, or two if any corrections
// of the shard were lifted, in one round trip.
func (s *Service) Apply(ctx context.Context) (changed int64, err error) {
	if err := s.Refresh(ctx); err != nil {
		return 0, err
	}
	changed, err = s.apply(ctx, s.snapshot.Load().all)
	if err != nil {
		return changed, err
	}
	s.stats.Changed.Add(changed)
	return changed, nil
}

// PendingBuckets returns the archived buckets that have corrections to apply. One query.
func (s *Service) PendingBuckets(ctx context.Context) ([]*models.Bucket, error) {
	return s.o.Store.pendingBuckets(ctx)
}

// apply makes the boards agree with some of the corrections.
func (s *Service) apply(ctx context.Context, corrections []models.Correction) (changed int64, err error) {
	if len(corrections) == 0 {
		return 0, nil
	}
	var boards []string
	first := corrections[0].Day
	for _, c := range corrections {
		first = min(first, c.Day)
		if !slices.Contains(boards, c.Board) {
			boards = append(boards, c.Board)
		}
	}
	buckets, err := s.o.Store.unarchived(ctx, boards, first)
	if err != nil {
		return 0, err
	}
	var entries []models.CorrectedEntry
	for _, bucket := range buckets {
		entries = append(entries, entriesOf(bucket, corrections)...)
	}
	return s.o.Boards.Correct(ctx, entries)
}

// entriesOf returns what corrections make of a bucket: one entry for each user. One that
// holds comes before those that were lifted.
func entriesOf(bucket *models.Bucket, corrections []models.Correction) []models.CorrectedEntry {
	var entries []models.CorrectedEntry
	at := make(map[models.RowID]int) // in entries
	for i := range corrections {
		c := &corrections[i]
		if !c.Concerns(bucket) {
			continue
		}
		e := models.CorrectedEntry{Bucket: bucket, User: c.User, Lifted: c.LiftedAt != nil}
		if bucket.Day == c.Day {
			e.Before = encode(bucket, c.BeforeScore, c.BeforeAt)
		}
		if !e.Lifted {
			e.Composite = compositeOf(c, bucket)
		}
		j, ok := at[c.User]
		if !ok {
			at[c.User] = len(entries)
			entries = append(entries, e)
			continue
		}
		before := max(e.Before, entries[j].Before)
		if !e.Lifted {
			entries[j] = e
		}
		entries[j].Before = before
	}
	return entries
}
