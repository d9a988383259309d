package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stepboard/models"
)

// maxSteps keeps the sum of a day's hours far from overflow. maxHourSteps is the most that
// a line of an hour may have, so that many hours fit into memory.
const (
	maxSteps     = 1 << 40
	maxHourSteps = 1<<32 - 1
)

// maxHeld is how many lines wait until it is certain whether the day or the month comes first:
// about 80 MB.
const maxHeld = 500_000

// stepsExpected says what a file of steps holds.
const stepsExpected = "the columns user_id, date and steps, for a total a day, or Id, ActivityHour and StepTotal, for a total an hour"

// StepsLine is a line of a file of steps.
type StepsLine struct {
	Number int // from 1
	User   models.UserID
	Date   models.Date
	// Hour is that at which the steps begin, from 0 to 23, on the clock of no zone in
	// particular. It is 0 if the file has days.
	Hour   int
	Hourly bool // whether the file has hours
	Steps  int64
}

// EachSteps calls do for each line of a file of steps, or with the reason why a line is bad,
// until ctx ends or do fails. The first line names the columns, which may have any order,
// and others may be among them. Commas, semicolons or tabs separate the fields.
//
// A date is 2016-4-12, or 4/12/2016 if the file shows whether the day or the month comes
// first: by a day above 12. Lines wait in memory until then, at most 500,000. It fails if
// the file does not show the order, or shows both.
func EachSteps(ctx context.Context, in io.Reader, do func(line StepsLine, bad error) error) error {
	r := &stepsReader{do: do}
	err := eachLine(ctx, in, func(number int, line string) error {
		switch {
		case line == "":
			return nil
		case r.splitter == nil:
			return r.readHeader(line)
		}
		return r.read(number, line)
	})
	switch {
	case err != nil:
		return err
	case r.splitter == nil:
		return errors.New("the file is empty: its first line must name the columns")
	case len(r.held) > 0:
		return r.uncertain("the file does")
	}
	return nil
}

// stepsReader reads the lines of a file of steps.
type stepsReader struct {
	do       func(line StepsLine, bad error) error
	splitter *splitter // nil until the header was read
	columns  stepsColumns

	// order is that of the dates whose year comes last, and shown the date that showed it.
	order dateOrder
	shown string
	held  []heldSteps
}

// heldSteps is a line that waits for the order of its date.
type heldSteps struct {
	StepsLine
	date writtenDate
	text string // of the date
}

// readHeader reads the first line.
func (r *stepsReader) readHeader(line string) error {
	var best error
	most := 0
	for _, delimiter := range ",;\t" {
		splitter := newSplitter(delimiter)
		names, err := splitter.split(line)
		if err == nil {
			if r.columns, err = findColumns(names); err == nil {
				r.splitter = splitter
				return nil
			}
		}
		if len(names) > most || best == nil {
			best, most = err, len(names)
		}
	}
	return fmt.Errorf("the first line is %q: %w; it must name %s, in any order", shortened(line), best, stepsExpected)
}

// read reads a line with content.
func (r *stepsReader) read(number int, line string) error {
	l, date, text, err := r.parse(line)
	l.Number = number
	if err != nil {
		return r.do(l, err)
	}
	if !date.certain() && r.order == orderUnknown {
		if len(r.held) == maxHeld {
			return r.uncertain(fmt.Sprintf("%d lines do", maxHeld))
		}
		r.held = append(r.held, heldSteps{l, date, text})
		return nil
	}
	if order := date.order(); order != orderUnknown {
		if err := r.show(order, text); err != nil {
			return err
		}
	}
	return r.pass(l, date, text)
}

// parse parses a line, but for the order of the date, whose text it returns, too.
func (r *stepsReader) parse(line string) (l StepsLine, date writtenDate, text string, err error) {
	fields, err := r.splitter.split(line)
	if err != nil {
		return l, date, "", err
	}
	if c := r.columns; len(fields) != c.count {
		return l, date, "", fmt.Errorf("%d fields instead of %d", len(fields), c.count)
	}
	if l.User, err = parseUser(fields[r.columns.user]); err != nil {
		return l, date, "", err
	}
	text = strings.TrimSpace(fields[r.columns.date])
	l.Hourly = r.columns.hourly
	most := int64(maxSteps)
	if l.Hourly {
		most = maxHourSteps
		date, l.Hour, err = parseHour(text)
	} else {
		date, err = parseDay(text)
	}
	if err != nil {
		return l, date, "", fmt.Errorf("%q %w", shortened(text), err)
	}
	l.Steps, err = parseSteps(fields[r.columns.steps], most)
	return l, date, text, err
}

// show notes a date that shows the order, and passes on the lines that waited for it.
func (r *stepsReader) show(order dateOrder, text string) error {
	if r.order == orderUnknown {
		r.order, r.shown = order, text
		for i := range r.held {
			h := &r.held[i]
			if err := r.pass(h.StepsLine, h.date, h.text); err != nil {
				return err
			}
		}
		r.held = nil
		return nil
	}
	if order != r.order {
		return fmt.Errorf("the month comes first in %q or in %q, and the day in the other: %s", r.shown, text, writeYearFirst)
	}
	return nil
}

// writeYearFirst says what to do with dates whose order is not certain.
const writeYearFirst = "write the dates with the year first, such as 2016-04-12"

// uncertain returns the error of a file, or of so many lines, that do not show the order.
func (r *stepsReader) uncertain(who string) error {
	h := r.held[0]
	return fmt.Errorf("%s not show whether the day or the month comes first in dates such as %q in line %d: %s",
		who, h.text, h.Number, writeYearFirst)
}

// pass passes on a line whose date is certain.
func (r *stepsReader) pass(l StepsLine, date writtenDate, text string) error {
	var err error
	if l.Date, err = date.date(r.order); err != nil {
		err = fmt.Errorf("%q %w", shortened(text), err)
	}
	return r.do(l, err)
}

// stepsColumns has the positions of columns, from 0.
type stepsColumns struct {
	count             int
	user, date, steps int
	hourly            bool // whether date has hours
}

// stepsColumnNames are the names of columns without capitals and with nothing but letters.
// The first column with an earlier name is taken: a table often has an id of its own.
var stepsColumnNames = struct{ user, date, hour, steps []string }{
	user:  []string{"userid", "user", "id"},
	date:  []string{"date", "day", "activitydate", "activityday"},
	hour:  []string{"activityhour", "hour"},
	steps: []string{"steps", "steptotal", "totalsteps", "stepcount"},
}

// findColumns finds the columns by their names.
func findColumns(names []string) (c stepsColumns, err error) {
	words := make(map[string]int, len(names))
	for i, name := range names {
		word, digits := columnWord(name)
		if digits {
			continue
		}
		if _, twice := words[word]; twice {
			i = twiceNamed
		}
		words[word] = i
	}
	find := func(what string, names []string) (at int) {
		for _, name := range names {
			at, ok := words[name]
			if !ok {
				continue
			}
			if at == twiceNamed && err == nil {
				err = fmt.Errorf("it has two columns for %s", what)
			}
			return at
		}
		return notNamed
	}
	c.count = len(names)
	c.user = find("users", stepsColumnNames.user)
	c.date = find("days", stepsColumnNames.date)
	hour := find("hours", stepsColumnNames.hour)
	c.steps = find("steps", stepsColumnNames.steps)
	switch {
	case err != nil:
		return c, err
	case c.user == notNamed:
		return c, errors.New("no column has the ids of users")
	case c.steps == notNamed:
		return c, errors.New("no column has the steps")
	case c.date == notNamed && hour == notNamed:
		return c, errors.New("no column has days or hours")
	case c.date != notNamed && hour != notNamed:
		return c, errors.New("it has one column for days and one for hours, which must be the same, such as 2016-4-12 13:00")
	}
	if c.hourly = hour != notNamed; c.hourly {
		c.date = hour
	}
	return c, nil
}

// notNamed and twiceNamed stand for the position of a column that no name, or more than
// one, has.
const (
	notNamed   = -1
	twiceNamed = -2
)

// parseSteps returns the steps of a field.
func parseSteps(field string, most int64) (int64, error) {
	steps, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil || steps < 0 || steps > most {
		return 0, fmt.Errorf("%q is not a whole number of steps from 0 to %d", shortened(field), most)
	}
	return steps, nil
}
