package catalog

import (
	"time"

	"stepboard/models"
)

// kind is all that differs by kind of board. The rest of Stepboard never asks
// for it: it asks the catalog for a bucket, and what can be done with that is
// the bucket's own nature, or an error that says so.
//
// Buckets that a kind answers are as the definition would make them now;
// whether they exist, and as what, the catalog knows.
type kind interface {
	// validate checks what the definition says that only boards of the kind have,
	// and picks the resolution. An error comes with the setting that it is
	// about.
	validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error)
	// defaultWindow is the default of WindowHours.
	defaultWindow() int
	// bucketAt is the bucket of a moment: the one whose stretch of time it is in, or
	// the only one.
	bucketAt(b *Board, now time.Time, hotDays int) *models.Bucket
	// bucketForDay is the bucket of a day that a client names; CodeBoardKind where
	// buckets are no days.
	bucketForDay(b *Board, d models.Date, hotDays int) (*models.Bucket, error)
	// dateOf is the inverse of on; nil where buckets are no days.
	dateOf(bucket *models.Bucket) *models.Date
	// bucketNamed is the bucket that an operator names; CodeValidationFailed or
	// CodeNotFound where the name can't be one's.
	bucketNamed(b *Board, name string, hotDays int) (*models.Bucket, error)
	// totalRange is where increments count that are accepted now; CodeBoardKind
	// where there are none.
	totalRange(bucket *models.Bucket, now time.Time) (models.TotalRange, error)
	// expiredTotals are the running totals of the bucket that nobody asks for any
	// more, where increments are kept for so long; false for none.
	expiredTotals(bucket *models.Bucket, now time.Time, retain time.Duration) (models.TotalRange, bool)
	// raisedBucket is the name of the bucket that a running total raises; empty for
	// one that is kept for other reasons.
	raisedBucket(total string) string
}

var kinds = map[models.Kind]kind{
	models.KindDaily:   daily{},
	models.KindEvent:   event{},
	models.KindRolling: rolling{},
}

// noDays is the part of a kind whose boards have no days.
type noDays struct{}

func (noDays) bucketForDay(b *Board, _ models.Date, _ int) (*models.Bucket, error) { //nolint:unparam // as kind says
	return nil, models.Errorf(models.CodeBoardKind, "%s is no board of days: leave the date out, and send increments instead of scores", b.Name)
}

func (noDays) dateOf(*models.Bucket) *models.Date { return nil }

// requireName is the bucket of a board that has one, if it is named so.
func requireName(bucket *models.Bucket, name string) (*models.Bucket, error) {
	if name != bucket.Name {
		return nil, models.Errorf(models.CodeNotFound, "the only bucket of %s is %q", bucket.Board, bucket.Name)
	}
	return bucket, nil
}

// archiveGrace is how long the archive may be behind with an event before what
// it could be made again from is deleted.
const archiveGrace = 30 * 24 * time.Hour

// noWindow is the part of a kind whose boards take no WindowHours.
type noWindow struct{}

func (noWindow) defaultWindow() int { return 0 }
