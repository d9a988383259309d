package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stepboard/models"
)

// maxSteps keeps the sum of a day's hours far from overflow. maxHourSteps is the most that
// a line of an hour may have, so that many hours fit into memory.
const (
	maxSteps     = 1 << 40
	maxHourSteps = 1<<32 - 1
)

// maxHeld is how many lines wait until it is certain what their dates and numbers are: about
// 100 MB.
const maxHeld = 500_000

// stepsExpected says what a file of steps holds.
const stepsExpected = "the columns user_id, date and steps, for a total a day, or Id, ActivityHour and StepTotal, for a total an hour"

// StepsLine is a line of a file of steps.
type StepsLine struct {
	Number int // from 1; of a record of several lines, the first
	User   models.UserID
	Date   models.Date
	// Hour is that at which the steps begin, from 0 to 23, on the clock of no zone in
	// particular. It is 0 if the file has days.
	Hour   int
	Hourly bool // whether the file has hours
	Steps  int64
}

// StepsOptions says how a file of steps is read. The zero value reads one that says everything
// itself.
type StepsOptions struct {
	// User, if it is set, has all the steps: the file has no column of users.
	User models.UserID
	// Columns names columns of the file, by their names or their numbers from 1, as in
	// "date=Day,steps=2": user, date, hour and steps.
	Columns string
	// Where takes only records with a value, as in "source_type=-2".
	Where []string
	// Zone is that of the board's days; nil if days are each user's own.
	Zone *time.Location
	// Note receives what a person should know about a line. It may be nil.
	Note func(line int, what string)
}

// EachSteps calls do for each record of a file of steps, or with the reason why it is bad,
// until ctx ends or do fails. The reason is ErrNoSteps for a day without a number, and
// ErrLeftOut for what o.Where does not take: these are not bad. One of the first ten records
// names the columns, which may have any order, and others may be among them. Commas, semicolons
// or tabs separate the fields.
//
// A date is 2016-4-12 and the like, or 4/12/2016 if the file shows whether the day or the month
// comes first: by a day above 12. A number may be 13,666, unless the file has fractions such as
// 13,5. Lines wait in memory until this is certain, at most maxHeld. It fails if the file does
// not show the order, or shows both.
func EachSteps(ctx context.Context, in io.Reader, o StepsOptions, do func(line StepsLine, bad error) error) error {
	filters, err := parseFilters(o.Where)
	if err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	asked, err := parseColumns(o.Columns)
	if err != nil {
		return fmt.Errorf("--columns: %w", err)
	}
	r := &stepsReader{StepsOptions: o, do: do, filters: filters, asked: asked, orders: anyOrder, records: newRecordReader(in)}
	for err == nil {
		var rec record
		if rec, err = r.records.next(ctx); err == nil {
			err = r.read(rec)
		}
	}
	switch {
	case !errors.Is(err, errEnd):
		return err
	case r.records.delimiters == "":
		return r.noHeader()
	}
	return r.settle("the file does")
}

// stepsReader reads the lines of a file of steps.
type stepsReader struct {
	StepsOptions

	do      func(line StepsLine, bad error) error
	records *recordReader
	filters []filter
	asked   map[string]string // the names of columns that were asked for, by what they have
	header  header
	columns stepsColumns

	// above counts the records above the header. best says why the one of them with the most
	// fields is none.
	above, most int
	best        error

	// orders has those that all dates so far permit, and shown the last date that excluded some.
	orders dateOrder
	shown  string
	commas commas
	// held has the lines that wait in their order, the first of them until its date and its number
	// are certain.
	held []heldSteps
}

// heldSteps is a line that waits until its date and its number are certain.
type heldSteps struct {
	StepsLine

	date   writtenDate
	text   string // of the date
	number writtenNumber
}

// read reads a record.
func (r *stepsReader) read(rec record) error {
	above := r.records.delimiters == "" // the header
	switch {
	case rec.bad != nil && above:
		return fmt.Errorf("line %d: %w", rec.number, rec.bad)
	case rec.bad == nil && rec.text == "":
		return nil
	case above:
		return r.readHeader(rec)
	}
	l, bad := r.parse(rec)
	if err := r.learn(l); err != nil {
		return err
	}
	if bad != nil {
		return r.do(l.StepsLine, bad)
	}
	if len(r.held) == 0 && r.certain(l) {
		return r.pass(l)
	}
	l.text = strings.Clone(l.text) // without the rest of the record
	if r.held = append(r.held, l); len(r.held) > maxHeld {
		return r.settle(fmt.Sprintf("%d lines do", maxHeld))
	}
	return r.release()
}

// readHeader reads a record of those that may name the columns.
func (r *stepsReader) readHeader(rec record) error {
	for _, delimiter := range []string{",", ";", "\t"} {
		names, err := split(rec.text, delimiter)
		if err == nil {
			r.header, err = newHeader(names, r.filters)
		}
		if err == nil {
			r.columns, err = findColumns(names, r.asked, r.User != "")
		}
		if err == nil {
			r.records.delimiters = delimiter
			if r.above > 0 && r.Note != nil {
				r.Note(rec.number, fmt.Sprintf("names the columns; %d above it were skipped", r.above))
			}
			return nil
		}
		if len(names) > r.most || r.best == nil {
			r.most = len(names)
			if r.best = fmt.Errorf("line %d is %q: %w", rec.number, shortened(rec.text), err); len(names) > 1 {
				r.best = fmt.Errorf("line %d has the columns %s: %w", rec.number, listed(names), err)
			}
		}
	}
	if r.above++; r.above == headerWithin {
		return r.noHeader()
	}
	return nil
}

// noHeader returns the error of a file without a header.
func (r *stepsReader) noHeader() error {
	if r.best == nil {
		return errors.New("the file is empty: its first line must name the columns")
	}
	return fmt.Errorf("%w; one of the first %d lines must have %s, in any order; or say which columns they are: --columns user=…,date=…,steps=…",
		r.best, headerWithin, stepsExpected)
}

// parse parses a record, but for what only the whole file shows.
func (r *stepsReader) parse(rec record) (l heldSteps, err error) {
	at := r.columns
	l.Number, l.Hourly, l.User = rec.number, at.hourly, r.User
	if rec.bad != nil {
		return l, rec.bad
	}
	fields, err := split(rec.text, r.records.delimiters)
	if err == nil {
		fields, err = r.header.row(fields)
	}
	if err == nil && r.User == "" {
		l.User, err = parseUser(fields[at.user], 0)
	}
	if err != nil {
		return l, err
	}
	l.text = strings.TrimSpace(fields[at.date])
	if at.hour != notNamed {
		if l.text, err = joinHour(l.text, strings.TrimSpace(fields[at.hour])); err != nil {
			return l, err
		}
	}
	most := int64(maxSteps)
	if l.Hourly {
		most = maxHourSteps
		l.date, l.Hour, err = parseHour(l.text)
	} else {
		l.date, err = parseDay(l.text, r.Zone)
	}
	if err == nil && len(l.date) == 0 {
		err = errDay
	}
	if err != nil {
		return l, fmt.Errorf("%q %w", shortened(l.text), err)
	}
	steps := strings.TrimSpace(fields[at.steps])
	if steps == "" || isPlaceholder(steps) {
		return l, ErrNoSteps
	}
	l.number, err = parseSteps(steps, most)
	return l, err
}

// learn notes what a line shows about the file.
func (r *stepsReader) learn(l heldSteps) error {
	var possible dateOrder
	for _, reading := range l.date {
		possible |= reading.orders
	}
	if possible != 0 && r.orders&possible != r.orders {
		if r.orders &= possible; r.orders == 0 {
			return fmt.Errorf("the dates %q and %q have the day, the month and the year in different orders: %s",
				r.shown, l.text, writeYearFirst)
		}
		r.shown = strings.Clone(l.text)
	}
	r.commas = cmp.Or(r.commas, l.number.shows)
	return nil
}

// certain reports whether the date and the number of a line are certain.
func (r *stepsReader) certain(l heldSteps) bool {
	return len(l.date.in(r.orders)) <= 1 && (l.number.grouped == l.number.decimal || r.commas != commasUnknown)
}

// release passes on the lines that wait no longer.
func (r *stepsReader) release() error {
	for len(r.held) > 0 && r.certain(r.held[0]) {
		if err := r.pass(r.held[0]); err != nil {
			return err
		}
		r.held = r.held[1:]
	}
	return nil
}

// settle passes on the lines that wait. It takes commas for separators of thousands if the file has
// no fractions, and fails if the file, or so many lines, do not show the order of dates.
func (r *stepsReader) settle(who string) error {
	r.commas = cmp.Or(r.commas, commasGroup)
	if err := r.release(); err != nil || len(r.held) == 0 {
		return err
	}
	h := r.held[0]
	var days []string
	for _, reading := range h.date.in(r.orders) {
		days = append(days, reading.day.String())
	}
	return fmt.Errorf("%s not show whether the day or the month comes first in dates such as %q in line %d, which may be %s: %s",
		who, h.text, h.Number, strings.Join(days, " or "), writeYearFirst)
}

// writeYearFirst says what to do with dates whose order is not certain.
const writeYearFirst = "write the dates with the year first, such as 2016-04-12"

// pass passes on a line whose date and number are certain.
func (r *stepsReader) pass(l heldSteps) error {
	readings := l.date.in(r.orders)
	if len(readings) == 0 {
		return r.do(l.StepsLine, fmt.Errorf("%q %w", shortened(l.text), errDay))
	}
	l.Date, l.Steps = readings[0].day, l.number.grouped
	if r.commas == commasDecimal {
		l.Steps = l.number.decimal
	}
	if l.Steps < 0 {
		return r.do(l.StepsLine, errors.New("its steps have a fraction: other lines show that a comma begins one in this file"))
	}
	return r.do(l.StepsLine, nil)
}

// stepsColumns has the positions of columns, from 0.
type stepsColumns struct {
	user, date, steps int
	hourly            bool // whether the lines are hours
	hour              int  // notNamed if date has the hours, too
}

// notNamed stands for the position of a column that no name has.
const notNamed = -1

// stepsColumnNames has the names of columns, as columnWord returns them. The first column with an
// earlier name is taken: a table often has an id of its own, and a moment when it was written.
var stepsColumnNames = struct{ user, date, hour, steps []string }{
	user: []string{
		"userid", "user", "username", "participantidentifier", "participantid", "participant", "subjectid", "subject", "memberid", "member",
		"personid", "person", "playerid", "player", "employeeid", "uid", "openid", "id", "用户id", "用户", "成员",
	},
	date: []string{
		"date", "day", "activitydate", "activityday", "calendardate", "stepdate", "recorddate", "summarydate", "localdate", "logdate",
		"daytime", "datetime", "dateofsteps", "datum", "fecha", "日期", "日付", "startdate", "start", "timestamp",
	},
	hour: []string{"activityhour", "hour", "hourofday", "小时"},
	steps: []string{
		"steps", "steptotal", "totalsteps", "stepcount", "stepscount", "stepstotal", "totalstepcount", "dailysteps", "dailystepcount", "dailytotalsteps",
		"numberofsteps", "numsteps", "nsteps", "noofsteps", "stepstaken", "totalstepstaken", "totalstepsperday", "stepsperday", "walkingsteps", "stepsvalue",
		"schritte", "pasos", "nombredepas", "pas", "passi", "stappen", "步数", "步數", "歩数",
	},
}

// countNames are the names of steps in files that have nothing else beside the day: exports of
// one kind of record.
var countNames = []string{"count", "actual"}

// parseColumns parses a text such as "user=who,date=2" into the columns' names or numbers.
func parseColumns(text string) (map[string]string, error) {
	asked := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		what, name, ok := strings.Cut(part, "=")
		what, name = strings.TrimSpace(what), strings.TrimSpace(name)
		if !ok || name == "" || !slices.Contains([]string{"user", "date", "hour", "steps"}, what) {
			return nil, fmt.Errorf("%q does not have the form user=NAME, date=NAME, hour=NAME or steps=NAME", part)
		}
		asked[what] = name
	}
	return asked, nil
}

// findColumns finds the columns by the names that were asked for, and the others by
// stepsColumnNames. If there is one user, a column for users must not be asked for, and the file
// must have none.
func findColumns(names []string, asked map[string]string, oneUser bool) (c stepsColumns, err error) {
	find := func(what, content string, known []string) int {
		if name := asked[what]; name != "" {
			at, missing := columnNumber(names, name)
			err = cmp.Or(err, missing)
			return at
		}
		if what == "hour" && asked["date"] != "" {
			return notNamed
		}
		at, twice := findColumn(names, known)
		if twice && err == nil {
			err = fmt.Errorf("it has two columns for %s", content)
		}
		return at
	}
	c.date = find("date", "days", stepsColumnNames.date)
	c.hour = find("hour", "hours", stepsColumnNames.hour)
	c.steps = find("steps", "steps", stepsColumnNames.steps)
	if c.date == notNamed && strings.TrimSpace(names[0]) == "" {
		c.date = 0 // Garmin names the columns "", Actual and Goal
	}
	if c.steps == notNamed && c.date != notNamed {
		c.steps, _ = findColumn(names, countNames)
	}
	c.user = find("user", "users", stepsColumnNames.user)
	c.hourly = c.hour != notNamed
	if c.date == notNamed {
		c.date, c.hour = c.hour, notNamed
	}
	switch {
	case err != nil:
	case c.steps == notNamed:
		err = errors.New("no column has the steps")
	case c.date == notNamed:
		err = errors.New("no column has days or hours")
	case oneUser && asked["user"] != "":
		err = errors.New("--user and --columns user=… exclude each other")
	case oneUser && c.user != notNamed && (asked["date"] == "" || asked["steps"] == ""):
		err = fmt.Errorf("the column %q has users, whose steps would all become those of --user; if it has none, name the others by --columns", names[c.user])
	case !oneUser && c.user == notNamed:
		err = errors.New("no column has the ids of users (if the file is one person's, say whose by --user ID)")
	}
	return c, err
}

// findColumn returns the position of the column with the earliest of the names, or notNamed, and
// whether another one has the same name.
func findColumn(names, known []string) (at int, twice bool) {
	for _, word := range known {
		isWord := func(name string) bool { return isAbout(name, word) }
		if at = slices.IndexFunc(names, isWord); at >= 0 {
			return at, slices.ContainsFunc(names[at+1:], isWord)
		}
	}
	return notNamed, false
}
