//go:build !race

package importer_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/operations/importer"
	"stepboard/services/people/friends"
)

// stepsRead is what an import of steps made of a text: "user day score" of each raise, the result,
// what it noted, and the bad lines.
type stepsRead struct {
	Days   []string
	Result importer.StepsResult
	Notes  []string
	Bad    []int
	why    []string
}

// readSteps imports a text on a day on which all its days are hot or cold.
func readSteps(t *testing.T, zone, text string, o importer.StepsOptions) (read stepsRead, err error) {
	t.Helper()
	f := newFixtureIn(t, zone)
	var r report
	read.Result, err = f.ImportSteps(t.Context(), strings.NewReader(text), f.board, importer.StepsImportOptions{StepsOptions: o}, &r)
	for _, raise := range append(f.stores.hot, f.stores.cold...) {
		fields := strings.Fields(raise)
		at := testenv.Must(time.Parse(time.RFC3339, fields[2]))
		read.Days = append(read.Days, fields[0]+" "+models.DateOf(at.In(f.board.Zone())).String()+" "+fields[1])
	}
	slices.Sort(read.Days)
	read.Notes, read.Bad, read.why = r.notes, r.bad, r.reasons
	return read, err
}

// Exports of steps are imported as they are. The operations page lists them.
func TestImportPublicFormsOfSteps(t *testing.T) {
	t.Parallel()
	two := []string{"me 2026-11-10 7961", "me 2026-11-11 10412"}
	for file, tt := range map[string]struct {
		o         importer.StepsOptions
		want      []string
		note      string
		empty     int
		leftOut   int
		unchanged int
	}{
		"apple-health-auto-export.csv": {o: importer.StepsOptions{User: "me"}, want: two},
		"apple-qs-access.csv":          {o: importer.StepsOptions{User: "me"}, want: two},
		"fitbit-export.csv": {
			o: importer.StepsOptions{User: "me"}, want: []string{"me 2026-11-10 13666", "me 2026-11-11 10412"}, note: "line 2 names the columns; 1 above it were skipped",
		},
		"fitbit-hours-two-columns.csv": {want: []string{"ann 2026-11-10 2000", "bob 2026-11-13 77"}},
		"garmin-steps.csv":             {o: importer.StepsOptions{User: "me"}, want: []string{"me 2026-11-10 7961", "me 2026-11-13 10412"}},
		"google-fit-daily.csv":         {o: importer.StepsOptions{User: "me"}, want: []string{"me 2026-11-10 7961", "me 2026-11-12 10412"}, empty: 1},
		"mydatahelps-garmin.csv":       {want: []string{"ann 2026-11-10 7961", "bob 2026-11-10 10412"}},
		"samsung-pedometer.csv":        {o: importer.StepsOptions{User: "me"}, want: two[:1], note: "line 2 names the columns; 1 above it were skipped"},
		"samsung-step-daily-trend.csv": {
			o: importer.StepsOptions{User: "me", Where: []string{"source_type=-2"}}, want: two, note: "line 2 names the columns; 1 above it were skipped", leftOut: 1,
		},
		"spreadsheet-chinese.csv": {want: []string{"ann 2026-11-10 7961"}},
		"spreadsheet-german.csv":  {want: []string{"ann 2026-11-10 7961", "bob 2026-11-13 10412"}, note: "line 2 names the columns; 1 above it were skipped"},
		"withings-steps.csv":      {o: importer.StepsOptions{User: "me", Columns: "date=1,steps=value"}, want: two[:1]},
		"zepp-activity.csv":       {o: importer.StepsOptions{User: "me"}, want: two[:1]},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text := testenv.Must(os.ReadFile(filepath.Join("testdata", "steps", file)))
			read, err := readSteps(t, "Asia/Shanghai", string(text), tt.o)
			if err != nil || len(read.Bad) > 0 {
				t.Fatalf("%v; bad lines %v: %q", err, read.Bad, read.why)
			}
			if diff := cmp.Diff(tt.want, read.Days); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if r := read.Result; r.Empty != tt.empty || r.LeftOut != tt.leftOut || r.Raised != len(tt.want) {
				t.Errorf("%+v", r)
			}
			if strings.Join(read.Notes, "; ") != tt.note {
				t.Errorf("notes %q, want %q", read.Notes, tt.note)
			}
		})
	}
}

// Graphs and tables of friends are imported as they are.
func TestImportPublicFormsOfFriends(t *testing.T) {
	t.Parallel()
	edge := func(a, b models.UserID) friends.Edge { return friends.Edge{A: a, B: b} }
	for file, tt := range map[string]struct {
		o       importer.EdgesOptions
		want    []friends.Edge
		note    string
		skipped importer.FriendsResult
		bad     []int
		refused string
	}{
		"gephi-edges.csv": {
			want: []friends.Edge{edge("1", "2"), edge("2", "3")},
			note: `line 1 names the columns; each row makes "Source" and "Target" friends; the other columns are not read`,
		},
		"konect.txt":        {want: []friends.Edge{edge("1", "2"), edge("2", "3"), edge("1", "3")}},
		"marked.txt":        {want: []friends.Edge{edge("1", "2"), edge("2", "3")}},
		"matrix-market.mtx": {want: []friends.Edge{edge("2", "1"), edge("3", "2")}},
		"snap.txt": {
			o: importer.EdgesOptions{Offset: 1}, want: []friends.Edge{edge("1", "2"), edge("2", "3")}, skipped: importer.FriendsResult{Self: 1},
		},
		"followers.csv": {
			want: []friends.Edge{edge("bob", "ann")}, bad: []int{4}, skipped: importer.FriendsResult{OneWay: 1},
			note: `line 1 names the columns; each row makes "follower" and "followee" friends, if the row of the other direction is there, too`,
		},
		"friendships-table.csv": {
			o: importer.EdgesOptions{Where: []string{"Status=Accepted"}}, want: []friends.Edge{edge("ann", "bob"), edge("bob", "cem")},
			note: `line 1 names the columns; each row makes "user_id" and "friend_id" friends; the other columns are not read`, skipped: importer.FriendsResult{LeftOut: 1},
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text := testenv.Must(os.ReadFile(filepath.Join("testdata", "friends", file)))
			edges, result, r, err := readFriends(t, string(text), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, edges); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			tt.skipped.Added = len(tt.want)
			if result != tt.skipped || !slices.Equal(r.bad, tt.bad) || strings.Join(r.notes, "; ") != tt.note {
				t.Errorf("%+v, bad lines %v %q, notes %q", result, r.bad, r.reasons, r.notes)
			}
		})
	}
}

// readFriends imports a text.
func readFriends(t *testing.T, text string, o importer.EdgesOptions) ([]friends.Edge, importer.FriendsResult, *report, error) {
	t.Helper()
	f := newFixture(t)
	var r report
	result, err := f.ImportFriends(t.Context(), strings.NewReader(text), importer.FriendsOptions{EdgesOptions: o}, &r)
	return f.stores.edges, result, &r, err
}

// What somebody wrote into a text makes no record, wherever the text stands. Numbers of lines are
// those of the file.
func TestATextMakesNoRecord(t *testing.T) {
	t.Parallel()
	header := "user_id,date,steps,note\n"
	long := strings.Repeat("x\nb,2026-11-19,99999,x\n", 60_000)
	for name, tt := range map[string]struct {
		text string
		want []string
		bad  []int
		why  string
	}{
		"last column":        {text: header + "a,2026-11-19,5,\"see\nb,2026-11-19,99999,x\n\"\nc,2026-11-19,6,ok\n", want: []string{"a 2026-11-19 5", "c 2026-11-19 6"}},
		"first column":       {text: "note,user_id,date,steps\r\n\"see\r\nx,b,2026-11-19,99999\r\n\",a,2026-11-19,5\r\nx,,2026-11-19,1\r\n", want: []string{"a 2026-11-19 5"}, bad: []int{5}},
		"semicolons":         {text: "note;user_id;date;steps\n\"x\nx;b;2026-11-19;9\n\";a;2026-11-19;5\n", want: []string{"a 2026-11-19 5"}},
		"tabs":               {text: "note\tuser_id\tdate\tsteps\n\"x\nx\tb\t2026-11-19\t9\n\"\ta\t2026-11-19\t5\n", want: []string{"a 2026-11-19 5"}},
		"doubled quotes":     {text: header + "a,2026-11-19,5,\"\"\"\nb,2026-11-19,9,\"\"\n\"\nc,2026-11-19,6,ok\n", want: []string{"a 2026-11-19 5", "c 2026-11-19 6"}},
		"a quote in a field": {text: header + "a,2026-11-19,5,5\" pipe\nb,2026-11-19,9,it's 6\"\n", want: []string{"a 2026-11-19 5", "b 2026-11-19 9"}},
		"a name of a column": {text: "user_id,date,steps,\"note\nb,2026-11-19,9\"\na,2026-11-19,5,x\n", want: []string{"a 2026-11-19 5"}},
		"above the header":   {text: "\"walks\nuser_id,date,steps\nb,2026-11-19,9\"\nuser_id,date,steps\na,2026-11-19,5\n", want: []string{"a 2026-11-19 5"}},
		"unclosed":           {text: header + "a,2026-11-19,5,x\nb,2026-11-19,6,\"y\nc,2026-11-19,7,x\n", want: []string{"a 2026-11-19 5"}, bad: []int{3}, why: "does not end"},
		"unclosed for 1 MB":  {text: header + "a,2026-11-19,5,x\nb,2026-11-19,6,\"" + long + "\"\nc,2026-11-19,7,x\n", want: []string{"a 2026-11-19 5"}, bad: []int{3}, why: "longer than 1048576 bytes"},
		"behind the quotes":  {text: header + "a,2026-11-19,5,\"x\" y\nb,2026-11-19,6,z\n", want: []string{"b 2026-11-19 6"}, bad: []int{2}, why: "text follows behind the quotes"},
		"numbers of lines":   {text: header + "a,2026-11-19,5,\"x\n\n\"\n\nb,2026-11-19,x,y\n", want: []string{"a 2026-11-19 5"}, bad: []int{6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, err := readSteps(t, "UTC", tt.text, importer.StepsOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, read.Days); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !slices.Equal(read.Bad, tt.bad) || tt.why != "" && !strings.Contains(read.why[0], tt.why) {
				t.Errorf("bad lines %v: %q", read.Bad, read.why)
			}
		})
	}
	for name, tt := range map[string]struct {
		text string
		want []friends.Edge
		bad  []int
	}{
		"a column":   {"source,target,label\n1,2,\"x\n3,4,y\"\n5,6,z\n", []friends.Edge{{A: "1", B: "2"}, {A: "5", B: "6"}}, nil},
		"an id":      {"1,2\n\"x\n3,4\",5\n5,6\n", []friends.Edge{{A: "1", B: "2"}, {A: "5", B: "6"}}, []int{2}},
		"spaces":     {"1 2\n\"x\n3 4\" 5\n5 6\n", []friends.Edge{{A: "1", B: "2"}, {A: "5", B: "6"}}, []int{2}},
		"a comment":  {"1 2\n# he said \"x\n3 4\n", []friends.Edge{{A: "1", B: "2"}, {A: "3", B: "4"}}, nil},
		"unclosed":   {"1,2\n3,\"4\n5,6\n", []friends.Edge{{A: "1", B: "2"}}, []int{2}},
		"first line": {"\"5\n3,4\",6\n1,2\n", []friends.Edge{{A: "1", B: "2"}}, []int{1}},
	} {
		t.Run("friends, "+name, func(t *testing.T) {
			t.Parallel()
			edges, _, r, err := readFriends(t, tt.text, importer.EdgesOptions{})
			if diff := cmp.Diff(tt.want, edges); diff != "" || err != nil || !slices.Equal(r.bad, tt.bad) {
				t.Errorf("%v; bad lines %v %q; -want +got:\n%s", err, r.bad, r.reasons, diff)
			}
		})
	}
}

// A date is read in many forms, and refused if it may be two days.
func TestImportDates(t *testing.T) {
	t.Parallel()
	const refused, bad = "refused", "bad"
	for _, tt := range []struct{ zone, date, want string }{
		{"Asia/Shanghai", "4/13/16", "2016-04-13"},
		{"Asia/Shanghai", "13.4.16", "2016-04-13"},
		{"Asia/Shanghai", "31/4/16", bad},
		{"Asia/Shanghai", "26/11/19", "2019-11-26"},
		{"Asia/Shanghai", "26-11-19", refused}, // 2019-11-26 or 2026-11-19
		{"Asia/Shanghai", "4/12/16", refused},
		{"Asia/Shanghai", "2026-11-19T00:00:00Z", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-19T00:00:00-05:00", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-19 00:00:00 +0800", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-19 00:00:00+08", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-19 00:00:00 +0000 UTC", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-18T16:00:00Z", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-18T19:00:00.000+03:00", "2026-11-19"},
		{"Asia/Kolkata", "2026-11-18T18:30:00Z", "2026-11-19"},
		{"Asia/Shanghai", "2026-11-18T18:30:00Z", bad},
		{"Asia/Shanghai", "2026-11-18T16:00:00", bad}, // of no zone
		{"Asia/Shanghai", "1795017600000", "2026-11-19"},
		{"Asia/Shanghai", "1795046400000", "2026-11-19"}, // UTC
		{"Asia/Shanghai", "1795046400", "2026-11-19"},
		{"Asia/Shanghai", "1795046401", bad},
		{models.LocalZone, "1795046400", "2026-11-19"},
		{models.LocalZone, "1795017600", bad},
		{"Asia/Shanghai", "19-Nov-2026", "2026-11-19"},
		{"Asia/Shanghai", "19-NOV-26", "2026-11-19"},
		{"Asia/Shanghai", "19 November 2026", "2026-11-19"},
		{"Asia/Shanghai", `"Nov 19, 2026"`, "2026-11-19"},
		{"Asia/Shanghai", `"Thursday, November 19, 2026"`, "2026-11-19"},
		{"Asia/Shanghai", "2026-Nov-19", "2026-11-19"},
		{"Asia/Shanghai", "31-Nov-2026", bad},
		{"Asia/Shanghai", "19-Nov-2026 00:00", "2026-11-19"},
		{"Asia/Shanghai", "20261119", "2026-11-19"},
		{"Asia/Shanghai", "20261131", bad},
		{"Asia/Shanghai", "46345", bad}, // a spreadsheet's number of a day
	} {
		t.Run(tt.zone+" "+tt.date, func(t *testing.T) {
			t.Parallel()
			read, err := readSteps(t, tt.zone, "user_id,date,steps\ngood,2026-11-18,1\na,"+tt.date+",5\n", importer.StepsOptions{})
			switch {
			case tt.want == refused:
				if err == nil || !strings.Contains(err.Error(), " or 20") {
					t.Errorf("%+v, %v", read, err)
				}
			case err != nil:
				t.Error(err)
			case tt.want == bad:
				if !slices.Equal(read.Bad, []int{3}) {
					t.Errorf("%+v", read)
				}
			case tt.zone == models.LocalZone:
				if len(read.Bad) > 0 {
					t.Errorf("%q", read.why)
				}
			default:
				if want := []string{"a " + tt.want + " 5", "good 2026-11-18 1"}; !slices.Equal(read.Days, want) {
					t.Errorf("%q %q, want %q", read.Days, read.why, want)
				}
			}
		})
	}
}

// Dates of two digits wait for one that only one order makes a day.
func TestImportDatesOfTwoDigits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dates, want string
		refused     string
	}{
		{"26-10-11 26-10-31", "", "may be 2011-10-26 or 2026-10-11"},
		{"10/11/26 10/31/26", "2026-10-11 2026-10-31", ""},
		{"11.10.26 31.10.26", "2026-10-11 2026-10-31", ""},
		{"1/10/26 31/10/2026", "2026-10-01 2026-10-31", ""},
		{"10/31/26 31/10/2026", "", "in different orders"},
	} {
		var lines strings.Builder
		lines.WriteString("user_id,date,steps\n")
		for date := range strings.FieldsSeq(tt.dates) {
			lines.WriteString("a," + date + ",5\n")
		}
		read, err := readSteps(t, "UTC", lines.String(), importer.StepsOptions{})
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v", tt.dates, err)
			}
			continue
		}
		var days []string
		for _, day := range read.Days {
			days = append(days, strings.Fields(day)[1])
		}
		if err != nil || strings.Join(days, " ") != tt.want {
			t.Errorf("%s: %q, %v, want %s", tt.dates, days, err, tt.want)
		}
	}
}

// Separators of thousands are read where the file decides what they are, and fractions of zero.
func TestImportNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		numbers string // between spaces
		want    string // "-" for a bad line
		why     string
	}{
		{"13,666 999", "13666 999", ""},
		{"13,666 10,412", "13666 10412", ""},
		{"13,666 12,5", "- -", "a fraction"},
		{"13,000 12,0", "13 12", ""},
		{"13,666 1234,0", "- 1234", "a fraction"},
		{"13,666 12,345.0", "13666 12345", ""},
		{"13.666 999", "- 999", `"13.666" may be 13666, or 13 and a fraction`},
		{"13.000", "-", `may be 13000, or 13 and a fraction`},
		{"7961.000 0.000", "7961 0", ""},
		{"5.0 5.00 17.0000 5.", "5 5 17 -", ""},
		{"5.5 0.666", "- -", "is not a whole number"},
		{"13'666 13_666 13\u202f666 13\u00a0666", "13666 13666 13666 13666", ""},
		{"1.234,0", "1234", ""},
		{"1,23,456 1,234.5 12,3456 ,123 1,234,56", "- - - - -", ""},
		{"+5 -5 1e4 0x10 ٣", "5 - - - -", ""},
	} {
		var lines strings.Builder
		lines.WriteString("user_id;date;steps\n")
		numbers := strings.Split(tt.numbers, " ")
		for i, n := range numbers {
			lines.WriteString(string(rune('a'+i)) + ";2026-11-19;" + n + "\n")
		}
		lines.WriteString("z;2026-11-19;1234\n") // not every line is bad
		read, err := readSteps(t, "UTC", lines.String(), importer.StepsOptions{})
		got := slices.Repeat([]string{"-"}, len(numbers))
		for _, day := range read.Days {
			if fields := strings.Fields(day); fields[0] != "z" {
				got[fields[0][0]-'a'] = fields[2]
			}
		}
		if strings.Join(got, " ") != tt.want || err != nil || tt.why != "" && !strings.Contains(strings.Join(read.why, " "), tt.why) {
			t.Errorf("%q: %q, %v, %q", tt.numbers, got, err, read.why)
		}
	}
}

// Columns are known by many names, or asked for.
func TestImportColumns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header  string
		o       importer.StepsOptions
		refused string
	}{
		"with units":            {header: "user,day,Steps (count)"},
		"in words":              {header: "Participant ID,Calendar Date,Total Steps"},
		"snake case":            {header: "uid,record_date,step_count"},
		"a count beside a day":  {header: "user_id,date,count"},
		"in German":             {header: "User-ID,Datum,Schritte"},
		"behind kinds":          {header: "id,com.example.walk.day_time,com.example.walk.count"},
		"asked for by name":     {header: "who,when,how many", o: importer.StepsOptions{Columns: "user=who,date=WHEN,steps=How Many"}},
		"asked for by number":   {header: "x,y,z", o: importer.StepsOptions{Columns: "user=1, date=2, steps=3"}},
		"asked for in part":     {header: "user_id,date,kilometres", o: importer.StepsOptions{Columns: "steps=3"}},
		"a name that is absent": {header: "user_id,date,steps", o: importer.StepsOptions{Columns: "steps=walk"}, refused: `no column is called "walk"`},
		"none fits":             {header: "who,when,what", refused: `line 1 has the columns "who", "when", "what": no column has the steps; one of the first 10 lines must have`},
		"a wrong form":          {header: "user_id,date,steps", o: importer.StepsOptions{Columns: "steps"}, refused: `--columns: "steps" does not have the form`},
		"two for one":           {header: "user_id,date,Steps (count),steps", refused: "it has two columns for steps"},
		"users beside --user":   {header: "user_id,date,steps", o: importer.StepsOptions{User: "me"}, refused: `the column "user_id" has users, whose steps would all become those of --user`},
		"users asked for":       {header: "user_id,date,steps", o: importer.StepsOptions{User: "me", Columns: "user=1"}, refused: "exclude each other"},
		"a filter of nothing":   {header: "user_id,date,steps", o: importer.StepsOptions{Where: []string{"device=1"}}, refused: `no column is called "device", which --where names`},
		"a wrong filter":        {header: "user_id,date,steps", o: importer.StepsOptions{Where: []string{"device"}}, refused: "--where: \"device\" does not have the form"},
	} {
		read, err := readSteps(t, "UTC", tt.header+"\na,2026-11-19,5\n", tt.o)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v", name, err)
			}
		} else if err != nil || !slices.Equal(read.Days, []string{"a 2026-11-19 5"}) {
			t.Errorf("%s: %+v, %v", name, read, err)
		}
	}
}

// The names of columns may stand below a title, within the first ten lines.
func TestImportBelowATitle(t *testing.T) {
	t.Parallel()
	const table = "user_id,date,steps\na,2026-11-19,5\n"
	for name, title := range map[string]string{"a title": "Steps of our club", "a comment": "# made by hand, \"twice\"", "a delimiter": "sep=,", "nine lines": strings.Repeat("x\n\n", 8) + "x"} {
		read, err := readSteps(t, "UTC", title+"\n"+table, importer.StepsOptions{})
		if err != nil || !slices.Equal(read.Days, []string{"a 2026-11-19 5"}) || len(read.Notes) != 1 || !strings.Contains(read.Notes[0], "names the columns") {
			t.Errorf("%s: %+v, %v", name, read, err)
		}
	}
	if _, err := readSteps(t, "UTC", strings.Repeat("x\n", 10)+table, importer.StepsOptions{}); err == nil {
		t.Error("a header in line 11 is taken")
	}
}

// The hours of a day that are less than what is there, or too many, are counted as such.
func TestImportSaysWhatHappened(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		text string
		want importer.StepsResult
		bad  int
	}{
		{"user_id,date,steps\na,2026-11-19,5000\n", importer.StepsResult{Raised: 1}, 0},
		{"Id,ActivityHour,StepTotal\na,2026-11-19 8:00,100\na,2026-11-19 9:00,100\n", importer.StepsResult{Unchanged: 1}, 0},
		{"Id,ActivityHour,StepTotal\na,2026-11-19 8:00,99999\na,2026-11-19 9:00,2\nb,2026-11-19 9:00,2\n", importer.StepsResult{Raised: 1}, 1},
	} {
		var r report
		result, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, importer.StepsImportOptions{}, &r)
		if result != tt.want || err != nil || len(r.bad) != tt.bad {
			t.Errorf("%q: %+v, %v, bad lines %v", tt.text, result, err, r.bad)
		}
	}
}

// The first line of friends is a header if it reads like one, whatever is below; in doubt the file
// is refused until somebody says which.
func TestImportHeaderOfFriends(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		header  string
		want    int
		refused string
	}{
		{"user1,user2\nAlice,Bob\n", "", 1, ""},
		{"user1,user2\na@x.org,b@x.org\n", "", 1, ""},
		{"user_a;user_b\n1;2\n", "", 1, ""},
		{"User 1,User 2\nAlice,Bob\n", "", 1, ""},
		{"from,to\nAlice,Bob\n", "", 1, ""},
		{"email,friend_email\na@x.org,b@x.org\n", "", 0, "may be a header or two users"},
		{"email,friend_email\na@x.org,b@x.org\n", "yes", 1, ""},
		{"user1,user2\nuser3,user4\n", "", 0, "say which by --header yes or --header no"},
		{"user1,user2\nuser3,user4\n", "yes", 1, ""},
		{"user1,user2\nuser3,user4\n", "no", 2, ""},
		{"user1,user2\n", "", 0, "may be a header or two users"},
		{"name,bob\nbob,cem\n", "", 0, "may be a header or two users"},
		{"alice,bob\nbob,cem\n", "", 2, ""},
		{"a,b\nc,d\n", "yes", 1, ""},
		{"1,2,3\n4,5,6\n", "yes", 0, `line 1 has the columns "1", "2", "3": call two of them user1_id and user2_id`},
		{"1,2,7\n4,5,6\n", "", 0, "all 2 lines so far are bad"},
		{"who,whom,since\n4,5,6\n", "", 0, "all 2 lines so far are bad"},
		{"3: 2 7 9\n", "", 0, "is that of an adjacency list"},
		{"3: 2\n", "", 0, "is that of an adjacency list"},
		{"user_id,friend_id,status\na,b,accepted\na,c,pending\n", "", 0, `line 3: the column "status" has "pending": take the rows of friends only, by --where status=accepted`},
		{"user_id,friend_id,status\na,b,accepted\na,c,Friends\n", "", 2, ""},
		{"source,target,type\na,b,Directed\nb,a,Directed\na,c,Undirected\n", "", 2, ""},
	} {
		edges, _, r, err := readFriends(t, tt.text, importer.EdgesOptions{Header: tt.header})
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%q, header %q: %v, %v", tt.text, tt.header, edges, err)
			}
		} else if err != nil || len(edges) != tt.want || len(r.bad) > 0 {
			t.Errorf("%q, header %q: %v, %v, bad lines %q", tt.text, tt.header, edges, err, r.reasons)
		}
	}
}

// A filter needs the names of the columns.
func TestImportFilterWithoutAHeader(t *testing.T) {
	t.Parallel()
	edges, _, _, err := readFriends(t, "a,b\nc,d\n", importer.EdgesOptions{Where: []string{"status=accepted"}})
	if err == nil || !strings.Contains(err.Error(), "no line that names its columns") || len(edges) > 0 {
		t.Errorf("%v, %v", edges, err)
	}
}

// Ids that another program made of numbers are warned of once, with their number.
func TestImportWarnsOfDamagedIDs(t *testing.T) {
	t.Parallel()
	_, _, r, err := readFriends(t, "1,2\n1503960366.0,1.0\n1.5E+09,3.5\n", importer.EdgesOptions{})
	if err != nil || !slices.Equal(r.warned, []int{2}) || !strings.Contains(r.warnings[0], "3 ids are like it") {
		t.Errorf("%v, %v %q", err, r.warned, r.warnings)
	}
	f := newFixture(t)
	var steps report
	_, err = f.ImportSteps(t.Context(), strings.NewReader("user_id,date,steps\n1.0,2026-11-19,1\n2.0,2026-11-19,1\n"), f.board, importer.StepsImportOptions{}, &steps)
	if err != nil || !slices.Equal(steps.warned, []int{2}) || !strings.Contains(steps.warnings[0], "2 ids are like it") {
		t.Errorf("%v, %v %q", err, steps.warned, steps.warnings)
	}
}

// A file that is refused makes no day and no user.
func TestARefusedFileMakesNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"too many steps":    "user_id,date,steps\na,2026-11-10,100001\n",
		"dates in doubt":    "user_id,date,steps\na,1/2/2026,5\na,3/4/2026,5\n",
		"orders that clash": "user_id,date,steps\na,10/31/2026,5\na,31/10/2026,5\n",
		"too many hours":    "Id,ActivityHour,StepTotal\na,2026-11-10 1:00,99999\na,2026-11-10 2:00,99999\n",
	} {
		f := newFixture(t)
		days := func() (n int64) {
			if err := f.env.Gorm.Model(&models.Bucket{}).Count(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := days()
		_, err := f.ImportSteps(t.Context(), strings.NewReader(text), f.board, importer.StepsImportOptions{}, &report{})
		if err == nil && name != "too many hours" || days() != before || len(f.stores.users) > 0 {
			t.Errorf("%s: %v, %d days before and %d after, users %v", name, err, before, days(), f.stores.users)
		}
	}
}
