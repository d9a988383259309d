package catalog

import (
	"time"

	"stepboard/models"
)

// startOfDay returns the first moment at which the zone's calendar shows the day or
// a later one. If a clock change skips midnight, that is the moment of the change;
// if it repeats midnight, the first one. A day that the zone skips altogether
// starts when the next one does. So a day may last 23, 24 or 25 hours, or none.
func startOfDay(d models.Date, zone *time.Location) time.Time {
	midnight := d.UTC()
	// No zone is more than a day from UTC, so this is before the day starts.
	t := midnight.Add(-48 * time.Hour).In(zone)
	for {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		start := midnight.Add(-time.Duration(offset) * time.Second)
		if start.Before(t) {
			start = t // the change skipped midnight
		}
		if end.IsZero() || start.Before(end) {
			return start.UTC()
		}
		t = end
	}
}

// dayAt returns the day that a moment belongs to: startOfDay(d) <= t <
// startOfDay(d+1).
func dayAt(t time.Time, zone *time.Location) models.Date {
	d := models.DateOf(t.In(zone))
	for t.Before(startOfDay(d, zone)) {
		d--
	}
	for !t.Before(startOfDay(d+1, zone)) {
		d++
	}
	return d
}
