package catalog

import (
	"errors"
	"time"

	"stepboard/models"
	"stepboard/services/score"
)

const (
	// lateDays is how many days after its own a daily bucket takes uploads, which
	// phones keep while they are offline.
	lateDays = 2
	// dailySpan is the longest time that a daily bucket takes updates: a day of up
	// to 26 hours and two days of late uploads. The resolution is picked for it,
	// so that a definition that fits one day fits every day.
	dailySpan = 74 * time.Hour
)

// errOnlyEvents and errOnlyRolling reject settings of other kinds.
var (
	errOnlyEvents  = errors.New("only boards of kind event have a start and an end")
	errOnlyRolling = errors.New("only boards of kind rolling have a window")
)

// daily has a bucket for each day of the board's time zone. Clients report their
// totals to it.
type daily struct{ noWindow }

func (daily) validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error) {
	switch {
	case def.StartsAt != nil || def.EndsAt != nil:
		return 0, 0, "start", errOnlyEvents
	case def.WindowHours != 0:
		return 0, 0, "window", errOnlyRolling
	}
	tick, timeBits, err = score.Fit(dailySpan, def.MaxScore)
	return tick, timeBits, "max_score", err
}

func (k daily) bucketAt(b *Board, now time.Time, hotDays int) *models.Bucket {
	return k.bucket(b, b.Today(now), hotDays)
}

func (k daily) bucketForDay(b *Board, d models.Date, hotDays int) (*models.Bucket, error) {
	return k.bucket(b, d, hotDays), nil
}

// bucket returns the day's bucket. It turns cold when the day is more than hotDays
// days old.
func (daily) bucket(b *Board, d models.Date, hotDays int) *models.Bucket {
	bucket := b.newBucket(d.UTC().Format("20060102"))
	bucket.StartsAt = startOfDay(d, b.zone)
	bucket.EndsAt = startOfDay(d+1, b.zone)
	bucket.ClosesAt = startOfDay(d+1+lateDays, b.zone)
	if limit := bucket.StartsAt.Add(dailySpan); bucket.ClosesAt.After(limit) {
		bucket.ClosesAt = limit
	}
	bucket.Day = d
	bucket.ColdAt = startOfDay(d+1+models.Date(hotDays), b.zone)
	return bucket
}

func (daily) dateOf(bucket *models.Bucket) *models.Date { return &bucket.Day }

func (k daily) bucketNamed(b *Board, name string, hotDays int) (*models.Bucket, error) {
	d, err := models.ParseDate(name)
	if err != nil {
		return nil, models.Errorf(models.CodeValidationFailed, "%v", err)
	}
	return k.bucket(b, d, hotDays), nil
}

func (daily) totalRange(bucket *models.Bucket, _ time.Time) (models.TotalRange, error) {
	return models.TotalRange{}, models.Errorf(models.CodeBoardKind, "%s takes totals of days: send scores instead of increments", bucket.Board)
}

func (daily) expiredTotals(*models.Bucket, time.Time, time.Duration) (models.TotalRange, bool) {
	return models.TotalRange{}, false
}

func (daily) raisedBucket(string) string { return "" }
