package models

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

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
