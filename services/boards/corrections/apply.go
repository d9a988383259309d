package corrections

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/models"
)

// Stats counts the work of this process, and what it has last seen. The metrics of the job
// say when Apply has last succeeded.
type Stats struct {
	// Corrected is how many entries did not agree with the corrections and were made to.
	Corrected atomic.Int64
	// Pending is how many archived buckets had corrections to apply at the last Refresh.
	Pending atomic.Int64
}

// Stats returns the counters of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Held returns how many corrections hold that concern buckets in Redis. No I/O.
func (s *Service) Held() int { return s.o.Rules.snapshot.Load().n }

// Apply makes the boards in Redis agree with all corrections, whatever other processes
// have written meanwhile, and returns how many entries it has corrected. It is called every
// few seconds. Without corrections it makes two queries. Otherwise it makes three, and sends
// one command for each shard of the buckets that are not archived, or two if any corrections
// of the shard were lifted, in one round trip. Each bucket of the ledger with corrections
// that were lifted takes another query and another round trip.
func (s *Service) Apply(ctx context.Context) (corrected int64, err error) {
	if err := s.Refresh(ctx); err != nil {
		return 0, err
	}
	now := s.o.Clock()
	all := s.o.Rules.snapshot.Load().all
	corrected, err = s.apply(ctx, all)
	s.stats.Corrected.Add(corrected)
	if err != nil {
		return corrected, err
	}
	return corrected, s.retire(ctx, all, now)
}

// retire marks lifted exclusions from rolling boards which were applied at a time when all
// that was counted while they held had left the window. Redis can't lack any of it, whatever
// it forgets. The archive does this for other boards.
func (s *Service) retire(ctx context.Context, all []models.Correction, now time.Time) error {
	var ids []int64
	for _, c := range all {
		b, err := s.o.Catalog.Definitions.Board(c.Board)
		if err != nil || b.WindowHours == 0 || c.LiftedAt == nil {
			continue
		}
		if window := time.Duration(b.WindowHours+1) * time.Hour; c.LiftedAt.Before(now.Add(-window)) {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.o.Store.retire(ctx, ids)
}

// apply makes the boards agree with some of the corrections.
func (s *Service) apply(ctx context.Context, corrections []models.Correction) (corrected int64, err error) {
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
		var lifted []models.RowID // of a bucket of the ledger, which has what was counted
		for _, e := range entriesOf(bucket, corrections) {
			if e.Lifted && bucket.FromLedger {
				lifted = append(lifted, e.User)
			} else {
				entries = append(entries, e)
			}
		}
		if len(lifted) > 0 {
			n, err := s.o.Ledger.RaiseUsers(ctx, bucket, lifted)
			corrected += n
			if err != nil {
				return corrected, err
			}
		}
	}
	n, err := s.o.Entries.Correct(ctx, entries)
	return corrected + n, err
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
			e.Before = encode(bucket, c.BeforePoints, c.BeforeAt)
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
