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
	start, _ := Moments(d, 0, zone)
	return start
}

// Moments returns the moments at which the zone's clock shows the beginning of an hour of a
// day: two if a clock change repeats it; otherwise second is zero. If a change skips it,
// first is the moment of the change.
func Moments(d models.Date, hour int, zone *time.Location) (first, second time.Time) {
	wall := d.UTC().Add(time.Duration(hour) * time.Hour)
	// No zone is more than a day from UTC, so this is before the day starts.
	t := wall.Add(-48 * time.Hour).In(zone)
	for {
		_, offset := t.Zone()
		_, end := t.ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !first.IsZero() && at.Before(t):
			return first, second
		case !first.IsZero():
			return first, at
		case at.Before(t):
			at = t.UTC() // the change skipped it
		}
		if end.IsZero() {
			return at, second
		}
		if at.Before(end) {
			first = at
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
