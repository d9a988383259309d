package catalog

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

// ForIncrement returns where an increment counts that is accepted now, and makes
// the bucket on its first use. Errors: CodeBoardNotFound, CodeBoardKind if the
// board takes no increments, CodeEventNotOpen before the event's start (the
// range is returned nevertheless), CodeUnavailable if Postgres must be asked and
// is away. Two queries the first time, none afterwards.
func (s *Buckets) ForIncrement(ctx context.Context, board string, now time.Time) (models.TotalRange, error) {
	b, err := s.board(board)
	if err != nil {
		return models.TotalRange{}, err
	}
	proposed := s.propose(b, now)
	if totals, err := b.kind.totalRange(s.cachedOr(proposed), now); err != nil {
		return totals, err
	}
	bucket, err := s.ensure(ctx, proposed)
	if err != nil {
		return models.TotalRange{}, err
	}
	return b.kind.totalRange(bucket, now)
}

// ForTotal returns the bucket that a running total raises. Errors: ErrNoBucket if
// it raises none, CodeBoardNotFound, and those of Load.
func (s *Buckets) ForTotal(ctx context.Context, board, total string) (*models.Bucket, error) {
	b, err := s.board(board)
	if err != nil {
		return nil, err
	}
	name := b.kind.raisedBucket(total)
	if name == "" {
		return nil, ErrNoBucket
	}
	return s.Load(ctx, board, name)
}

// OfBucket returns the running totals that make up the scores of a bucket of the ledger, also
// before and after the time in which it takes increments. CodeBoardNotFound, and
// CodeBoardKind if the board takes no increments. No I/O.
func (s *Buckets) OfBucket(bucket *models.Bucket, now time.Time) (models.TotalRange, error) {
	b, err := s.board(bucket.Board)
	if err != nil {
		return models.TotalRange{}, err
	}
	totals, err := b.kind.totalRange(bucket, now)
	if models.CodeOf(err) == models.CodeEventNotOpen {
		err = nil
	}
	return totals, err
}

// TotalRanges returns the running totals that Redis may lack: one range for each
// board that takes increments, from when its bucket exists until the archive
// must have it. CodeUnavailable if Postgres must be asked and is away.
func (s *Buckets) TotalRanges(ctx context.Context, now time.Time) ([]models.TotalRange, error) {
	return s.totalRanges(ctx, now, func(k kind, bucket *models.Bucket) (models.TotalRange, bool) {
		totals, err := k.totalRange(bucket, now)
		return totals, models.CodeOf(err) != models.CodeBoardKind && now.Before(bucket.ColdAt.Add(archiveGrace))
	})
}

// ExpiredTotals returns the running totals that nobody reads any more if
// increments are kept for the given time. Each range covers the totals from
// Since to Total. Errors: those of TotalRanges.
func (s *Buckets) ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) ([]models.TotalRange, error) {
	return s.totalRanges(ctx, now, func(k kind, bucket *models.Bucket) (models.TotalRange, bool) {
		return k.expiredTotals(bucket, now, retain)
	})
}

// totalRanges collects one range for each board for which rangeOf returns one.
// rangeOf is asked about the bucket that would be made first, so that boards
// without increments cost no query.
func (s *Buckets) totalRanges(ctx context.Context, now time.Time, rangeOf func(kind, *models.Bucket) (models.TotalRange, bool)) ([]models.TotalRange, error) {
	var ranges []models.TotalRange
	for _, b := range s.list() {
		proposed := s.propose(b, now)
		if _, ok := rangeOf(b.kind, proposed); !ok {
			continue
		}
		bucket, err := s.Load(ctx, proposed.Board, proposed.Name)
		if errors.Is(err, ErrNoBucket) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if totals, ok := rangeOf(b.kind, bucket); ok {
			ranges = append(ranges, totals)
		}
	}
	return ranges, nil
}
