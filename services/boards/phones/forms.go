package phones

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// MaxDays is the largest number of days that one call stores. If a body has more, the newest are stored.
const MaxDays = 31

// Form is a form in which apps send steps.
type Form string

// The forms. Each has a file of its own, with what is published about it.
const (
	Own              Form = "own"
	HealthAutoExport Form = "health_auto_export"
	HealthConnect    Form = "health_connect"
	Shortcut         Form = "shortcut"
	Fields           Form = "fields"
	// Unknown is the form of what is not recognised.
	Unknown Form = "unknown"
)

// Total is the total of a day, as a phone has sent it.
type Total struct {
	Date  models.Date
	Steps int64
}

// Refused is a day that a phone has sent, in a way that gives no total of it. Date is nil if it can't be read.
type Refused struct {
	Date *models.Date
	Err  *models.Error
}

// Reading is what was read in a call: totals, oldest first and at most MaxDays, each day once, and the days without one.
// What is no step total is skipped, so there may be neither.
type Reading struct {
	Totals  []Total
	Refused []Refused
}

// Read recognises the form of a body, or of a query if the body is empty, and reads the totals of days that it has.
// zone is where the phone is. Nothing is added up: no total is larger than the largest number of steps in the body.
// A day that can't be read leaves the others as they are. Errors, of the whole call: CodeNotRecognised, CodeNotDaily if
// steps are there, but not as totals of days.
func Read(body []byte, query string, zone *time.Location) (Form, Reading, error) {
	form, r, err := read(body, query, zone)
	if err == nil && len(r.totals) == 0 && len(r.refused) > 0 {
		err = wholly(r.refused[0].Err)
	}
	if err != nil {
		return form, Reading{}, err
	}
	r.totals = slices.SortedFunc(slices.Values(r.totals), func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(b.Steps, a.Steps))
	})
	totals := slices.CompactFunc(r.totals, func(a, b Total) bool { return a.Date == b.Date }) // the largest is first
	return form, Reading{totals[max(0, len(totals)-MaxDays):], r.refused[max(0, len(r.refused)-MaxDays):]}, nil
}

// wholly returns the error of a call of which nothing can be read, by that of a day.
func wholly(err *models.Error) *models.Error {
	if err.Code == models.CodeScoreOutOfRange {
		return notRecognised(err.Message)
	}
	return err
}

// reader collects the totals of one call.
type reader struct {
	zone    *time.Location
	totals  []Total
	refused []Refused
}

func read(body []byte, query string, zone *time.Location) (Form, *reader, error) {
	r := &reader{zone: zone}
	text := strings.TrimSpace(strings.TrimPrefix(string(body), "\ufeff"))
	if text == "" {
		return Fields, r, r.fields(query)
	}
	value := jsontext.Value(text)
	switch value.Kind() {
	case '{':
		var object map[string]jsontext.Value
		if err := json.Unmarshal(value, &object); err != nil {
			return Unknown, r, notJSON()
		}
		return r.object(object, value)
	case '[':
		var list []jsontext.Value
		if err := json.Unmarshal(value, &list); err != nil {
			return Unknown, r, notJSON()
		}
		return Shortcut, r, r.shortcuts(list)
	default:
		return Fields, r, r.fields(text)
	}
}

// object recognises the form of an object by the names in it.
func (r *reader) object(object map[string]jsontext.Value, whole jsontext.Value) (Form, *reader, error) {
	has := func(name string) bool { _, ok := object[name]; return ok }
	switch {
	case has("data"):
		return HealthAutoExport, r, r.healthAutoExport(object["data"])
	case has("app_version"), object["steps"].Kind() == '[':
		return HealthConnect, r, r.healthConnect(whole)
	case has("scores"), has("score"):
		return Own, r, r.own(whole)
	case has("type"):
		return Shortcut, r, r.shortcuts([]jsontext.Value{whole})
	case has("steps"):
		return Fields, r, r.fieldsOf(whole)
	default:
		return Unknown, r, notRecognised("it has no steps in a form that is known here")
	}
}

// notRecognised returns the error of a call in which no steps can be read, for a person.
func notRecognised(why string) *models.Error {
	return models.Errorf(models.CodeNotRecognised, "%s: docs/phones.md shows what to set in each app", why)
}

func notJSON() *models.Error { return notRecognised("the body is not whole JSON") }

// notDaily returns the error of steps that are no totals of days.
func notDaily(format string, args ...any) *models.Error {
	return models.Errorf(models.CodeNotDaily, format, args...)
}

// day is one that a form has, with the number of its steps.
type day struct {
	// date is the day, or err says why the text is none. nearest is then the day that it is about, nil if that can't be read.
	date    models.Date
	nearest *models.Date
	err     *models.Error
}

// add adds the steps of a day, or refuses them. once says that a second number for the same day means that these are
// parts of the day, for which the call is refused; hint says what to set in the app.
func (r *reader) add(d day, n number, once bool, hint string) error {
	if !n.known && n.err == nil {
		return nil
	}
	refused := Refused{Date: &d.date, Err: cmp.Or(d.err, n.err)}
	if d.err != nil {
		refused.Date = d.nearest
	}
	if date := refused.Date; once && date != nil && (slices.ContainsFunc(r.totals, func(t Total) bool { return t.Date == *date }) ||
		slices.ContainsFunc(r.refused, func(other Refused) bool { return other.Date != nil && *other.Date == *date })) {
		return withHint(notDaily("there are two numbers of steps for %s: let the app send one total for each day", date), hint)
	}
	if refused.Err == nil {
		r.totals = append(r.totals, Total{d.date, n.steps})
		return nil
	}
	refused.Err = withHint(refused.Err, hint)
	r.refused = append(r.refused, refused)
	return nil
}

// withHint adds to an error of steps that are no totals of days what to set in the app.
func withHint(err *models.Error, hint string) *models.Error {
	if err.Code == models.CodeNotDaily && hint != "" {
		return notDaily("%s (%s)", err.Message, hint)
	}
	return err
}

// number is a number of steps: a JSON number or text, 0 or more. Fractions are rounded down. null
// stands for none, and err says why it is none.
type number struct {
	steps    int64
	fraction bool
	known    bool
	err      *models.Error
}

// maxSteps bounds a number of steps: a double holds whole numbers up to it exactly.
const maxSteps = 1 << 53

// UnmarshalJSON implements json.Unmarshaler. It never fails: one number leaves the others of a body as they are.
func (n *number) UnmarshalJSON(data []byte) error {
	text := string(data)
	switch {
	case text == "null":
	case data[0] != '"':
		n.parse(text)
	case json.Unmarshal(data, &text) == nil:
		n.read(text)
	}
	return nil
}

// inDoubt matches a number that people of one country write for thousands and of another for a fraction.
var inDoubt = regexp.MustCompile(`^[+-]?([0-9]+)[.,]([0-9]{3})$`)

// read reads a text, which an app may write as its country does.
func (n *number) read(text string) {
	text = strings.TrimSpace(text)
	if m := inDoubt.FindStringSubmatch(text); m != nil {
		n.err = notRecognised(fmt.Sprintf("%s may be %s steps, or %s and a fraction: send %[2]s or %[3]s, without a point or comma",
			strconv.Quote(shown(text)), shown(strings.TrimLeft(m[1]+m[2], "0")), shown(m[1])))
		return
	}
	n.parse(text)
}

// parse reads a decimal number, as JSON has it.
func (n *number) parse(text string) {
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), strings.ContainsAny(text, "xXpP_"), math.IsNaN(value):
		n.err = notRecognised(strconv.Quote(shown(text)) + " is no number of steps")
	case !(value >= 0 && value <= maxSteps):
		n.err = models.Errorf(models.CodeScoreOutOfRange, "%s steps are none: a day has 0 or more", shown(text))
	default:
		n.steps, n.known, n.fraction = int64(math.Floor(value)), true, value != math.Floor(value)
	}
}

// shown returns the beginning of a text that is quoted in an error.
func shown(text string) string {
	const most = 40
	if runes := []rune(strings.ToValidUTF8(text, "?")); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return strings.ToValidUTF8(text, "?")
}

// layouts are the forms of times, with an offset from UTC.
var layouts = []string{time.RFC3339, "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05 Z07:00", "2006-01-02T15:04Z07:00"}

// day returns the day whose beginning a text names: a date, or a moment at which a day begins where its
// offset is, or in the phone's zone. A time with an offset belongs to that offset's date.
func (r *reader) day(text string) day {
	if d, err := models.ParseDate(text); err == nil {
		return day{date: d}
	}
	at, err := parseTime(text)
	if err != nil {
		return day{err: err}
	}
	if hour, minute, second := at.Clock(); hour == 0 && minute == 0 && second == 0 && at.Nanosecond() == 0 && !strings.HasSuffix(text, "Z") {
		return day{date: models.DateOf(at)}
	}
	return r.dayFrom(at)
}

// aroundMidnight is how long before a midnight a phone's day may begin whose zone or clock has changed. What begins
// earlier is about the day on which it begins.
const aroundMidnight = 6 * time.Hour

// dayFrom returns the day that begins at a moment in the phone's zone.
func (r *reader) dayFrom(at time.Time) day {
	local := at.In(r.zone)
	date := models.DateOf(local)
	if first, second := catalog.Moments(date, 0, r.zone); !at.Equal(first) && !at.Equal(second) {
		nearest := models.DateOf(local.Add(aroundMidnight))
		return day{nearest: &nearest, err: notDaily("%s is %s in %s, where no day begins: let the app send one total for each day, from midnight on, "+
			"or give this address the time zone of the phone", at.UTC().Format(time.RFC3339), local.Format("15:04:05"), r.zone)}
	}
	return day{date: date}
}

// parseTime reads a time with an offset.
func parseTime(text string) (time.Time, *models.Error) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, notRecognised(strconv.Quote(shown(text)) + " is no date, such as 2026-11-20")
}

// fields reads a form or a query of steps and date, as Tasker, Home Assistant and MacroDroid send it.
// A day must be named: a total that is sent again after midnight would count for the new day.
func (r *reader) fields(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil || !values.Has("steps") {
		return notRecognised("there is no body, and no steps=…&date=…")
	}
	if len(values["steps"]) > 1 || len(values["date"]) > 1 {
		return notRecognised("steps or date is given twice")
	}
	var n number
	n.read(values.Get("steps"))
	return r.field(n, values.Get("date"))
}

// fieldsOf reads the same two as JSON.
func (r *reader) fieldsOf(whole jsontext.Value) error {
	var body struct {
		Steps number `json:"steps"`
		Date  string `json:"date"`
	}
	if err := decode(whole, &body); err != nil {
		return err
	}
	return r.field(body.Steps, body.Date)
}

func (r *reader) field(n number, date string) error {
	if date == "" {
		return notRecognised("the date is missing: add date=2026-11-20, the day that the steps belong to")
	}
	return r.add(r.day(date), n, true, "")
}

// decode decodes a part of a body.
func decode(value jsontext.Value, into any) error {
	if json.Unmarshal(value, into) != nil {
		return notRecognised("it has the form of an app's export, but a part of another type")
	}
	return nil
}
