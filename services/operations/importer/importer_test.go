package importer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/operations/importer"
	"stepboard/services/people/friends"
)

// fakeStores records what an import stores. Its errors, if set, are returned
// instead.
type fakeStores struct {
	mu         sync.Mutex // of users, the raised totals and the archived days
	edges      []friends.Edge
	imports    func() // called by each Import; may be nil
	importErr  error
	mostEdges  int             // more at a time are CodeUnavailable; 0 means no bound
	users      []models.UserID // by row from 1, in the order of their creation
	rows       map[models.UserID]models.RowID
	hot, cold  []string                          // "user score reached-at" of each raise
	before     map[models.RowID]models.Composite // of users, on any day
	archived   []models.Date
	archiveErr error
	raiseErr   error
	analyzed   []int // the number of friendships at each call of Analyze
}

func newFakeStores() *fakeStores {
	return &fakeStores{before: make(map[models.RowID]models.Composite), rows: make(map[models.UserID]models.RowID)}
}

func (f *fakeStores) analyze(context.Context, ...string) error {
	f.analyzed = append(f.analyzed, len(f.edges))
	return errors.New("no statistics, which is no harm")
}

func (f *fakeStores) Resolve(ctx context.Context, edges []friends.Edge) ([]models.Edge, error) {
	resolved := make([]models.Edge, len(edges))
	for i, e := range edges {
		rows := testenv.Must(f.EnsureMany(ctx, []models.UserID{e.A, e.B}))
		resolved[i] = models.Edge{A: rows[0], B: rows[1]}
	}
	return resolved, nil
}

func (f *fakeStores) Prepare(_ context.Context, edges []models.Edge, _ friends.Prepared) (friends.Prepared, error) {
	return friends.Prepared{Edges: edges}, nil
}

func (f *fakeStores) ImportPrepared(_ context.Context, p friends.Prepared) (int, []friends.Rejected, error) {
	edges := p.Edges
	if f.imports != nil {
		f.imports()
	}
	if f.importErr != nil {
		return 0, nil, f.importErr
	}
	if f.mostEdges > 0 && len(edges) > f.mostEdges {
		return 0, nil, models.Unavailable("change friends", context.DeadlineExceeded)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var rejected []friends.Rejected
	for i, e := range edges {
		if e.A == e.B {
			rejected = append(rejected, friends.Rejected{Index: i, Err: models.Errorf(models.CodeValidationFailed, "oneself")})
			continue
		}
		f.edges = append(f.edges, friends.Edge{A: f.users[e.A-1], B: f.users[e.B-1]})
	}
	return len(edges) - len(rejected), rejected, nil
}

func (f *fakeStores) EnsureMany(_ context.Context, users []models.UserID) ([]models.RowID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := make([]models.RowID, len(users))
	for i, user := range users {
		if f.rows[user] == 0 && !user.SignsUp() {
			f.users = append(f.users, user)
			f.rows[user] = models.RowID(len(f.users))
		}
		rows[i] = f.rows[user]
	}
	return rows, nil
}

func (f *fakeStores) Archive(_ context.Context, b *models.Bucket, _ func(int64)) (models.ArchiveRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.archived = append(f.archived, b.Day)
	return models.ArchiveRun{}, f.archiveErr
}

func (f *fakeStores) CompositesBefore(_ context.Context, raises []models.Raise) ([]models.Composite, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := make([]models.Composite, len(raises))
	for i, r := range raises {
		before[i] = f.before[r.User]
	}
	return before, nil
}

func (f *fakeStores) raise(list *[]string) func(context.Context, []models.Raise) []error {
	return func(_ context.Context, raises []models.Raise) []error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.raiseErr != nil && len(raises) > 0 {
			return slices.Repeat([]error{f.raiseErr}, len(raises))
		}
		for _, r := range raises {
			f.before[r.User] = max(f.before[r.User], r.Composite)
			points, at := score.Of(r.Bucket).Decode(r.Composite)
			*list = append(*list, fmt.Sprintf("%v %d %s", f.users[r.User-1], r.Bucket.Score(points), testenv.Must(at.MarshalText())))
		}
		return nil
	}
}

// report records the numbers of bad lines, and of those with warnings.
type report struct {
	mu          sync.Mutex
	lines, done int
	bad, warned []int
	reasons     []string // why the lines are bad
	notes       []string
	warnings    []string
}

func (r *report) Warn(number int, what string) {
	r.warned, r.warnings = append(r.warned, number), append(r.warnings, what)
}

func (r *report) Note(number int, what string) {
	r.notes = append(r.notes, fmt.Sprintf("line %d %s", number, what))
}

func (r *report) Line() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines++
}

func (r *report) Done(lines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += lines
}

func (r *report) BadLine(number int, reason error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = append(r.bad, number)
	r.reasons = append(r.reasons, reason.Error())
	return nil
}

// fixture is an importer on fake stores, on 2026-11-20 at 13:00 UTC, with three
// hot days.
type fixture struct {
	*importer.Service
	env    *testenv.Env
	stores *fakeStores
	board  *catalog.Board
}

func newFixture(t testing.TB) *fixture { return newFixtureIn(t, "Asia/Shanghai") }

// newFixtureIn is newFixture with another time zone.
func newFixtureIn(t testing.TB, zone string) *fixture {
	t.Helper()
	env := testenv.Local(t)
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	def := models.Board{Name: "steps", Kind: models.KindDaily, TimeZone: zone, OpenDays: 2, MaxScore: 100_000, Shards: 1, Global: models.AudienceUsers}
	if err := c.Definitions.Define(t.Context(), []models.Board{def}); err != nil {
		t.Fatal(err)
	}
	stores := newFakeStores()
	return &fixture{
		Service: &importer.Service{
			Friends: stores, Directory: stores, Buckets: c.Buckets, Entries: stores, Archive: stores,
			RaiseHot: stores.raise(&stores.hot), RaiseCold: stores.raise(&stores.cold), Analyze: stores.analyze,
			Clock: env.Clock.Now, Log: env.Log,
		},
		env: env, stores: stores, board: testenv.Must(c.Definitions.Board("steps")),
	}
}

func TestImportFriends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text := "\ufeff# a comment\n\n0 1\n1\t2\n2   3\n4 4\n5\n5 6 7\na 6\n-2 6\n9223372036854775807 6\n6,7\n"
	var r report
	result, err := f.ImportFriends(t.Context(), strings.NewReader(text), importer.FriendsOptions{EdgesOptions: importer.EdgesOptions{Offset: 1}}, &r)
	if err != nil {
		t.Fatal(err)
	}
	want := []friends.Edge{{A: "1", B: "2"}, {A: "2", B: "3"}, {A: "3", B: "4"}}
	if result.Added != 3 || result.Self != 1 || !slices.Equal(f.stores.edges, want) {
		t.Errorf("%+v: %v, want %v", result, f.stores.edges, want)
	}
	slices.Sort(r.bad) // rejected edges are reported with their batch
	if r.lines != 10 || r.done != 3 || !slices.Equal(r.bad, []int{7, 8, 9, 10, 11, 12}) {
		t.Errorf("%d lines, bad ones %v", r.lines, r.bad)
	}
}

// The statistics of the tables are gathered at each tenfold growth and at the end.
func TestImportAnalyzes(t *testing.T) {
	t.Parallel()
	analyzed := func(friendships int) []int {
		f := newFixture(t)
		var text strings.Builder
		for user := range friendships {
			fmt.Fprintln(&text, user+1, user+2)
		}
		if _, err := f.ImportFriends(t.Context(), strings.NewReader(text.String()), importer.FriendsOptions{}, &report{}); err != nil {
			t.Fatal(err)
		}
		return f.stores.analyzed
	}
	// A friendship has two rows, and chunks end where they end. If the last one makes the tables
	// grow tenfold, the end has nothing to add.
	got := analyzed(60_000)
	if n := len(got); n < 2 || n > 3 || got[0] < 5000 || got[1] < 50_000 || got[n-1] != 60_000 || n == 3 && got[1] == got[2] {
		t.Errorf("after %v friendships", got)
	}
	if got = analyzed(5000); !slices.Equal(got, []int{5000}) {
		t.Errorf("after %v friendships", got)
	}
}

// User ids are any text, quoted or not. Without an offset numbers are ids like others. The
// first line with two ids decides what separates them.
func TestImportFriendsWithAnyID(t *testing.T) {
	t.Parallel()
	edge := func(a, b models.UserID) friends.Edge { return friends.Edge{A: a, B: b} }
	for name, tt := range map[string]struct {
		lines   []string
		want    []friends.Edge
		bad     []int
		warned  []int
		refused string
	}{
		"commas": {
			lines: []string{
				"auth0|5f7c,c56a4180-65aa-42ec-a945-5fd21dec0538", `"a,b","c""d"`, `"x", y`, "01,1", "-1,+1", "#a,b;c",
				"a b,c", `"a" b`, `"a b",c`, "é,f", ".,a", ",a", strings.Repeat("x", 129) + ",a", "1 2", "1;2", "1,2,3", `"1,2`,
			},
			want: []friends.Edge{
				edge("auth0|5f7c", "c56a4180-65aa-42ec-a945-5fd21dec0538"), edge("a,b", `c"d`), edge("x", "y"), edge("01", "1"), edge("-1", "+1"), edge("#a", "b;c"),
			},
			bad: []int{7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
		},
		"semicolons": {
			lines: []string{"1; 2", `"3;";4`, "5 ;6", "7,8", "9;"},
			want:  []friends.Edge{edge("1", "2"), edge("3;", "4"), edge("5", "6")},
			bad:   []int{4, 5},
		},
		"spaces": {
			lines: []string{"# a", "#", "#a #b", "c\t\td", ` "e,f"  "g""h" `, "1; 2", "3,4", `"a b"`, `"a""" "b"c`, "i j k"},
			want:  []friends.Edge{edge("#a", "#b"), edge("c", "d"), edge("e,f", `g"h`)},
			bad:   []int{6, 7, 8, 9, 10},
		},
		"bad lines first":      {lines: []string{"1", "1 2 3", "4;5"}, want: []friends.Edge{edge("4", "5")}, bad: []int{1, 2}},
		"two delimiters":       {lines: []string{"1,2;3"}, refused: `line 1, "1,2;3", has commas and semicolons`},
		"a header decides":     {lines: []string{"User1_ID;User2_ID", "1;2,3"}, want: []friends.Edge{edge("1", "2,3")}},
		"a header of spaces":   {lines: []string{"# nodes", "FromNodeId\tToNodeId", "1\t2"}, want: []friends.Edge{edge("1", "2")}},
		"a header in quotes":   {lines: []string{`"user_id","friend_id"`, `"1","2"`}, want: []friends.Edge{edge("1", "2")}},
		"a graph's header":     {lines: []string{"source,target", "a,b"}, want: []friends.Edge{edge("a", "b")}},
		"gone":                 {lines: []string{"1,2", gone + ",3", "4," + gone, gone + "," + gone, "5,6"}, want: []friends.Edge{edge("1", "2"), edge("5", "6")}, bad: []int{2, 3}},
		"nobody is there":      {lines: []string{"1," + gone}, bad: []int{1}},
		"nothing but a header": {lines: []string{"user1_id,user2_id"}},
		"an unknown header":    {lines: []string{"who,whom", "1001,1002"}, refused: `line 1, "who,whom", may be a header or two users: say which by --header`},
		"a header, then ids":   {lines: []string{"user1 user2", "a-1 a-2"}, want: []friends.Edge{edge("a-1", "a-2")}},
		"other names":          {lines: []string{"uid_1,uid_2", "anna,ben"}, want: []friends.Edge{edge("anna", "ben")}},
		"names in doubt":       {lines: []string{"mitglied_1,mitglied_2", "anna,ben"}, refused: `line 1, "mitglied_1,mitglied_2", may be a header or two users`},
		"names like the ids":   {lines: []string{"uid_1,uid_2", "uid_2,uid_3"}, want: []friends.Edge{edge("uid_1", "uid_2"), edge("uid_2", "uid_3")}},
		"above many numbers":   {lines: append([]string{"who,whom"}, numbers(25)...), want: edgesOf(numbers(25))},
		"above few numbers":    {lines: append([]string{"who,whom"}, numbers(5)...), refused: `line 1, "who,whom", may be a header or two users: say which by --header`},
		"words above a mix":    {lines: append([]string{"ann,ben", "cho,dee"}, numbers(25)...), want: append([]friends.Edge{edge("ann", "ben"), edge("cho", "dee")}, edgesOf(numbers(25))...)},
		"ids like a header":    {lines: []string{"user1,user2", "user1,user3"}, refused: `line 1, "user1,user2", may be a header or two users: say which by --header yes or --header no`},
		"words below a header": {lines: []string{"user1_id,user2_id", "who,whom", "1,2"}, want: []friends.Edge{edge("who", "whom"), edge("1", "2")}},
		"words":                {lines: []string{"alice,bob", "bob,carol"}, want: []friends.Edge{edge("alice", "bob"), edge("bob", "carol")}},
		"placeholders": {
			lines: []string{"1,2", "NULL,2", "1,NaN", `1,"#N/A"`, "(null),1", `1,\N`, "1,None", "nullable,1"},
			want:  []friends.Edge{edge("1", "2"), edge("nullable", "1")},
			bad:   []int{2, 3, 4, 5, 6, 7},
		},
		"damaged by a spreadsheet": {
			lines:  []string{"1,2", "1.50396E+09,3", "4,1.50396E+09"},
			want:   []friends.Edge{edge("1", "2"), edge("1.50396E+09", "3"), edge("4", "1.50396E+09")},
			warned: []int{2},
		},
		"only bad lines":    {lines: slices.Repeat([]string{"1,2,3"}, 3), bad: []int{1, 2, 3}, refused: "all 3 lines so far are bad: the file must have two user ids a line"},
		"many bad lines":    {lines: slices.Repeat([]string{"1,2,3"}, 100_000), bad: upTo(100), refused: "all 100 lines so far are bad"},
		"a good line among": {lines: append(slices.Repeat([]string{"1"}, 99), "1 2", "3 4", "1"), want: []friends.Edge{edge("1", "2"), edge("3", "4")}, bad: append(upTo(99), 102)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var r report
			result, err := f.ImportFriends(t.Context(), strings.NewReader(strings.Join(tt.lines, "\n")), importer.FriendsOptions{}, &r)
			if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("error %v, want %q", err, tt.refused)
			}
			if diff := cmp.Diff(tt.want, f.stores.edges); diff != "" || result.Added != len(tt.want) {
				t.Errorf("%+v, -want +got:\n%s", result, diff)
			}
			if !slices.Equal(r.bad, tt.bad) || !slices.Equal(r.warned, tt.warned) {
				t.Errorf("bad lines %v, with warnings %v: %q", r.bad, r.warned, r.reasons)
			}
		})
	}
}

// numbers returns n rows of two numbers.
func numbers(n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("%d,%d", i+1, i+2))
	}
	return rows
}

// edgesOf returns what is in rows of two ids.
func edgesOf(rows []string) (edges []friends.Edge) {
	for _, row := range rows {
		a, b, _ := strings.Cut(row, ",")
		edges = append(edges, friends.Edge{A: models.UserID(a), B: models.UserID(b)})
	}
	return edges
}

// upTo returns the numbers from 1 to n.
func upTo(n int) (numbers []int) {
	for i := range n {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// Files that are no text in UTF-8 are called what they are.
func TestImportOfOtherFormats(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"UTF-16 of Windows":    {"\xff\xfe1\x00,\x002\x00\n\x00", "is UTF-16: convert it"},
		"UTF-16, big-endian":   {"\xfe\xff\x001\x00,\x002\x00\n", "is UTF-16: convert it"},
		"UTF-16 without a BOM": {"1\x00,\x002\x00\n\x00", "UTF-16 without a byte order mark"},
		"gzip":                 {"\x1f\x8b\x08\x00\x00", "is compressed by gzip: unpack it"},
		"a workbook":           {"PK\x03\x04\x14\x00", "a workbook such as .xlsx"},
		"Fitbit":               {`[{"dateTime" : "11/01/26 08:00:00","value" : "12"}]`, "unzip -p takeout.zip"},
		"Garmin":               {"[ {\n  \"userProfilePK\" : 1,\n  \"calendarDate\" : \"2026-11-01\",\n  \"totalSteps\" : 7961", "unzip -p garmin.zip"},
		"JSON":                 {`{"steps":[]}`, "is JSON: make CSV of it"},
		"Apple Health":         {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<HealthData>", "is XML"},
	} {
		f := newFixture(t)
		if _, err := f.ImportFriends(t.Context(), strings.NewReader(tt.text), importer.FriendsOptions{}, &report{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s as friends: %v", name, err)
		}
		if _, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, importer.StepsImportOptions{}, &report{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s as steps: %v", name, err)
		}
	}
}

func TestImportDailySteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text := strings.Join([]string{
		"User_ID, Date, Steps", "1,2026-11-19,5000", "2,2026-11-20,700", `"3","2026-11-10","900"`, "",
		"4,2026-11-21,1", "4,2026-11-19,100001", "4,2026-11-19", `"4,2026-11-19,1`, "a nn,2026-11-19,1",
	}, "\r\n")
	var r report
	result, err := f.ImportSteps(t.Context(), strings.NewReader(text), f.board, importer.StepsImportOptions{}, &r)
	if err != nil {
		t.Fatal(err)
	}
	if want := (importer.StepsResult{Raised: 3, Archived: 1}); result != want {
		t.Errorf("%+v, want %+v", result, want)
	}
	// The last quote takes the line behind it.
	if r.lines != 7 || r.done != 3 || !slices.Equal(r.bad, []int{6, 7, 8, 9}) {
		t.Errorf("%d lines, bad ones %v", r.lines, r.bad)
	}
	hot := []string{"1 5000 2026-11-19T15:59:59.999Z", "2 700 2026-11-20T13:00:00.000Z"} // none later than now
	if diff := cmp.Diff(hot, f.stores.hot); diff != "" {
		t.Errorf("hot days: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"3 900 2026-11-10T15:59:59.999Z"}, f.stores.cold); diff != "" {
		t.Errorf("cold days: -want +got:\n%s", diff)
	}
	if len(f.stores.users) != 3 || !slices.Equal(f.stores.archived, []models.Date{testenv.Must(models.ParseDate("2026-11-10"))}) {
		t.Errorf("users %v, archived %v", f.stores.users, f.stores.archived)
	}
}

// The hours of a day add up, in any order. A total is reached at the end of the
// hour in which it last rose.
func TestImportHourlySteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text := strings.Join([]string{
		"Id,ActivityHour,StepTotal", "1,2026-11-19 22:00,0", "1,2026-11-19 8:00,100", "1,2026-11-19 13:00,250",
		"2,2026-11-19 9:00,0", "2,2026-11-19 7:00,0", "3,2026-11-19 25:00,1", "4,2026-11-19 5:00,60000", "4,2026-11-19 6:00,60000",
	}, "\n")
	var r report
	result, err := f.ImportSteps(t.Context(), strings.NewReader(text), f.board, importer.StepsImportOptions{}, &r)
	if err != nil {
		t.Fatal(err)
	}
	if result.Raised != 2 || r.lines != 8 || r.done != 5 || !slices.Equal(r.bad, []int{7, 9}) {
		t.Errorf("%+v of %d lines, bad ones %v", result, r.lines, r.bad)
	}
	if diff := cmp.Diff([]string{"1 350 2026-11-19T06:00:00.000Z", "2 0 2026-11-19T00:00:00.000Z"}, f.stores.hot); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// gone is the id of somebody who has signed up and was erased.
const gone = "u_abcdefghijklmnop"

// The lines of who has signed up and was erased are bad, and the others are imported.
func TestImportStepsOfWhoIsGone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text         string
		raised, done int
		bad          []int
	}{
		"days":        {"user_id,date,steps\n1,2026-11-19,5\n" + gone + ",2026-11-19,7\n2,2026-11-19,9\n" + gone + ",2026-11-10,7", 2, 2, []int{3, 5}},
		"hours":       {"Id,ActivityHour,StepTotal\n" + gone + ",2026-11-19 8:00,5\n" + gone + ",2026-11-19 9:00,5\n1,2026-11-19 8:00,5", 1, 1, []int{3}},
		"nobody else": {"user_id,date,steps\n" + gone + ",2026-11-19,7", 0, 0, []int{2}},
	} {
		f := newFixture(t)
		var r report
		result, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, importer.StepsImportOptions{}, &r)
		if err != nil || result.Raised != tt.raised || r.done != tt.done || !slices.Equal(r.bad, tt.bad) || len(f.stores.users) != tt.raised {
			t.Errorf("%s: %+v, %v: %d lines done, bad ones %v: %q", name, result, err, r.done, r.bad, r.reasons)
		}
	}
}

// Columns are found by their names, in any order and among others. Dates and times come in
// several forms.
func TestImportStepsFormats(t *testing.T) {
	t.Parallel()
	const refusal = `show whether the day or the month comes first in dates such as "11/9/2026" in line 2, which may be 2026-11-09 or 2026-09-11: write the dates with the year first`
	for name, tt := range map[string]struct {
		lines   []string
		want    []string // "user score reached-at" in hot days
		cold    []string
		bad     []int
		reason  string // of the first bad line
		warned  []int
		refused string
	}{
		"any order": {
			lines: []string{"Steps;Note;Date;User_ID", `700;"a;b";2026-11-19;1`, "5;;2026-11-19;2", "5;2026-11-19;2"},
			want:  []string{"1 700 2026-11-19T15:59:59.999Z", "2 5 2026-11-19T15:59:59.999Z"}, bad: []int{4}, reason: "3 fields instead of 4",
		},
		"tabs": {
			lines: []string{"note\tuser_id\tdate\tsteps", "\t1\t2026-11-19\t5"}, want: []string{"1 5 2026-11-19T15:59:59.999Z"},
		},
		"a table with an id of its own": {
			lines: []string{"id,user_id,day,total_steps", "1,7,2026-11-19,5"}, want: []string{"7 5 2026-11-19T15:59:59.999Z"},
		},
		"the days of Fitbit": {
			lines: []string{"Id,ActivityDate,TotalSteps,TotalDistance", "7,11/18/2026,5,8.5", "7,11/19/2026,6,8.5", "7,11/2/2026,6,8.5"},
			want:  []string{"7 5 2026-11-18T15:59:59.999Z", "7 6 2026-11-19T15:59:59.999Z"}, cold: []string{"7 6 2026-11-02T15:59:59.999Z"},
		},
		"days with midnights": {
			lines: []string{"user_id,date,steps", "1,2026-11-19 00:00:00,5", "2,2026-11-19T00:00:00.000,6", "3,2026-11-19 12:00:00 AM,7", "4,2026-11-19 1:00,8", "5,2026-11-19T01:00:00Z,8"},
			want:  []string{"1 5 2026-11-19T15:59:59.999Z", "2 6 2026-11-19T15:59:59.999Z", "3 7 2026-11-19T15:59:59.999Z"},
			bad:   []int{5, 6}, reason: `"2026-11-19 1:00" has a time: write a day without one`,
		},
		"the hours of Fitbit": {
			lines: []string{
				"Id,ActivityHour,StepTotal", "7,11/9/2026 11:00:00 PM,1", "7,11/19/2026 12:00:00 AM,2", "7,11/19/2026 12:00:00 PM,3", "7,11/19/2026 1:00:00 PM,4",
				"7,11/19/2026 13:00:00 PM,4", "7,11/19/2026 0:00:00 AM,4", "7,11/31/2026 1:00:00 AM,4",
			},
			want: []string{"7 9 2026-11-19T06:00:00.000Z"}, cold: []string{"7 1 2026-11-09T16:00:00.000Z"},
			bad: []int{6, 7, 8}, reason: `"11/19/2026 13:00:00 PM" has no time such as`,
		},
		"hours with the day first": {
			lines: []string{"Id;ActivityHour;StepTotal", "7;09.11.2026 23:00;1", "7;19.11.2026 01:00;2", "7;9.9.2026 01:00;3"},
			want:  []string{"7 2 2026-11-18T18:00:00.000Z"}, cold: []string{"7 1 2026-11-09T16:00:00.000Z", "7 3 2026-09-08T18:00:00.000Z"},
		},
		"hours of other kinds": {
			lines: []string{
				"Id,ActivityHour,StepTotal", "1,2026-11-19T13:00:00,5", "2,2026/11/19 13:00:00.000,6", "3,2026-11-19 13:15,7", "4,2026-11-19T13:00:00+08:00,8",
				"5,2026-11-19,9", "6,2026-11-19 24:00,9", "7,2026 13:00,9", "8,11/2026 13:00,9", "9,2026-11-19 13:00,4294967296",
			},
			want: []string{"1 5 2026-11-19T06:00:00.000Z", "2 6 2026-11-19T06:00:00.000Z"},
			bad:  []int{4, 5, 6, 7, 8, 9, 10}, reason: `"2026-11-19 13:15" is not the beginning of an hour`,
		},
		"a date without an order":  {lines: []string{"user_id,date,steps", "1,11/9/2026,5"}, refused: "the file does not " + refusal},
		"an impossible day":        {lines: []string{"user_id,date,steps", "1,11/9/2026,5", "1,2/30/2026,5", "1,13/13/2026,5"}, bad: []int{3, 4}, refused: refusal},
		"both orders":              {lines: []string{"user_id,date,steps", "1,11/19/2026,5", "1,18/11/2026,5"}, refused: `the dates "11/19/2026" and "18/11/2026" have the day, the month and the year in different orders: write`},
		"the same in either order": {lines: []string{"user_id,date,steps", "1,11/11/2026,5"}, cold: []string{"1 5 2026-11-11T15:59:59.999Z"}},
		"many dates without an order": {
			lines:   append([]string{"user_id,date,steps"}, slices.Repeat([]string{"1,11/9/2026,5"}, 500_001)...),
			refused: "500000 lines do not " + refusal,
		},
		"no users":          {lines: []string{"Start,Finish,Steps (count)", "1,2,3"}, refused: `line 1 has the columns "Start", "Finish", "Steps (count)": no column has the ids of users (if the file is one person's, say whose by --user ID); one of`},
		"no steps":          {lines: []string{"user_id;date;total"}, refused: "no column has the steps"},
		"no days":           {lines: []string{"Id,ActivityMinute,Steps"}, refused: "no column has days or hours"},
		"two columns alike": {lines: []string{"user_id,date,steps,Steps"}, refused: "it has two columns for steps"},
		"only bad lines":    {lines: append([]string{"user_id,date,steps"}, slices.Repeat([]string{"1,yesterday,5"}, 5000)...), bad: upTo(101)[1:], reason: `"yesterday" is not a date`, refused: "all 100 lines so far are bad: the file must have the columns"},
		"placeholders":      {lines: []string{"user_id,date,steps", "NULL,2026-11-19,5", "1,2026-11-19,5"}, want: []string{"1 5 2026-11-19T15:59:59.999Z"}, bad: []int{2}, reason: `"NULL" stands for an id that is missing`},
		"damaged by a spreadsheet": {
			lines: []string{"user_id,date,steps", "1,2026-11-19,5", "1.50396E+09,2026-11-19,5", "1.6E+09,2026-11-19,6"}, warned: []int{3},
			want: []string{"1 5 2026-11-19T15:59:59.999Z", "1.50396E+09 5 2026-11-19T15:59:59.999Z", "1.6E+09 6 2026-11-19T15:59:59.999Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var r report
			_, err := f.ImportSteps(t.Context(), strings.NewReader(strings.Join(tt.lines, "\n")), f.board, importer.StepsImportOptions{}, &r)
			if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("error %v, want %q", err, tt.refused)
			}
			if diff := cmp.Diff(tt.want, f.stores.hot); diff != "" {
				t.Errorf("hot days: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.cold, f.stores.cold); diff != "" {
				t.Errorf("cold days: -want +got:\n%s", diff)
			}
			if !slices.Equal(r.bad, tt.bad) || !slices.Equal(r.warned, tt.warned) || tt.reason != "" && !strings.HasPrefix(r.reasons[0], tt.reason) {
				t.Errorf("bad lines %v, with warnings %v: %q", r.bad, r.warned, r.reasons)
			}
		})
	}
}

// Hours as Fitbit exports them, in a file with other columns, are those of the file.
func TestImportRealHours(t *testing.T) {
	t.Parallel()
	text := string(testenv.Must(os.ReadFile(testenv.RealData(t, "fitbit-hourly-steps.csv"))))
	var exported strings.Builder
	exported.WriteString("StepTotal;Calories;Id;ActivityHour\r\n")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines[1:] {
		fields := strings.Split(strings.TrimSpace(line), ",")
		hour := testenv.Must(time.Parse("2006-1-2 15:04", fields[1]))
		fmt.Fprintf(&exported, "%s;61.5;%s;%s\r\n", fields[2], fields[0], hour.Format("1/2/2006 3:04:05 PM"))
	}
	var totals [2][]string
	for i, file := range []string{text, exported.String()} {
		f := newFixture(t)
		var r report
		result, err := f.ImportSteps(t.Context(), strings.NewReader(file), f.board, importer.StepsImportOptions{}, &r)
		if err != nil || len(r.bad) > 0 || result.Raised == 0 || r.done != len(lines)-1 {
			t.Fatalf("%+v, %d of %d lines done, bad ones %v: %v", result, r.done, len(lines)-1, r.reasons, err)
		}
		totals[i] = slices.Sorted(slices.Values(f.stores.cold))
	}
	if !slices.Equal(totals[0], totals[1]) {
		t.Error("the export has other totals")
	}
}

// Only totals that rise are counted as raised, and a user's day once.
func TestImportCountsWhatRises(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tt := range []struct {
		lines string
		want  int
	}{
		{"1,2026-11-19,5\n2,2026-11-19,5\n1,2026-11-19,6\n", 2},
		{"1,2026-11-19,5\n2,2026-11-19,5\n", 0},
		{"1,2026-11-19,7\n2,2026-11-19,5\n3,2026-11-10,0\n", 2},
	} {
		result, err := f.ImportSteps(t.Context(), strings.NewReader("user_id,date,steps\n"+tt.lines), f.board, importer.StepsImportOptions{}, &report{})
		if err != nil || result.Raised != tt.want {
			t.Errorf("%q: %d raised, %v, want %d", tt.lines, result.Raised, err, tt.want)
		}
	}
}

func TestImportStepsFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		text                 string
		raiseErr, archiveErr error
		want                 string
	}{
		"an empty file":   {text: "\ufeff\n \n", want: "the file is empty: its first line must name the columns"},
		"unknown columns": {text: "who,when,what\n", want: `line 1 has the columns "who", "when", "what": no column has the steps`},
		"raising":         {text: "user_id,date,steps\n1,2026-11-19,5\n2,2026-11-19,5\n", raiseErr: broken, want: "2 of 2 totals were not raised: broken"},
		"archiving":       {text: "user_id,date,steps\n1,2026-11-10,5\n", archiveErr: broken, want: "the totals are stored, and the next archival moves them: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.stores.raiseErr, f.stores.archiveErr = tt.raiseErr, tt.archiveErr
			_, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, importer.StepsImportOptions{}, &report{})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// A cold day that the archive does not take yet is left to its next run.
func TestImportLeavesADayToTheNextRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.stores.archiveErr = models.Errorf(models.CodeArchiveRunning, "it runs")
	result, err := f.ImportSteps(t.Context(), strings.NewReader("user_id,date,steps\n1,2026-11-10,5\n"), f.board, importer.StepsImportOptions{}, &report{})
	if want := (importer.StepsResult{Raised: 1, Waiting: 1}); err != nil || result != want {
		t.Errorf("%+v, %v, want %+v", result, err, want)
	}
}

func TestImportIsStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	result, err := f.ImportFriends(ctx, strings.NewReader("1 2\n"), importer.FriendsOptions{}, &report{})
	if result.Added != 0 || !errors.Is(err, context.Canceled) || f.stores.edges != nil {
		t.Errorf("%+v, %v", result, err)
	}
}

// edgeLines returns a file of n friendships.
func edgeLines(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%d %d\n", 2*i, 2*i+1)
	}
	return text.String()
}

// The chunk that is being stored when an import is stopped is completed, and its lines
// count as done. The next one is not begun.
func TestImportIsStoppedAfterAChunk(t *testing.T) {
	t.Parallel()
	for _, gently := range []bool{false, true} {
		f := newFixture(t)
		ctx, stop := context.WithCancel(t.Context())
		f.stores.imports = stop
		var r report
		result, err := f.ImportFriends(ctx, strings.NewReader(edgeLines(10_000)), importer.FriendsOptions{Gently: gently}, &r)
		if added := result.Added; !errors.Is(err, context.Canceled) || added == 0 || added == 10_000 || r.done != added || len(f.stores.edges) != added {
			t.Errorf("gently %v: %d added, %d done, %d stored, %v", gently, added, r.done, len(f.stores.edges), err)
		}
	}
}

// Friendships that take too long together are stored in smaller parts.
func TestImportOfSlowFriendships(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.stores.mostEdges = 700
	var r report
	result, err := f.ImportFriends(t.Context(), strings.NewReader(edgeLines(5000)+"7 7\n"), importer.FriendsOptions{}, &r)
	if err != nil || result != (importer.FriendsResult{Added: 5000, Self: 1}) || r.done != 5000 || len(f.stores.edges) != 5000 || len(r.bad) > 0 {
		t.Errorf("%+v, %d done, bad lines %v, %v", result, r.done, r.bad, err)
	}
	f.stores.mostEdges = 100
	if _, err := f.ImportFriends(t.Context(), strings.NewReader(edgeLines(5000)), importer.FriendsOptions{}, &r); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("if even few take too long: %v", err)
	}
}

// An error of the stores ends an import although more of the file is waited for.
func TestImportFailsWhileItReads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.stores.importErr = errors.New("broken")
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	go func() { _, _ = out.WriteString(edgeLines(3000)) }() // ends with the pipe
	_, err = f.ImportFriends(t.Context(), in, importer.FriendsOptions{}, &report{})
	if !errors.Is(err, f.stores.importErr) {
		t.Errorf("error %v", err)
	}
}
