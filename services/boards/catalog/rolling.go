package catalog

import (
	"errors"
	"fmt"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

const (
	// rollingName is the name of a rolling board's only bucket.
	rollingName = "live"
	// rollingBits is how many bits of a composite hold the seconds since
	// rollingEpoch: enough for 34 years.
	rollingBits = 30
	// defaultWindowHours is how many hours count unless the definition says
	// otherwise.
	defaultWindowHours = 24
	// maxWindowHours is the largest window: a week.
	maxWindowHours = 168
	// extraHours is how many hours the total of an hour is kept after it has left
	// the window.
	extraHours = 48
)

// rollingEpoch is the earliest time that a rolling board can hold.
var rollingEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// rolling has one permanent bucket, in which the increments of the last hours add
// up. It is never archived.
type rolling struct{ noDays }

func (rolling) takes() []models.Takes { return []models.Takes{models.TakesSum} }

func (rolling) defaultWindow() int { return defaultWindowHours }

func (rolling) validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error) {
	const largest = 1<<(score.Bits-rollingBits) - 1
	if setting, err := onlyEvents(def); err != nil {
		return 0, 0, setting, err
	}
	switch {
	case def.OpenDays != 0:
		return 0, 0, "open_days", errOnlyDaily
	case def.Uploads == models.AudienceService:
		return 0, 0, "uploads", errOnlyDaily
	case def.Order != models.OrderHigh:
		return 0, 0, "order", errOnlyHigh
	case def.TimeZone == models.LocalZone:
		return 0, 0, "time_zone", errOnlyDaily
	case def.WindowHours < 1 || def.WindowHours > maxWindowHours:
		return 0, 0, "window", fmt.Errorf("%d is outside 1 … %d hours", def.WindowHours, maxWindowHours)
	case def.ChangeStream:
		return 0, 0, "change_stream", errors.New("rolling boards have no change streams, because their scores fall")
	case def.MaxScore < 1 || def.MaxScore > largest:
		return 0, 0, "max_score", fmt.Errorf("%d is outside 1 … %d, the largest sum that fits beside the time", def.MaxScore, largest)
	}
	return time.Second, rollingBits, "", nil
}

func (rolling) bucketAt(b *Board, _ time.Time, _ int) *models.Bucket {
	bucket := b.newBucket(rollingName)
	bucket.FromLedger = true
	bucket.WindowHours = b.WindowHours
	bucket.StartsAt = rollingEpoch
	bucket.EndsAt = rollingEpoch.Add((1<<rollingBits - 1) * time.Second)
	bucket.ClosesAt, bucket.ColdAt = bucket.EndsAt, bucket.EndsAt
	bucket.Day = models.DateOf(bucket.EndsAt)
	return bucket
}

func (rolling) totalRange(bucket *models.Bucket, now time.Time) (models.TotalRange, error) {
	hour := models.HourOf(now)
	return models.TotalRange{
		Bucket: bucket, Total: hour.String(), Since: (hour - models.Hour(bucket.WindowHours) + 1).String(),
	}, nil
}

func (rolling) expiredTotals(bucket *models.Bucket, now time.Time, _ time.Duration) (models.TotalRange, bool) {
	last := models.HourOf(now) - models.Hour(bucket.WindowHours) - extraHours
	return models.TotalRange{Bucket: bucket, Total: last.String(), Since: models.Hour(0).String()}, true
}

// raisedBucket implements kind. The hours raise the bucket. The total that is
// named like the bucket is the sum of all increments; it only serves as a lock.
func (rolling) raisedBucket(total string) string {
	if total == rollingName {
		return ""
	}
	return rollingName
}
