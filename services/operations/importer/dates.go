package importer

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"stepboard/models"
)

// writtenDate is a date as a line has it. If the year comes last, the order of the day
// and the month may not be certain.
type writtenDate struct {
	year int
	// first and second are the month and the day if the year comes first; otherwise one
	// of them is the month.
	first, second int
	yearLast      bool
}

// dateOrder is the order of the day and the month in dates whose year comes last.
type dateOrder int

const (
	orderUnknown dateOrder = iota
	monthFirst
	dayFirst
)

// What is wrong with a date or a time, behind its text.
var (
	errDay   = errors.New("is no day of the calendar")
	errDate  = errors.New("is not a date such as 2016-4-12 or 4/12/2016")
	errClock = errors.New("has no time such as 13:00 or 1:00:00 PM")
	errZone  = errors.New("has an offset from UTC: write times on the clock of the board's zone, such as 2016-4-12 13:00")
	errPart  = errors.New("is not the beginning of an hour: a line has the steps of a whole hour")
	errTime  = errors.New("has a time: write a day without one, or call the column ActivityHour if it has hours")
)

// order returns the order that the date shows, by a day above 12. Such a date whose month
// has fewer days shows none.
func (w writtenDate) order() dateOrder {
	if !w.yearLast {
		return orderUnknown
	}
	for _, order := range [...]dateOrder{monthFirst, dayFirst} {
		day := w.second
		if order == dayFirst {
			day = w.first
		}
		if _, err := w.date(order); err == nil && day > 12 {
			return order
		}
	}
	return orderUnknown
}

// certain reports whether the date is the same day, or none, in both orders.
func (w writtenDate) certain() bool {
	return !w.yearLast || w.first == w.second || w.first > 12 || w.second > 12
}

// date returns the day. The order counts if the year comes last.
func (w writtenDate) date(order dateOrder) (models.Date, error) {
	month, day := w.first, w.second
	if w.yearLast && order == dayFirst {
		month, day = day, month
	}
	t := time.Date(w.year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Year() != w.year || int(t.Month()) != month || t.Day() != day {
		return 0, errDay
	}
	return models.DateOf(t), nil
}

// parseWrittenDate parses 2016-4-12 or 4/12/2016. Slashes, hyphens and dots may separate
// the numbers of either.
func parseWrittenDate(text string) (w writtenDate, ok bool) {
	at := strings.IndexAny(text, "/-.")
	if at < 0 {
		return w, false
	}
	second, third, ok := strings.Cut(text[at+1:], text[at:at+1])
	if !ok {
		return w, false
	}
	texts := [3]string{text[:at], second, third}
	w.yearLast = len(third) == 4
	if w.yearLast {
		texts = [3]string{third, texts[0], second}
	}
	var numbers [3]int
	for i, digits := range texts {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || len(digits) > 2 && i > 0 || len(digits) != 4 && i == 0 {
			return w, false
		}
		numbers[i] = int(n)
	}
	w.year, w.first, w.second = numbers[0], numbers[1], numbers[2]
	return w, true
}

// parseDay parses a day. Exports often add midnight to it.
func parseDay(text string) (writtenDate, error) {
	dateText, clock := cutTime(text)
	date, ok := parseWrittenDate(dateText)
	if !ok {
		return date, errDate
	}
	if clock != "" {
		if hour, err := parseClock(clock); err != nil || hour != 0 {
			return date, errTime
		}
	}
	return date, nil
}

// parseHour parses the beginning of an hour.
func parseHour(text string) (date writtenDate, hour int, err error) {
	dateText, clock := cutTime(text)
	date, ok := parseWrittenDate(dateText)
	if !ok {
		return date, 0, errDate
	}
	hour, err = parseClock(clock)
	return date, hour, err
}

// cutTime cuts a text behind its date.
func cutTime(text string) (date, clock string) {
	at := strings.IndexAny(text, " T")
	if at < 0 {
		return text, ""
	}
	return text[:at], strings.TrimSpace(text[at+1:])
}

// parseClock parses the beginning of an hour, such as 13:00, 13:00:00 or 1:00 PM, and
// returns the hour.
func parseClock(clock string) (int, error) {
	digits, afternoon, twelve := clock, 0, false
	if n := len(clock) - 2; n > 0 && (strings.EqualFold(clock[n:], "AM") || strings.EqualFold(clock[n:], "PM")) {
		digits, twelve = strings.TrimSpace(clock[:n]), true
		if clock[n]|0x20 == 'p' {
			afternoon = 12
		}
	}
	if strings.ContainsAny(digits, "+-Zz") {
		return 0, errZone
	}
	hourText, rest, ok := strings.Cut(digits, ":")
	hour, err := strconv.ParseUint(hourText, 10, 8)
	if !ok || err != nil || len(hourText) > 2 || hour > 23 || twelve && (hour < 1 || hour > 12) {
		return 0, errClock
	}
	minutes, seconds, hasSeconds := strings.Cut(rest, ":")
	seconds, _, _ = strings.Cut(seconds, ".")
	if len(minutes) != 2 || hasSeconds && len(seconds) != 2 || strings.Trim(rest, "0123456789:.") != "" {
		return 0, errClock
	}
	if strings.Trim(rest, "0:.") != "" {
		return 0, errPart
	}
	if twelve {
		return int(hour)%12 + afternoon, nil
	}
	return int(hour), nil
}
