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

// event has one bucket, from its start to its end, in which increments add up.
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
	case def.TimeZone == models.LocalZone:
		return 0, 0, "time_zone", errOnlyDaily
	}
	tick, timeBits, err = score.Fit(def.EndsAt.Sub(*def.StartsAt), def.MaxScore)
	return tick, timeBits, "max_score", err
}

// bucketAt implements kind. The archive files an event under its last day, and
// takes it over hotDays days after its end.
func (event) bucketAt(b *Board, _ time.Time, hotDays int) *models.Bucket {
	bucket := b.newBucket(eventName)
	bucket.FromLedger = true
	bucket.StartsAt, bucket.EndsAt, bucket.ClosesAt = b.StartsAt.UTC(), b.EndsAt.UTC(), b.EndsAt.UTC()
	bucket.Day = dayAt(b.EndsAt.Add(-time.Millisecond), b.zone)
	bucket.ColdAt = bucket.EndsAt.Add(time.Duration(hotDays) * 24 * time.Hour)
	return bucket
}

func (event) totalRange(bucket *models.Bucket, now time.Time) (models.TotalRange, error) {
	totals := models.TotalRange{Bucket: bucket, Total: eventName, Since: eventName}
	if !bucket.Open(now) {
		return totals, models.Errorf(models.CodeEventNotOpen, "%s takes increments from %s to %s", bucket.Board,
			bucket.StartsAt.UTC().Format(time.RFC3339), bucket.EndsAt.UTC().Format(time.RFC3339))
	}
	return totals, nil
}

func (event) expiredTotals(bucket *models.Bucket, now time.Time, retain time.Duration) (models.TotalRange, bool) {
	over := now.After(bucket.EndsAt.Add(retain)) && now.After(bucket.ColdAt.Add(archiveGrace))
	return models.TotalRange{Bucket: bucket, Total: eventName, Since: eventName}, over
}

func (event) raisedBucket(total string) string { return total }
