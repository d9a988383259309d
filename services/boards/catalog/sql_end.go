package catalog

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// moveEnd moves the end of an event, in its definition and its bucket, and returns the definition. A
// dry run stores nothing.
func (s *Store) moveEnd(ctx context.Context, b *Board, end time.Time, dryRun bool) (def models.Board, err error) {
	err = dialect.Try(s.db.WithContext(ctx), dryRun, func(tx *gorm.DB) error {
		if def, err = lockBoard(tx, b.Name); err != nil {
			return err
		}
		if end.Before(*def.EndsAt) {
			return models.Invalid("body.end", "moves to a later time only: the event ends at "+def.EndsAt.UTC().Format(time.RFC3339))
		}
		if err := moveEnd(tx, b, end); err != nil {
			return err
		}
		def.EndsAt = &end
		return tx.Model(&models.Board{}).Where("name = ?", b.Name).Update("ends_at", end.UTC()).Error
	})
	return def, err
}

// moveEnd moves the end of an event's bucket, if that exists. The definition's row is locked.
// Errors: CodeEventFinal, CodeValidationFailed if the bucket can't hold the time.
func moveEnd(tx *gorm.DB, b *Board, end time.Time) error {
	proposed := b.kind.bucketAt(b, *b.StartsAt, 0)
	bucket, err := lockBucket(tx, proposed)
	exists := !errors.Is(err, ErrNoBucket)
	if !exists {
		bucket, err = proposed, nil
	}
	if err != nil {
		return err
	}
	if bucket.FinalAt != nil {
		return models.Errorf(models.CodeEventFinal, "%s is final: its end can't move any more", b.Name)
	}
	if until := score.Of(bucket).Until(); end.After(until) {
		return models.Invalid("body.end", "is after "+until.UTC().Format(time.RFC3339)+", the latest that "+b.Name+" can hold")
	}
	if !exists || !end.After(bucket.EndsAt) {
		return nil
	}
	later, day := end.Sub(bucket.EndsAt), dayAt(end.Add(-time.Millisecond), b.zone)
	sameDay := day == bucket.Day
	err = tx.Model(bucket).Select("ends_at", "closes_at", "cold_at", "day").Updates(&models.Bucket{
		EndsAt: end.UTC(), ClosesAt: bucket.ClosesAt.Add(later).UTC(), ColdAt: bucket.ColdAt.Add(later).UTC(), Day: day,
	}).Error
	if err != nil || sameDay {
		return err
	}
	return tx.Exec(`UPDATE corrections SET day = ? WHERE board = ? AND bucket = ?`, day, bucket.Board, bucket.Name).Error
}

// lockBucket returns the stored bucket of a proposed one's name, whose row it locks, or ErrNoBucket.
func lockBucket(tx *gorm.DB, proposed *models.Bucket) (*models.Bucket, error) {
	bucket, err := lists.Take[models.Bucket](tx.Clauses(dialect.BucketLock()).
		Where("board = ? AND bucket = ?", proposed.Board, proposed.Name), ErrNoBucket)
	return &bucket, err
}
