package catalog

import (
	"time"

	"stepboard/models"
)

const (
	// lateDays is how many days after its own a daily bucket takes uploads
	// that phones kept while they were offline.
	lateDays = 2
	// dailySpan is the longest time that a daily bucket takes updates: a day
	// of up to 26 hours and two days of late uploads. Every daily bucket is
	// made for it, so that a definition that fits one day fits all.
	dailySpan = 74 * time.Hour
)

// dailyName is the name of the day's bucket, such as 20261120.
func dailyName(d models.Date) string { return d.UTC().Format("20060102") }

// dailyBucket is the day's bucket as the definition would make it now. It
// turns cold once the day is more than hotDays days old.
func dailyBucket(b *Board, d models.Date, hotDays int) *models.Bucket {
	start := startOfDay(d, b.zone)
	closes := startOfDay(d+1+lateDays, b.zone)
	if limit := start.Add(dailySpan); closes.After(limit) {
		closes = limit
	}
	return &models.Bucket{
		Board:    b.Name,
		Name:     dailyName(d),
		StartsAt: start,
		EndsAt:   startOfDay(d+1, b.zone),
		ClosesAt: closes,
		TickMS:   b.tick.Milliseconds(),
		TimeBits: b.timeBits,
		MaxScore: b.MaxScore,
		Shards:   b.Shards,
		Day:      d,
		ColdAt:   startOfDay(d+1+models.Date(hotDays), b.zone),
	}
}
