package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
)

// FirstDay is the first day that can be imported. There are no older step
// counts, and every store counts days from here.
const FirstDay models.Date = 0

// MayUpload returns CodeForbidden if scores may be uploaded to the board only by services, and the
// caller is none.
func (b *Board) MayUpload(service bool) error {
	if service || b.Uploads != models.AudienceService {
		return nil
	}
	return models.Errorf(models.CodeForbidden, "%s takes scores from a backend only, not with a user's token", b.Name)
}

// ForUpload returns the day's bucket for a total that is accepted now, and makes
// it on its first use. Errors: CodeDateInFuture or CodeDateClosed if the day
// takes no totals, CodeBoardKind if the board takes increments, CodeUnavailable
// if Postgres must be asked and is away. Two queries the first time, none
// afterwards.
func (s *Buckets) ForUpload(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	proposed, err := b.kind.bucketForDay(b, d, s.hotDays)
	if err != nil {
		return nil, err
	}
	// This is checked before the row is made, so that refused dates leave no
	// rows behind.
	if err := checkOpen(s.cachedOr(proposed), d, now); err != nil {
		return nil, err
	}
	bucket, err := s.ensure(ctx, proposed)
	if err != nil {
		return nil, err
	}
	return bucket, checkOpen(bucket, d, now)
}

// ForImport returns the day's bucket for an import, and makes it on its first use. Errors: those
// of Importable.
func (s *Buckets) ForImport(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	bucket, err := s.Importable(ctx, b, d, now)
	if err != nil {
		return nil, err
	}
	return s.ensure(ctx, bucket)
}

// Importable returns the day's bucket for an import: today's or any before it, whether or not the
// day is closed for uploads. If it does not exist, it is the bucket that Make would make.
// Errors: those of ForUpload, and CodeValidationFailed for a day that the board's zone skips. One
// query for all days of a board, and one for each that exists, none afterwards.
func (s *Buckets) Importable(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	proposed, err := b.kind.bucketForDay(b, d, s.hotDays)
	if err != nil {
		return nil, err
	}
	if err := checkBegun(s.cachedOr(proposed), d, now); err != nil {
		return nil, err
	}
	if d < FirstDay {
		return nil, models.Errorf(models.CodeDateClosed, "days before %v are not kept", FirstDay)
	}
	if !proposed.StartsAt.Before(proposed.EndsAt) {
		return nil, models.Errorf(models.CodeValidationFailed, "the board's time zone has no %v", d)
	}
	bucket, err := s.Existing(ctx, proposed)
	if errors.Is(err, ErrNoBucket) {
		return proposed, nil
	}
	return bucket, err
}

// Make makes the buckets that do not exist, and returns the stored ones by position, which
// another process may have made differently. CodeUnavailable if SQL is away. Two statements for
// each thousand that this process did not know.
func (s *Buckets) Make(ctx context.Context, proposed []*models.Bucket) ([]*models.Bucket, error) {
	var unknown []models.Bucket
	for _, b := range proposed {
		if _, ok := s.cached(b.Board, b.Name); !ok {
			unknown = append(unknown, *b)
		}
	}
	for part := range slices.Chunk(unknown, makeAtOnce) {
		stored, err := s.store.ensure(ctx, part)
		if err != nil {
			return nil, models.Unavailable("make buckets", err)
		}
		for i := range stored {
			s.remember(&stored[i])
		}
	}
	return column.Of(proposed, s.cachedOr), nil
}

// makeAtOnce is how many buckets one statement makes.
const makeAtOnce = 1000

// checkOpen returns an error unless the day's bucket takes totals: from its start
// until its time for late uploads is over.
func checkOpen(bucket *models.Bucket, d models.Date, now time.Time) error {
	if err := checkBegun(bucket, d, now); err != nil {
		return err
	}
	if !bucket.Open(now) {
		return models.Errorf(models.CodeDateClosed, "uploads for %v closed at %s", d,
			bucket.ClosesAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkBegun returns CodeDateInFuture unless the day's bucket has begun.
func checkBegun(bucket *models.Bucket, d models.Date, now time.Time) error {
	if now.Before(bucket.StartsAt) {
		return models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	}
	return nil
}
