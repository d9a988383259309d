package catalog

import (
	"errors"
	"fmt"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// eventName is the name of an event's only bucket and of the running totals in it.
const eventName = "event"

// event has one bucket, from its start to its end, in which increments add up or the best counts.
type event struct {
	noDays
	noWindow
}

func (event) validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error) {
	switch {
	case def.StartsAt == nil:
		return 0, 0, "start", errors.New("an event has a start, such as 2026-12-01T20:00:00+08:00")
	case def.EndsAt == nil:
		return 0, 0, "end", errors.New("an event has an end, such as 2026-12-24T23:00:00+08:00")
	case !def.EndsAt.After(*def.StartsAt):
		return 0, 0, "end", fmt.Errorf("%s is not after the start, %s", def.EndsAt.Format(time.RFC3339), def.StartsAt.Format(time.RFC3339))
	case def.StartsAt.Before(time.Unix(0, 0)):
		return 0, 0, "start", fmt.Errorf("%s is before 1970", def.StartsAt.Format(time.RFC3339))
	case def.WindowHours != 0:
		return 0, 0, "window", errOnlyRolling
	case def.OpenDays != 0:
		return 0, 0, "open_days", errOnlyDaily
	case def.Uploads == models.AudienceService:
		return 0, 0, "uploads", errOnlyDaily
	case def.Order != models.OrderHigh && def.Takes != models.TakesBest:
		return 0, 0, "order", errOnlyHigh
	case def.TimeZone == models.LocalZone:
		return 0, 0, "time_zone", errOnlyDaily
	case def.Late < 0 || def.Late > models.MaxLate || def.Late%time.Millisecond != 0:
		return 0, 0, "late", fmt.Errorf("%v is outside 0 … %v, in milliseconds", def.Late, models.MaxLate)
	}
	span := def.EndsAt.Sub(*def.StartsAt)
	if def.LatestEnd != nil {
		span = max(span, def.LatestEnd.Sub(*def.StartsAt))
	}
	if tick, _, err = score.Fit(span, def.MaxScore); err != nil {
		return 0, 0, "max_score", err
	}
	return tick, score.BitsBeside(def.MaxScore), "", nil
}

// CheckLate returns an error unless a board's increments are kept, for as long as retain says, until
// it takes none with the same id any more. 0 keeps them for ever.
func CheckLate(def models.Board, retain time.Duration) error {
	if retain > 0 && def.Late >= retain {
		return fmt.Errorf("late: %v is not less than ledger.retain, %v", def.Late, retain)
	}
	return nil
}

// bucketAt implements kind. The archive files an event under its last day, and
// takes it over hotDays days after its end, and a day after it has closed at the earliest.
func (event) bucketAt(b *Board, _ time.Time, hotDays int) *models.Bucket {
	bucket := b.newBucket(eventName)
	bucket.FromLedger, bucket.Best = true, b.Takes == models.TakesBest
	bucket.StartsAt = b.StartsAt.UTC()
	setEnd(bucket, b.EndsAt.UTC(), b.Late, b.zone, hotDays)
	return bucket
}

// setEnd gives an event's bucket its end and what follows from that.
func setEnd(bucket *models.Bucket, end time.Time, late time.Duration, zone *time.Location, hotDays int) {
	bucket.EndsAt, bucket.ClosesAt = end, end.Add(late)
	bucket.Day = dayAt(end.Add(-time.Millisecond), zone)
	bucket.ColdAt = end.Add(time.Duration(hotDays) * 24 * time.Hour)
	if dayLater := bucket.ClosesAt.Add(24 * time.Hour); bucket.ColdAt.Before(dayLater) {
		bucket.ColdAt = dayLater
	}
}

// takes implements kind.
func (event) takes() []models.Takes { return []models.Takes{models.TakesSum, models.TakesBest} }

func (event) totalRange(bucket *models.Bucket, now time.Time) (models.TotalRange, error) {
	totals := models.TotalRange{Bucket: bucket, Total: eventName, Since: eventName}
	if now.Before(bucket.StartsAt) {
		return totals, models.EventNotOpen(bucket.Board, bucket.StartsAt, bucket.EndsAt)
	}
	return totals, nil
}

func (event) expiredTotals(bucket *models.Bucket, now time.Time, retain time.Duration) (models.TotalRange, bool) {
	over := now.After(bucket.EndsAt.Add(retain)) && now.After(bucket.ColdAt.Add(archiveGrace))
	return models.TotalRange{Bucket: bucket, Total: eventName, Since: eventName}, over
}

func (event) raisedBucket(total string) string { return total }
