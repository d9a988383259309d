package models

import (
	"math"
	"time"
)

// Hour is an hour of UTC, counted from the Unix epoch.
type Hour int64

const secondsHour = 3600

// HourOf returns the hour of a moment.
func HourOf(t time.Time) Hour { return Hour(math.Floor(float64(t.Unix()) / secondsHour)) }

// Start returns the hour's first moment.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*secondsHour, 0).UTC() }

// String returns the hour's name, such as 2026112013. Names sort as hours do.
func (h Hour) String() string { return h.Start().Format("2006010215") }
