package importer

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
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

// writtenDate has the days that a date may be, at most one for each order.
type writtenDate []reading

// reading is a day that a date is in some orders: in all of them if its form has only one.
type reading struct {
	orders dateOrder
	day    models.Date
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

// with adds the reading of a date's numbers in some orders, if they are a day of the calendar.
func (w writtenDate) with(orders dateOrder, year, month, day int) writtenDate {
	if year < 100 {
		year += 2000
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if int(t.Month()) != month || t.Day() != day {
		return w
	}
	date := models.DateOf(t)
	if at := slices.IndexFunc(w, func(r reading) bool { return r.day == date }); at >= 0 {
		w[at].orders |= orders
		return w
	}
	return append(w, reading{orders, date})
}

// in returns the readings of a date that has one of the orders.
func (w writtenDate) in(orders dateOrder) (readings writtenDate) {
	for _, r := range w {
		if r.orders&orders != 0 {
			readings = append(readings, r)
		}
	}
	return readings
}

// isDigits reports whether a text has nothing but digits.
func isDigits(text string) bool { return strings.Trim(text, "0123456789") == "" }

// months has the English names of months by their first letters.
var months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// parseWrittenDate parses a date without a time: three numbers between slashes, hyphens or dots,
// 20160412, or a date with the English name of its month, such as 12-Apr-2016, 12 April 16,
// Apr 12, 2016 and Tue, 12 Apr 2016.
func parseWrittenDate(text string) (w writtenDate, ok bool) {
	if len(text) == len("20160412") && isDigits(text) {
		text = text[:4] + "-" + text[4:6] + "-" + text[6:]
	}
	parts := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" -/.,", c) })
	if len(parts) == 4 && !isDigits(parts[0]) {
		parts = parts[1:] // the day of the week
	}
	if len(parts) != 3 {
		return nil, false
	}
	var numbers, lengths [3]int
	named := -1 // the part with the month's name
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil && named < 0 && i < 2 && len(part) >= 3 {
			named = i
			n = uint64(slices.Index(months, strings.ToLower(part[:3])) + 1)
		}
		if err != nil && (named != i || n == 0) {
			return nil, false
		}
		numbers[i], lengths[i] = int(n), len(part)
	}
	if named >= 0 {
		day, year := 1-named, 2
		if lengths[day] == 4 {
			day, year = year, day // 2016-Apr-12
		}
		ok = lengths[day] <= 2 && (lengths[year] == 2 || lengths[year] == 4)
		return w.with(anyOrder, numbers[year], numbers[named], numbers[day]), ok //nolint:gosec // named is 0 or 1
	}
	first, last, separator := lengths[0], lengths[2], text[len(parts[0]):][:1]
	switch {
	case !strings.Contains("-/.", separator), strings.Join(parts, separator) != text, lengths[1] > 2:
		return nil, false
	case first == 4 && last <= 2:
		return w.with(anyOrder, numbers[0], numbers[1], numbers[2]), true
	case first > 2, last != 2 && last != 4:
		return nil, false
	}
	w = w.with(monthFirst, numbers[2], numbers[0], numbers[1]).with(dayFirst, numbers[2], numbers[1], numbers[0])
	if first == 2 && last == 2 && separator == "-" {
		w = w.with(yearFirst, numbers[0], numbers[1], numbers[2])
	}
	return w, true
}

// parseDay parses a day. Programs often write it as its midnight, on the clock of no zone, with
// an offset from UTC, or as an instant; zone, which may be nil, is that of the board.
func parseDay(text string, zone *time.Location) (writtenDate, error) {
	if date, ok := parseWrittenDate(text); ok {
		return date, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) == len("1795046400") {
		return dayOfInstant(time.Unix(n, 0), zone)
	} else if err == nil && len(text) == len("1795046400000") {
		return dayOfInstant(time.UnixMilli(n), zone)
	}
	t, err := parseTime(text)
	switch {
	case errors.Is(err, errDate), err == nil && t.since == 0:
		return t.date, err
	case err != nil, !t.zoned, len(t.date) != 1:
		return t.date, errTime
	}
	return dayOfInstant(t.date[0].day.UTC().Add(t.since-t.east), zone)
}

// dayOfInstant returns the day that begins at an instant, in the board's zone or in UTC.
func dayOfInstant(t time.Time, zone *time.Location) (w writtenDate, err error) {
	for _, zone := range [...]*time.Location{zone, time.UTC} {
		if zone == nil {
			continue
		}
		year, month, day := t.In(zone).Date()
		if time.Date(year, month, day, 0, 0, 0, 0, zone).Equal(t) {
			return w.with(anyOrder, year, int(month), day), nil
		}
	}
	return nil, errInstant
}

// parseHour parses the beginning of an hour.
func parseHour(text string) (date writtenDate, hour int, err error) {
	t, err := parseTime(text)
	switch {
	case err != nil:
	case t.zoned:
		err = errZone
	case t.since%time.Hour != 0:
		err = errPart
	}
	return t.date, int(t.since / time.Hour), err
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

// writtenTime is a date with a time behind it.
type writtenTime struct {
	date  writtenDate
	since time.Duration // after midnight
	// zoned says that the text has an offset from UTC, and east what it is.
	zoned bool
	east  time.Duration
}

// clockForm matches a time such as 13:00, 1:00:00 PM or 13:00:00.000+08:00: its hour, minutes,
// seconds, the first letter of AM or PM, and the offset from UTC with its hours and minutes.
var clockForm = regexp.MustCompile(
	`^(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d*)?))? *(?i:([AP])M)? *(Z|UTC|GMT|([+-]\d\d):?([0-5]\d)?(?: ?UTC| ?GMT)?)?$`)

// parseTime parses a date and the time behind it.
func parseTime(text string) (t writtenTime, err error) {
	dateText, clock := cutTime(text)
	var ok bool
	if t.date, ok = parseWrittenDate(dateText); !ok {
		return t, errDate
	}
	m := clockForm.FindStringSubmatch(clock)
	if m == nil {
		return t, errClock
	}
	hour, _ := strconv.Atoi(m[1]) // two digits
	if half := m[4]; half != "" {
		if hour < 1 || hour > 12 {
			return t, errClock
		}
		if hour %= 12; half == "P" || half == "p" {
			hour += 12
		}
	}
	if hour > 23 {
		return t, errClock
	}
	t.zoned = m[5] != ""
	t.since, err = time.ParseDuration(fmt.Sprintf("%dh%sm%ss", hour, m[2], cmp.Or(m[3], "0")))
	if err == nil && m[6] != "" {
		t.east, err = time.ParseDuration(m[6] + "h" + cmp.Or(m[7], "0") + "m")
	}
	return t, err
}
