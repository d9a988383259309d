package catalog

import (
	"errors"
	"fmt"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// longestDay is the longest day of any time zone, in which clocks go back by two
// hours.
const longestDay = 26 * time.Hour

// errOnlyDaily, errOnlyEvents and errOnlyRolling reject settings of other kinds.
var (
	errOnlyDaily   = errors.New("only boards of kind daily have open days, each user's own days, and uploads")
	errOnlyEvents  = errors.New("only boards of kind event have a start and an end, late and latest_end")
	errOnlyRolling = errors.New("only boards of kind rolling have a window")
	errOnlyHigh    = errors.New("increments add up: only daily boards and events that take the best rank the lowest score first")
)

// localDay is how long a date lasts anywhere on Earth.
const localDay = models.FarthestEast + 24*time.Hour - models.FarthestWest

// dailySpan returns the longest time that a daily bucket takes updates: its own day
// and the open days after it. The resolution is picked for it, so that a definition
// that fits one day fits every day.
func dailySpan(local bool, openDays int) time.Duration {
	day := longestDay
	if local {
		day = localDay
	}
	return day + time.Duration(openDays)*24*time.Hour
}

// startOfDay returns when the day begins: in the board's zone, or, if days are each
// user's own, where it begins first.
func (b *Board) startOfDay(d models.Date) time.Time {
	if b.local {
		return d.UTC().Add(-models.FarthestEast)
	}
	return startOfDay(d, b.zone)
}

// endOfDay returns when the day is over: in the board's zone, or, if days are each
// user's own, everywhere.
func (b *Board) endOfDay(d models.Date) time.Time {
	if b.local {
		return (d + 1).UTC().Add(-models.FarthestWest)
	}
	return startOfDay(d+1, b.zone)
}

// daily has a bucket for each day of the board's time zone, or for each date if days
// are each user's own. Clients report their
// totals to it.
type daily struct{ noWindow }

func (daily) takes() []models.Takes { return []models.Takes{models.TakesBest} }

func (daily) validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error) {
	if setting, err := onlyEvents(def); err != nil {
		return 0, 0, setting, err
	}
	switch {
	case def.WindowHours != 0:
		return 0, 0, "window", errOnlyRolling
	case def.OpenDays < 0 || def.OpenDays > models.MaxOpenDays:
		return 0, 0, "open_days", fmt.Errorf("%d is outside 0 … %d", def.OpenDays, models.MaxOpenDays)
	}
	tick, timeBits, err = score.Fit(dailySpan(def.TimeZone == models.LocalZone, def.OpenDays), def.MaxScore)
	return tick, timeBits, "max_score", err
}

func (k daily) bucketAt(b *Board, now time.Time, hotDays int) *models.Bucket {
	return k.bucket(b, b.Today(now), hotDays)
}

func (k daily) bucketForDay(b *Board, d models.Date, hotDays int) (*models.Bucket, error) {
	return k.bucket(b, d, hotDays), nil
}

// NameOfDay is the name of the bucket of a day of a daily board.
func NameOfDay(d models.Date) string { return d.UTC().Format("20060102") }

// bucket returns the day's bucket. It takes updates for the board's open days after
// its end, and turns cold when the day is more than daysHot days old.
func (daily) bucket(b *Board, d models.Date, hotDays int) *models.Bucket {
	bucket := b.newBucket(NameOfDay(d))
	bucket.StartsAt = b.startOfDay(d)
	bucket.EndsAt = b.endOfDay(d)
	bucket.ClosesAt = b.endOfDay(d + models.Date(b.OpenDays))
	if limit := bucket.StartsAt.Add(dailySpan(b.local, b.OpenDays)); bucket.ClosesAt.After(limit) {
		bucket.ClosesAt = limit
	}
	bucket.Day = d
	bucket.ColdAt = b.endOfDay(d + models.Date(daysHot(b, hotDays)))
	return bucket
}

// daysHot returns for how many days after its own a day of the board stays in Redis:
// hotDays, but at least a day longer than it takes updates.
func daysHot(b *Board, hotDays int) int { return max(hotDays, b.OpenDays+1) }

func (daily) dateOf(bucket *models.Bucket) *models.Date { return &bucket.Day }

func (daily) totalRange(bucket *models.Bucket, _ time.Time) (models.TotalRange, error) {
	return models.TotalRange{}, models.Errorf(models.CodeBoardKind, "%s takes totals of days: send scores instead of increments", bucket.Board)
}

func (daily) expiredTotals(*models.Bucket, time.Time, time.Duration) (models.TotalRange, bool) {
	return models.TotalRange{}, false
}

func (daily) raisedBucket(string) string { return "" }
