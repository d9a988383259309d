package models

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Clock returns the current time. It is the service's only source of time: Lua
// scripts and SQL take the time as an argument, so that tests can shift all of it.
type Clock func() time.Time

// Timestamp is a moment in milliseconds since the Unix epoch. Its text is RFC
// 3339 in UTC with milliseconds: 2026-11-20T13:00:00.123Z.
type Timestamp int64

// TimestampOf returns t, cut to the millisecond.
func TimestampOf(t time.Time) Timestamp { return Timestamp(t.UnixMilli()) }

// Time returns the same moment in UTC.
func (t Timestamp) Time() time.Time { return time.UnixMilli(int64(t)).UTC() }

// timestampLayout is the text of a Timestamp as a layout of package time.
const timestampLayout = "2006-01-02T15:04:05.000Z"

// timeText is the text of the time that was written last. Most times of a ranking are of
// one day, whose calendar date is worked out once: a page has many times, and the general
// formatting would take a tenth of the page's time. The zero timeText is ready for use.
type timeText struct {
	day  int64 // days since 1970-01-01
	text [len(timestampLayout)]byte
}

// append appends the RFC 3339 text of t. Years outside 0 … 9999 use the general formatting.
func (last *timeText) append(buf []byte, t Timestamp) []byte {
	day, ms := int64(t)/msPerDay, int64(t)%msPerDay
	if ms < 0 {
		day, ms = day-1, ms+msPerDay
	}
	text := &last.text
	if text[0] == 0 || day != last.day {
		year, month, dayOfMonth := t.Time().Date()
		if year < 0 || year > 9999 {
			return t.Time().AppendFormat(buf, timestampLayout)
		}
		last.day = day
		copy(text[:], "0000-00-00T00:00:00.000Z")
		putTwoDigits(text[0:], int64(year)/100)
		putTwoDigits(text[2:], int64(year)%100)
		putTwoDigits(text[5:], int64(month))
		putTwoDigits(text[8:], int64(dayOfMonth))
	}
	putTwoDigits(text[11:], ms/3_600_000)
	putTwoDigits(text[14:], ms/60_000%60)
	putTwoDigits(text[17:], ms/1000%60)
	putTwoDigits(text[20:], ms/10%100)
	text[22] = byte('0' + ms%10)
	return append(buf, text[:]...)
}

const msPerDay = secondsPerDay * 1000

// putTwoDigits writes n, which is below 100, to the first two bytes of text.
func putTwoDigits(text []byte, n int64) {
	_ = text[1] // one check of the length
	text[0], text[1] = byte('0'+n/10), byte('0'+n%10)
}

// MarshalText returns the RFC 3339 text. In JSON it becomes a string.
func (t Timestamp) MarshalText() ([]byte, error) {
	return t.Time().AppendFormat(nil, timestampLayout), nil
}

// UnmarshalText parses any RFC 3339 time that MarshalText can write: in UTC, its year has
// four digits.
func (t *Timestamp) UnmarshalText(text []byte) error {
	parsed, err := time.Parse(time.RFC3339, string(text))
	if year := parsed.UTC().Year(); err != nil || year < 0 || year > 9999 {
		return errors.New("a time is written as 2026-11-20T13:00:00.123Z")
	}
	*t = TimestampOf(parsed)
	return nil
}

// Date is a calendar day, counted from 1970-01-01. It belongs to no time zone
// until a board gives it one.
type Date int

// errDate is the error for every malformed date.
var errDate = errors.New("a date is written as YYYY-MM-DD and exists in the calendar")

const secondsPerDay = 24 * 60 * 60

// ParseDate parses YYYY-MM-DD.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, errDate
	}
	return Date(t.Unix() / secondsPerDay), nil
}

// DateOf returns the calendar day of t in its own location.
func DateOf(t time.Time) Date {
	return Date(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

// UTC returns the day's midnight in UTC.
func (d Date) UTC() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// Value returns the day as an SQL date.
func (d Date) Value() (driver.Value, error) { return d.String(), nil }

// Scan parses an SQL date.
func (d *Date) Scan(value any) (err error) {
	switch value := value.(type) {
	case time.Time:
		*d = DateOf(value)
	case string:
		*d, err = ParseDate(value)
	default:
		err = fmt.Errorf("a date can't be read from %T", value)
	}
	return err
}

// String returns the day as YYYY-MM-DD.
func (d Date) String() string { return d.UTC().Format(time.DateOnly) }

// CheckZone returns CodeValidationFailed at a location unless a name is that of an IANA time zone.
func CheckZone(location, name string) error {
	// LoadLocation accepts "" and "Local", which are no such names.
	if _, err := time.LoadLocation(name); err != nil || name == "" || name == "Local" {
		return Invalid(location, "is no IANA time zone, such as Asia/Shanghai")
	}
	return nil
}

// Hour is an hour of UTC, counted from the Unix epoch.
type Hour int64

const secondsHour = 3600

// HourOf returns the hour of a moment.
func HourOf(t time.Time) Hour { return Hour(math.Floor(float64(t.Unix()) / secondsHour)) }

// Start returns the hour's first moment.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*secondsHour, 0).UTC() }

// String returns the hour's name, such as 2026112013. Names sort as hours do.
func (h Hour) String() string { return h.Start().Format("2006010215") }

// LocalZone is the TimeZone of a board whose days are dates on each user's own
// calendar.
const LocalZone = "local"

// FarthestEast and FarthestWest are the largest and the smallest offset of a clock
// from UTC: UTC+14 and UTC−12.
const (
	FarthestEast = 14 * time.Hour
	FarthestWest = -12 * time.Hour
)

// UTCOffset is how far a user's clock is ahead of UTC, in minutes. The zero value
// means that this is not known.
type UTCOffset struct {
	known   bool
	minutes int
}

// errOffset is the error for every malformed offset.
var errOffset = errors.New("an offset from UTC is written as +08:00, -03:30 or Z, from -12:00 to +14:00")

// ParseUTCOffset parses an offset such as +08:00, or Z for +00:00. A space counts as a plus,
// because that is how a query's plus is decoded if it was not percent-encoded.
func ParseUTCOffset(text string) (UTCOffset, error) {
	if text == "Z" {
		return UTCOffset{known: true}, nil
	}
	if rest, ok := strings.CutPrefix(text, " "); ok {
		text = "+" + rest
	}
	t, err := time.Parse("-07:00", text)
	if err != nil || text[4] > '5' { // Parse accepts 60 minutes and more
		return UTCOffset{}, errOffset
	}
	_, seconds := t.Zone()
	if offset := time.Duration(seconds) * time.Second; offset < FarthestWest || offset > FarthestEast {
		return UTCOffset{}, errOffset
	}
	return UTCOffset{known: true, minutes: seconds / 60}, nil
}

// EasternmostOffset returns the offset of FarthestEast, at which every date begins first.
func EasternmostOffset() UTCOffset {
	return UTCOffset{known: true, minutes: int(FarthestEast / time.Minute)}
}

// Today returns the date on the user's clock. It reports false if the offset is not
// known.
func (o UTCOffset) Today(now time.Time) (Date, bool) {
	return DateOf(now.UTC().Add(time.Duration(o.minutes) * time.Minute)), o.known
}

// StartOf returns when the date begins on the user's clock, if it has this offset then.
func (o UTCOffset) StartOf(d Date) time.Time {
	return d.UTC().Add(-time.Duration(o.minutes) * time.Minute)
}

// String returns the offset as +08:00, or "" if it is not known.
func (o UTCOffset) String() string {
	if !o.known {
		return ""
	}
	sign, minutes := '+', o.minutes
	if minutes < 0 {
		sign, minutes = '-', -minutes
	}
	return fmt.Sprintf("%c%02d:%02d", sign, minutes/60, minutes%60)
}
