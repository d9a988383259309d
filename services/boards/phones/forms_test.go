package phones_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/phones"
)

// describe returns what was read as "form date=steps … date!code …", or "form code".
func describe(body, query, zone string) string {
	form, reading, err := phones.Read([]byte(body), query, testenv.Must(time.LoadLocation(zone)))
	text := string(form)
	if err != nil {
		return text + " " + string(models.CodeOf(err))
	}
	for _, t := range reading.Totals {
		text += fmt.Sprintf(" %s=%d", t.Date, t.Steps)
	}
	for _, r := range reading.Refused {
		date := "?"
		if r.Date != nil {
			date = r.Date.String()
		}
		text += fmt.Sprintf(" %s!%s", date, r.Err.Code)
	}
	return text
}

func TestForms(t *testing.T) {
	t.Parallel()
	const shanghai, apia, niue, cairo, berlin = "Asia/Shanghai", "Pacific/Apia", "Pacific/Niue", "Africa/Cairo", "Europe/Berlin"
	export := func(items string) string {
		return `{"data":{"metrics":[{"name":"heart_rate","units":"bpm","data":[{"date":"2026-11-20 08:00:00 +0800","Min":50,"Avg":60.5,"Max":70}]},` +
			`{"name":"step_count","units":"count","data":[` + items + `]}],"workouts":[{"name":"Walk"}]}}`
	}
	connect := func(steps string) string {
		return `{"timestamp":"2026-11-20T14:00:00.123Z","app_version":"1.9","heart_rate":[{"bpm":72,"time":"2026-11-20T08:15:00Z"}],"steps":` + steps + `}`
	}
	record := func(count, start, end string) string {
		return `{"count":` + count + `,"start_time":"` + start + `","end_time":"` + end + `"}`
	}
	for _, tt := range []struct{ name, body, query, zone, want string }{
		{"own, one day", `{"date":"2026-11-20","score":7961}`, "", shanghai, "own 2026-11-20=7961"},
		{"own, a list", `{"scores":[{"date":"2026-11-20","score":2},{"date":"2026-11-19","score":"3.9"}]}`, "", shanghai, "own 2026-11-19=3 2026-11-20=2"},
		{"own, a day twice", `{"scores":[{"date":"2026-11-20","score":2},{"date":"2026-11-20","score":5}]}`, "", shanghai, "own 2026-11-20=5"},
		{"own, no date", `{"score":5}`, "", shanghai, "own not_recognised"},
		{"own, null", `{"date":"2026-11-20","score":null}`, "", shanghai, "own"},
		{"own, an empty list", `{"scores":[]}`, "", shanghai, "own"},
		{"own, negative", `{"date":"2026-11-20","score":-1}`, "", shanghai, "own not_recognised"},
		{"own, one bad day", `{"scores":[{"date":"2026-11-19","score":-1},{"date":"2026-11-20","score":2}]}`, "", shanghai, "own 2026-11-20=2 2026-11-19!score_out_of_range"},
		{"own, a date that is none", `{"scores":[{"date":"yesterday","score":1},{"date":"2026-11-20","score":2}]}`, "", shanghai, "own 2026-11-20=2 ?!not_recognised"},
		{"own, a number of another type", `{"scores":[{"date":"2026-11-19","score":{}},{"date":"2026-11-20","score":2}]}`, "", shanghai, "own 2026-11-20=2 2026-11-19!not_recognised"},
		{"own, a fraction of three digits", `{"date":"2026-11-20","score":7.961}`, "", shanghai, "own 2026-11-20=7"},

		{"export, days", export(`{"date":"2026-11-19 00:00:00 +0800","qty":9000.99,"source":"Watch|Phone"},{"date":"2026-11-20 00:00:00 +0800","qty":1234.5}`), "", shanghai,
			"health_auto_export 2026-11-19=9000 2026-11-20=1234"},
		{"export, on the way: the offset's date", export(`{"date":"2026-11-20 00:00:00 -1100","qty":5}`), "", shanghai, "health_auto_export 2026-11-20=5"},
		{"export, furthest east", export(`{"date":"2026-11-20 00:00:00 +1400","qty":5}`), "", niue, "health_auto_export 2026-11-20=5"},
		{"export, minutes", export(`{"date":"2026-11-20 08:01:00 +0800","qty":12.4},{"date":"2026-11-20 08:02:00 +0800","qty":3.1}`), "", shanghai, "health_auto_export not_daily"},
		{"export, a day and its hours", export(`{"date":"2026-11-20 00:00:00 +0800","qty":12},{"date":"2026-11-20 00:00:00 +0800","qty":3}`), "", shanghai, "health_auto_export not_daily"},
		{"export, a day that begins at one", export(`{"date":"2026-04-24 01:00:00 +0300","qty":5}`), "", cairo, "health_auto_export 2026-04-24=5"},
		{"export, one bad day", export(`{"date":"2026-11-18 00:00:00 +0800","qty":9000.5},{"date":"2026-11-19 00:00:00 +0800","qty":-3},{"date":"2026-11-20 00:00:00 +0800","qty":5}`), "", shanghai,
			"health_auto_export 2026-11-18=9000 2026-11-20=5 2026-11-19!score_out_of_range"},
		{"export, a sample", export(`{"date":"2026-11-20 00:00:00 +0800","qty":1.5661}`), "", shanghai, "health_auto_export not_daily"},
		{"export, a sample among days", export(`{"date":"2026-11-19 00:00:00 +0800","qty":100.5},{"date":"2026-11-20 00:00:00 +0800","qty":99.5}`), "", shanghai,
			"health_auto_export 2026-11-19=100 2026-11-20!not_daily"},
		{"export, no steps", `{"data":{"metrics":[{"name":"weight_body_mass","units":"kg","data":[{"qty":70.1,"date":"2026-11-20 00:00:00 +0800"}]}]}}`, "", shanghai, "health_auto_export"},
		{"export, nulls", export(`{"date":"2026-11-20 00:00:00 +0800","qty":null}`), "", shanghai, "health_auto_export"},
		{"export, null metrics", `{"data":{"metrics":null}}`, "", shanghai, "health_auto_export"},
		{"export, text", export(`{"date":"2026-11-20 00:00:00 +0800","qty":"77"}`), "", shanghai, "health_auto_export 2026-11-20=77"},
		{"export, another type", `{"data":{"metrics":"none"}}`, "", shanghai, "health_auto_export not_recognised"},

		{"connect, days east of Greenwich", connect("[" + record("8421", "2026-11-18T16:00:00Z", "2026-11-19T16:00:00Z") + "," + record("77", "2026-11-19T16:00:00Z", "2026-11-20T02:00:00.123Z") + "]"), "", shanghai,
			"health_connect 2026-11-19=8421 2026-11-20=77"},
		{"connect, in UTC", connect("[" + record("8421", "2026-11-19T00:00:00Z", "2026-11-20T00:00:00Z") + "]"), "", "UTC", "health_connect 2026-11-19=8421"},
		{"connect, the address has another zone", connect("[" + record("8421", "2026-11-18T16:00:00Z", "2026-11-19T16:00:00Z") + "]"), "", berlin, "health_connect not_daily"},
		{"connect, a day of 23 hours", connect("[" + record("8421", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z") + "]"), "", berlin, "health_connect 2026-03-29=8421"},
		{"connect, a day of 25 hours", connect("[" + record("8421", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z") + "]"), "", berlin, "health_connect 2026-10-25=8421"},
		{"connect, more than a day", connect("[" + record("8421", "2026-10-24T22:00:00Z", "2026-10-25T23:00:01Z") + "]"), "", berlin, "health_connect not_daily"},
		{"connect, plus fourteen", connect("[" + record("9", "2026-11-19T11:00:00Z", "2026-11-20T03:00:00Z") + "]"), "", apia, "health_connect 2026-11-20=9"},
		{"connect, minus eleven", connect("[" + record("9", "2026-11-20T11:00:00Z", "2026-11-20T15:00:00Z") + "]"), "", niue, "health_connect 2026-11-20=9"},
		{"connect, intervals", connect("[" + record("8", "2026-11-20T08:00:00Z", "2026-11-20T08:15:00Z") + "]"), "", shanghai, "health_connect not_daily"},
		{"connect, a day and an interval", connect("[" + record("8", "2026-11-19T16:00:00Z", "2026-11-20T08:15:00Z") + "," + record("8", "2026-11-20T08:00:00Z", "2026-11-20T08:15:00Z") + "]"), "", shanghai, "health_connect not_daily"},
		{"connect, a record from 23:00 on", connect("[" + record("8", "2026-11-18T16:00:00Z", "2026-11-19T15:00:00Z") + "," + record("9", "2026-11-19T15:00:00Z", "2026-11-20T15:00:00Z") + "]"), "", shanghai,
			"health_connect 2026-11-19=8 2026-11-20!not_daily"},
		{"connect, a day twice", connect("[" + record("8", "2026-11-19T16:00:00Z", "2026-11-20T08:15:00Z") + "," + record("9", "2026-11-19T16:00:00Z", "2026-11-20T09:15:00Z") + "]"), "", shanghai, "health_connect not_daily"},
		{"connect, since the last time", `{"incremental":true,"app_version":"2","steps":[` + record("8", "2026-11-19T16:00:00Z", "2026-11-20T08:15:00Z") + `]}`, "", shanghai, "health_connect not_daily"},
		{"connect, the test button", `{"test":true,"app_version":"2","steps":[` + record("8888", "2026-11-20T08:00:00Z", "2026-11-20T09:00:00Z") + `]}`, "", shanghai, "health_connect"},
		{"connect, no steps", `{"timestamp":"2026-11-20T14:00:00Z","app_version":"1.9"}`, "", shanghai, "health_connect"},
		{"connect, an empty list", connect("[]"), "", shanghai, "health_connect"},
		{"connect, null", connect("null"), "", shanghai, "health_connect"},
		{"connect, a time that is none", connect("[" + record("8", "yesterday", "") + "]"), "", shanghai, "health_connect not_recognised"},

		{"shortcut, a list", `[{"value":"7961","type":"step","unit":"count","date":"2026-11-19"},{"value":"275","type":"step","date":"2026-11-20"},{"value":"70","type":"weight","date":"x"}]`, "", shanghai,
			"shortcut 2026-11-19=7961 2026-11-20=275"},
		{"shortcut, one", `{"type":"step_count","value":1999.7,"date":"2026-11-20T00:00:00+08:00"}`, "", shanghai, "shortcut 2026-11-20=1999"},
		{"shortcut, a part of a day", `{"type":"steps","value":20,"date":"2026-11-20T10:30:00+08:00"}`, "", shanghai, "shortcut not_daily"},
		{"shortcut, parts of a day", `[{"type":"steps","value":20,"date":"2026-11-20"},{"type":"steps","value":30,"date":"2026-11-20"}]`, "", shanghai, "shortcut not_daily"},
		{"shortcut, thousands", `{"type":"step","value":"7,961","date":"2026-11-20"}`, "", shanghai, "shortcut not_recognised"},
		{"shortcut, thousands with a point", `{"type":"step","value":"7.961","date":"2026-11-20"}`, "", shanghai, "shortcut not_recognised"},
		{"shortcut, one in doubt", `[{"type":"step","value":"7.961","date":"2026-11-20"},{"type":"step","value":"7961.5","date":"2026-11-19"}]`, "", shanghai,
			"shortcut 2026-11-19=7961 2026-11-20!not_recognised"},
		{"shortcut, an empty list", `[]`, "", shanghai, "shortcut"},
		{"shortcut, something else", `[5]`, "", shanghai, "shortcut not_recognised"},

		{"fields in a body", "steps=7961&date=2026-11-20", "", shanghai, "fields 2026-11-20=7961"},
		{"fields in a query", "", "steps=7961&date=2026-11-20", shanghai, "fields 2026-11-20=7961"},
		{"fields as JSON", `{"steps":"7961","date":"2026-11-20"}`, "", shanghai, "fields 2026-11-20=7961"},
		{"fields, thousands with a point", "steps=7.961&date=2026-11-20", "", shanghai, "fields not_recognised"},
		{"fields, thousands with a comma", "", "steps=7%2C961&date=2026-11-20", shanghai, "fields not_recognised"},
		{"fields, a fraction", "steps=7961.9&date=2026-11-20", "", shanghai, "fields 2026-11-20=7961"},
		{"fields as JSON, a fraction of three digits", `{"steps":7.961,"date":"2026-11-20"}`, "", shanghai, "fields 2026-11-20=7"},
		{"fields without a date", "steps=7961", "", shanghai, "fields not_recognised"},
		{"fields, steps twice", "steps=1&steps=2&date=2026-11-20", "", shanghai, "fields not_recognised"},
		{"nothing", "", "", shanghai, "fields not_recognised"},
		{"JSON that is cut off", `{"steps":`, "", shanghai, "unknown not_recognised"},
		{"an object of something else", `{"hello":1}`, "", shanghai, "unknown not_recognised"},
		{"too large for a number", `{"date":"2026-11-20","score":1e300}`, "", shanghai, "own not_recognised"},
		{"behind a mark of UTF-8", "\ufeff" + `{"date":"2026-11-20","score":1}`, "", shanghai, "own 2026-11-20=1"},
	} {
		if got := describe(tt.body, tt.query, tt.zone); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// On the days before, of and after which clocks change, or which begin at one, or are left out, each form means the same day.
func TestDaysOnWhichClocksChange(t *testing.T) {
	t.Parallel()
	for zone, changes := range map[string][]string{
		"Europe/Amsterdam": {"2026-03-29", "2026-10-25"}, "America/New_York": {"2026-03-08", "2026-11-01"},
		"Africa/Cairo": {"2026-04-24", "2026-10-30"}, "Pacific/Apia": {"2011-12-31", "2012-04-01"},
	} {
		location := testenv.Must(time.LoadLocation(zone))
		for _, change := range changes {
			middle := testenv.Must(models.ParseDate(change))
			for day := middle - 1; day <= middle+1; day++ {
				if zone == "Pacific/Apia" && day.String() == "2011-12-30" {
					continue // nobody had that day there
				}
				begin, _ := catalog.Moments(day, 0, location)
				end, _ := catalog.Moments(day+1, 0, location)
				local := begin.In(location)
				for form, body := range map[phones.Form]string{
					phones.Own:              fmt.Sprintf(`{"date":%q,"score":7961}`, day),
					phones.HealthAutoExport: fmt.Sprintf(`{"data":{"metrics":[{"name":"step_count","data":[{"date":%q,"qty":7961.5}]}]}}`, local.Format("2006-01-02 15:04:05 -0700")),
					phones.HealthConnect: fmt.Sprintf(`{"app_version":"1","steps":[{"count":7961,"start_time":%q,"end_time":%q}]}`,
						begin.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339)),
					phones.Shortcut: fmt.Sprintf(`[{"type":"step","value":"7961","date":%q}]`, local.Format(time.RFC3339)),
					phones.Fields:   "date=" + url.QueryEscape(local.Format(time.RFC3339)) + "&steps=7961",
				} {
					if got, want := describe(body, "", zone), fmt.Sprintf("%s %s=7961", form, day); got != want {
						t.Errorf("%s in %s: %q, want %q: %s", day, zone, got, want, body)
					}
				}
			}
		}
	}
}

// Of more than 31 days the newest count.
func TestManyDays(t *testing.T) {
	t.Parallel()
	var items []map[string]any
	for day := models.Date(20_000); day < 20_040; day++ {
		items = append(items, map[string]any{"type": "step", "value": int(day), "date": day.String()})
	}
	_, reading, err := phones.Read(testenv.Must(json.Marshal(items)), "", time.UTC)
	totals := reading.Totals
	if err != nil || len(totals) != phones.MaxDays || totals[0].Date != 20_009 || totals[30].Steps != 20_039 {
		t.Errorf("%v, %v", totals, err)
	}
}

// numerals matches the numbers in a body, in whatever form.
var numerals = regexp.MustCompile(`[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`)

// No total is larger than the largest number in the body, and each day is there once.
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"date":"2026-11-20","score":7961}`, `{"scores":[{"date":"2026-11-20","score":2},{"date":"2026-11-20","score":5}]}`,
		`{"data":{"metrics":[{"name":"step_count","data":[{"date":"2026-11-20 00:00:00 +0800","qty":1234.5}]}]}}`,
		`{"app_version":"1","steps":[{"count":8,"start_time":"2026-11-19T16:00:00Z","end_time":"2026-11-20T08:15:00Z"}]}`,
		`[{"value":"7961","type":"step","date":"2026-11-19"}]`, `steps=12&date=2026-11-20`, `{"steps":[{"count":1}]}`,
	} {
		f.Add([]byte(body), "steps=5&date=2026-11-20")
	}
	zone := testenv.Must(time.LoadLocation("Asia/Shanghai"))
	f.Fuzz(func(t *testing.T, body []byte, query string) {
		form, reading, err := phones.Read(body, query, zone)
		totals := reading.Totals
		if err != nil {
			if code := models.CodeOf(err); code != models.CodeNotDaily && code != models.CodeNotRecognised || len(totals) > 0 {
				t.Fatalf("%s: %v, %v", form, totals, err)
			}
			return
		}
		largest := 0.0
		for _, text := range numerals.FindAllString(string(body)+" "+query, -1) {
			if n, err := strconv.ParseFloat(text, 64); err == nil || math.IsInf(n, 0) {
				largest = max(largest, n)
			}
		}
		seen := make(map[models.Date]bool)
		for _, total := range totals {
			// An escape in a string or a query may hide digits.
			if float64(total.Steps) > largest && !strings.ContainsAny(string(body)+query, `\%`) || total.Steps < 0 || seen[total.Date] {
				t.Fatalf("%s: %v of %q", form, totals, body)
			}
			seen[total.Date] = true
		}
	})
}
