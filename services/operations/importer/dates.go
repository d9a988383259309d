package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stepboard/models"
)

// dateOrder is a set of the orders that the day, the month and the year of a date may have.
type dateOrder uint8

const (
	monthFirst dateOrder = 1 << iota // 4/12/2016
	dayFirst                         // 12/4/2016
	yearFirst                        // 2016-4-12

	anyOrder = monthFirst | dayFirst | yearFirst
)

// writtenDate is a date as a line has it.
type writtenDate struct {
	numbers [3]int
	orders  dateOrder // those that its form permits
}

// What is wrong with a date or a time, behind its text.
var (
	errDay     = errors.New("is no day of the calendar")
	errDate    = errors.New("is not a date such as 2016-4-12, 4/12/2016 or 12-Apr-2016")
	errClock   = errors.New("has no time such as 13:00 or 1:00:00 PM")
	errZone    = errors.New("has an offset from UTC: write times on the clock of the board's zone, such as 2016-4-12 13:00")
	errPart    = errors.New("is not the beginning of an hour: a line has the steps of a whole hour")
	errTime    = errors.New("has a time: write a day without one, or call the column ActivityHour if it has hours")
	errInstant = errors.New("is no midnight, neither in UTC nor in the board's time zone: write a day such as 2016-04-12")
)

// in returns the day that the date is in one order.
func (w writtenDate) in(order dateOrder) (models.Date, error) {
	year, month, day := w.numbers[0], w.numbers[1], w.numbers[2]
	switch order {
	case monthFirst:
		month, day, year = w.numbers[0], w.numbers[1], w.numbers[2]
	case dayFirst:
		day, month, year = w.numbers[0], w.numbers[1], w.numbers[2]
	}
	if year < 100 {
		year += 2000
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Year() != year || int(t.Month()) != month || t.Day() != day {
		return 0, errDay
	}
	return models.DateOf(t), nil
}

// readings returns the days that the date may be if it has one of the orders, and which of
// them make it a day of the calendar. A form that has only one order is read in that.
func (w writtenDate) readings(orders dateOrder) (days []models.Date, possible dateOrder) {
	if w.orders == yearFirst {
		orders = yearFirst
	}
	for order := monthFirst; order <= yearFirst; order <<= 1 {
		if orders&w.orders&order == 0 {
			continue
		}
		if day, err := w.in(order); err == nil {
			possible |= order
			if !slices.Contains(days, day) {
				days = append(days, day)
			}
		}
	}
	return days, possible
}

// certainDate returns the date in the form that has only one order.
func certainDate(year, month, day int) writtenDate {
	return writtenDate{numbers: [3]int{year, month, day}, orders: yearFirst}
}

// parseWrittenDate parses a date without a time: three numbers between slashes, hyphens or
// dots, 20160412, or a date with the English name of its month.
func parseWrittenDate(text string) (w writtenDate, ok bool) {
	at := strings.IndexAny(text, "/-.")
	if at < 0 || strings.ContainsAny(text, " ,") {
		if len(text) == len("20160412") && strings.Trim(text, "0123456789") == "" {
			n, _ := strconv.Atoi(text) // it has nothing but digits
			return certainDate(n/10_000, n/100%100, n%100), true
		}
		return parseNamedDate(text)
	}
	second, third, ok := strings.Cut(text[at+1:], text[at:at+1])
	if !ok {
		return w, false
	}
	texts := [3]string{text[:at], second, third}
	for i, digits := range texts {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || len(digits) > 2 && (len(digits) != 4 || i == 1) {
			return parseNamedDate(text)
		}
		w.numbers[i] = int(n)
	}
	switch first, last := len(texts[0]), len(texts[2]); {
	case first == 4 && last <= 2:
		w.orders = yearFirst
	case first <= 2 && last == 4:
		w.orders = monthFirst | dayFirst
	case first == 2 && last == 2 && text[at] == '-':
		w.orders = anyOrder
	case first <= 2 && last == 2:
		w.orders = monthFirst | dayFirst
	default:
		return w, false
	}
	return w, true
}

// months has the English names of months by their first letters.
var months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// parseNamedDate parses 12-Apr-2016, 12 April 16, Apr 12, 2016 and Tue, 12 Apr 2016.
func parseNamedDate(text string) (w writtenDate, ok bool) {
	parts := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" -/.,", c) })
	if len(parts) == 4 && strings.Trim(parts[0], "0123456789") != "" {
		parts = parts[1:] // the day of the week
	}
	if len(parts) != 3 {
		return w, false
	}
	month, named := 0, 1
	for i, part := range parts[:2] {
		if len(part) >= 3 {
			if m := slices.Index(months, strings.ToLower(part[:3])); m >= 0 && strings.Trim(part, "0123456789") == part {
				month, named = m+1, i
			}
		}
	}
	day, year := parts[1-named], parts[2]
	if len(day) == 4 {
		day, year = year, day // 2016-Apr-12
	}
	d, errDay := strconv.ParseUint(day, 10, 8)
	y, errYear := strconv.ParseUint(year, 10, 16)
	if month == 0 || errDay != nil || errYear != nil || len(day) > 2 || len(year) != 2 && len(year) != 4 {
		return w, false
	}
	return certainDate(int(y), month, int(d)), true
}

// parseDay parses a day. Programs often write it as its midnight, on the clock of no zone, with
// an offset from UTC, or as an instant; zone, which may be nil, is that of the board.
func parseDay(text string, zone *time.Location) (writtenDate, error) {
	if date, ok := parseWrittenDate(text); ok {
		return date, nil
	}
	if t, ok := parseSince1970(text); ok {
		return dayOfInstant(t, zone)
	}
	dateText, clock := cutTime(text)
	date, ok := parseWrittenDate(dateText)
	if !ok || clock == "" {
		return date, errDate
	}
	clock, offset := cutOffset(clock)
	if hour, err := parseClock(clock); err == nil && hour == 0 {
		return date, nil
	}
	days, _ := date.readings(anyOrder)
	since, err := parseTimeOfDay(clock)
	if offset == "" || err != nil || len(days) != 1 {
		return date, errTime
	}
	east, err := time.Parse("-07:00", offset)
	if err != nil {
		return date, errTime
	}
	_, seconds := east.Zone()
	return dayOfInstant(days[0].UTC().Add(since-time.Duration(seconds)*time.Second), zone)
}

// parseSince1970 parses a time in seconds or milliseconds since 1970.
func parseSince1970(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
	case len(text) == 10:
		return time.Unix(n, 0).UTC(), true
	case len(text) == 13:
		return time.UnixMilli(n).UTC(), true
	}
	return time.Time{}, false
}

// dayOfInstant returns the day that begins at an instant, in the board's zone or in UTC.
func dayOfInstant(t time.Time, zone *time.Location) (writtenDate, error) {
	for _, zone := range [...]*time.Location{zone, time.UTC} {
		if zone == nil {
			continue
		}
		year, month, day := t.In(zone).Date()
		if time.Date(year, month, day, 0, 0, 0, 0, zone).Equal(t) {
			return certainDate(year, int(month), day), nil
		}
	}
	return writtenDate{}, errInstant
}

// parseHour parses the beginning of an hour.
func parseHour(text string) (date writtenDate, hour int, err error) {
	dateText, clock := cutTime(text)
	date, ok := parseWrittenDate(dateText)
	if !ok {
		return date, 0, errDate
	}
	if _, offset := cutOffset(clock); offset != "" {
		return date, 0, errZone
	}
	hour, err = parseClock(clock)
	return date, hour, err
}

// joinHour returns the text of an hour from two columns. That of hours may repeat the day.
func joinHour(day, hour string) (string, error) {
	if date, clock := cutTime(hour); date != "" && clock != "" {
		if before, _ := cutTime(day); before != date {
			return "", fmt.Errorf("%q and %q are different days", shortened(day), shortened(hour))
		}
		return hour, nil
	}
	date, _ := cutTime(day)
	if !strings.Contains(hour, ":") {
		hour += ":00"
	}
	return date + " " + hour, nil
}

// cutTime cuts a text behind its date, before the hour of its clock.
func cutTime(text string) (date, clock string) {
	at := strings.IndexByte(text, ':')
	if at < 0 {
		return text, ""
	}
	for at > 0 && text[at-1] >= '0' && text[at-1] <= '9' {
		at--
	}
	return strings.TrimRight(text[:at], " ,T"), text[at:]
}

// cutOffset cuts an offset from UTC off the end of a time and returns it as +08:00.
func cutOffset(clock string) (rest, offset string) {
	rest = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(clock, "UTC"), "GMT"))
	if before, ok := strings.CutSuffix(rest, "Z"); ok {
		return before, "+00:00"
	}
	at := strings.LastIndexAny(rest, "+-")
	if at < 0 {
		if rest != strings.TrimSpace(clock) {
			return rest, "+00:00"
		}
		return rest, ""
	}
	offset = strings.ReplaceAll(rest[at:], ":", "")
	if len(offset) == len("+08") {
		offset += "00"
	}
	if len(offset) != len("+0800") {
		return clock, "?" // it is none, and no time either
	}
	return strings.TrimSpace(rest[:at]), offset[:3] + ":" + offset[3:]
}

// parseTimeOfDay returns how long after midnight a clock such as 16:00 or 16:00:00.000 is.
func parseTimeOfDay(clock string) (time.Duration, error) {
	t, err := time.Parse("15:04:05", clock)
	if err != nil {
		t, err = time.Parse("15:04", clock)
	}
	return t.Sub(t.Truncate(24 * time.Hour)), err
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
