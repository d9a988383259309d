package phones

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// MaxDays is the largest number of days of one call. Of more, the newest count.
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

// Forms returns all forms.
func Forms() []Form { return []Form{Own, HealthAutoExport, HealthConnect, Shortcut, Fields, Unknown} }

// Total is the total of a day, as a phone has sent it.
type Total struct {
	Date  models.Date
	Steps int64
}

// Read recognises the form of a body, or of a query if the body is empty, and returns the totals of
// days that it has, oldest first and at most MaxDays, each day once. What is no step total is skipped, so there
// may be none. zone is where the phone is. Nothing is added up: no total is larger than the largest
// number of steps in the body. Errors: CodeNotRecognised, CodeNotDaily if steps are there, but not as
// totals of days.
func Read(body []byte, query string, zone *time.Location) (Form, []Total, error) {
	form, found, err := read(body, query, zone)
	if err != nil {
		return form, nil, err
	}
	found.totals = slices.SortedFunc(slices.Values(found.totals), func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Date, b.Date), cmp.Compare(b.Steps, a.Steps))
	})
	totals := slices.CompactFunc(found.totals, func(a, b Total) bool { return a.Date == b.Date }) // the largest is first
	return form, totals[max(0, len(totals)-MaxDays):], nil
}

// reader collects the totals of one call.
type reader struct {
	zone   *time.Location
	totals []Total
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

// add adds the total of a day. once says that a second one for the same day means that these are
// parts of the day.
func (r *reader) add(date models.Date, steps int64, once bool) error {
	if once && slices.ContainsFunc(r.totals, func(t Total) bool { return t.Date == date }) {
		return notDaily("there are two numbers of steps for %s: let the app send one total for each day", date)
	}
	r.totals = append(r.totals, Total{date, steps})
	return nil
}

// number is a number of steps: a JSON number or text, 0 or more. Fractions are rounded down. null
// stands for none.
type number struct {
	steps int64
	known bool
}

// maxSteps bounds a number of steps: a double holds whole numbers up to it exactly.
const maxSteps = 1 << 53

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	return n.parse(text)
}

// parse reads a decimal number. Separators of thousands are refused: 1,234 may be one and a fraction.
func (n *number) parse(text string) error {
	value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || strings.ContainsAny(text, "xXpP_") || !(value >= 0 && value <= maxSteps) {
		return notRecognised(strconv.Quote(shown(text)) + " is no number of steps")
	}
	n.steps, n.known = int64(math.Floor(value)), true
	return nil
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
func (r *reader) day(text string) (models.Date, error) {
	if d, err := models.ParseDate(text); err == nil {
		return d, nil
	}
	at, err := parseTime(text)
	if err != nil {
		return 0, err
	}
	if hour, minute, second := at.Clock(); hour == 0 && minute == 0 && second == 0 && at.Nanosecond() == 0 && !strings.HasSuffix(text, "Z") {
		return models.DateOf(at), nil
	}
	return r.dayFrom(at)
}

// dayFrom returns the day that begins at a moment in the phone's zone.
func (r *reader) dayFrom(at time.Time) (models.Date, error) {
	local := at.In(r.zone)
	date := models.DateOf(local)
	if first, second := catalog.Moments(date, 0, r.zone); !at.Equal(first) && !at.Equal(second) {
		return 0, notDaily("%s is %s in %s, where no day begins: let the app send one total for each day, from midnight on, "+
			"or give this address the time zone of the phone", at.UTC().Format(time.RFC3339), local.Format("15:04:05"), r.zone)
	}
	return date, nil
}

// parseTime reads a time with an offset.
func parseTime(text string) (time.Time, error) {
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
	if err := n.parse(values.Get("steps")); err != nil {
		return err
	}
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
	day, err := r.day(date)
	if err != nil || !n.known {
		return err
	}
	return r.add(day, n.steps, true)
}

// decode decodes a part of a body. Errors name what can't be read.
func decode(value jsontext.Value, into any) error {
	err := json.Unmarshal(value, into)
	if err == nil {
		return nil
	}
	if known := knownError(err); known != nil {
		return known
	}
	return notRecognised("it has the form of an app's export, but a part of another type")
}
