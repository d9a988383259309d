package models

import (
	"errors"
	"time"
)

// Clock is the service's only source of time. Lua scripts and SQL never ask
// for the time themselves, so that one offset shifts everything.
type Clock func() time.Time

// Timestamp is a moment in milliseconds since the Unix epoch. Its text is RFC
// 3339 in UTC with milliseconds: 2026-11-20T13:00:00.123Z.
type Timestamp int64

// TimestampOf cuts t to the millisecond.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

// Time is the same moment, in UTC.
func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// AppendTo appends the RFC 3339 text to buf.
func (t Timestamp) AppendTo(buf []byte) []byte {
	return t.Time().AppendFormat(buf, "2006-01-02T15:04:05.000Z")
}

// MarshalText makes a timestamp a JSON string.
func (t Timestamp) MarshalText() ([]byte, error) { return t.AppendTo(make([]byte, 0, 24)), nil }

// UnmarshalText reads any RFC 3339 time.
func (t *Timestamp) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errors.New("a time is written as 2026-11-20T13:00:00.123Z")
	}
	*t = TimestampOf(parsed)
	return nil
}

// Date is a calendar day, counted from 1970-01-01. It belongs to no time zone
// until a board gives it one.
type Date int

// errDate is what every malformed date is answered with.
var errDate = errors.New("a date is written as YYYY-MM-DD and exists in the calendar")

const secondsPerDay = 24 * 60 * 60

// ParseDate reads YYYY-MM-DD.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, errDate
	}
	return Date(t.Unix() / secondsPerDay), nil
}

// DateOf is the calendar day that t shows in its own location.
func DateOf(t time.Time) Date {
	return Date(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

// UTC is the day's midnight in UTC.
func (d Date) UTC() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// String is the day as YYYY-MM-DD.
func (d Date) String() string { return d.UTC().Format(time.DateOnly) }
