package models

import (
	"fmt"
	"time"
)

// Hour is an hour of UTC, counted from the Unix epoch.
type Hour int64

const (
	hourFormat  = "2006010215"
	secondsHour = 3600
)

// HourOf returns the hour of a moment.
func HourOf(t time.Time) Hour {
	seconds := t.Unix()
	hour := seconds / secondsHour
	if seconds < hour*secondsHour {
		hour-- // before 1970
	}
	return Hour(hour)
}

// ParseHour is the inverse of Hour.String.
func ParseHour(text string) (Hour, error) {
	t, err := time.Parse(hourFormat, text)
	if err != nil {
		return 0, fmt.Errorf("hour %q: %w", text, err)
	}
	h := HourOf(t)
	if h.String() != text { // time.Parse accepts an hour of one digit
		return 0, fmt.Errorf("hour %q: want four digits of the year, and two each of month, day and hour", text)
	}
	return h, nil
}

// Start returns the hour's first moment.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*secondsHour, 0).UTC() }

// String returns the hour's name, such as 2026112013. Names sort as hours do.
func (h Hour) String() string { return h.Start().Format(hourFormat) }
