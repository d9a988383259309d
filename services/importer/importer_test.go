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

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/friends"
	"stepboard/services/importer"
	"stepboard/services/score"
)

// fakeStores records what an import stores. Its errors, if set, are returned
// instead.
type fakeStores struct {
	mu         sync.Mutex // of users and the raised totals
	edges      []friends.Edge
	imports    func() // called by each Import; may be nil
	importErr  error
	mostEdges  int             // more at a time are CodeUnavailable; 0 means no bound
	users      []models.UserID // by row from 1, in the order of their creation
	hot, cold  []string        // "user score reached-at" of each raise
	archived   []models.Date
	archiveErr error
	raiseErr   error
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
		if !slices.Contains(f.users, user) {
			f.users = append(f.users, user)
		}
		rows[i] = models.RowID(1 + slices.Index(f.users, user))
	}
	return rows, nil
}

func (f *fakeStores) Archive(_ context.Context, b *models.Bucket, _ func(int64)) (models.ArchiveRun, error) {
	f.archived = append(f.archived, b.Day)
	return models.ArchiveRun{}, f.archiveErr
}

func (f *fakeStores) raise(list *[]string) func(context.Context, []models.Raise) []error {
	return func(_ context.Context, raises []models.Raise) []error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.raiseErr != nil && len(raises) > 0 {
			return slices.Repeat([]error{f.raiseErr}, len(raises))
		}
		for _, r := range raises {
			points, at := score.Of(r.Bucket).Decode(r.Composite)
			*list = append(*list, fmt.Sprintf("%v %d %s", f.users[r.User-1], points, testenv.Must(at.MarshalText())))
		}
		return nil
	}
}

// report records the numbers of bad lines.
type report struct {
	mu          sync.Mutex
	lines, done int
	bad         []int
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

func (r *report) BadLine(number int, _ error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = append(r.bad, number)
	return nil
}

// fixture is an importer on fake stores, on 2026-11-20 at 13:00 UTC, with three
// hot days.
type fixture struct {
	*importer.Service
	stores *fakeStores
	board  *catalog.Board
}

func newFixture(t testing.TB) *fixture { return newFixtureIn(t, "Asia/Shanghai") }

// newFixtureIn is newFixture with another time zone.
func newFixtureIn(t testing.TB, zone string) *fixture {
	t.Helper()
	env := testenv.Embedded(t)
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	def := models.Board{Name: "steps", Kind: models.KindDaily, TimeZone: zone, OpenDays: 2, MaxScore: 100_000, Shards: 1, Global: models.AudienceUsers}
	if err := c.Definitions.Define(t.Context(), []models.Board{def}); err != nil {
		t.Fatal(err)
	}
	stores := &fakeStores{}
	return &fixture{
		Service: &importer.Service{
			Friends: stores, Directory: stores, Buckets: c.Buckets, Archive: stores,
			RaiseHot: stores.raise(&stores.hot), RaiseCold: stores.raise(&stores.cold), Clock: env.Clock.Now,
		},
		stores: stores, board: testenv.Must(c.Definitions.Board("steps")),
	}
}

func TestImportFriends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	text := "\ufeff# a comment\n\n0 1\n1\t2\n2,3\n4 4\n5\n5 6 7\na 6\n-2 6\n9223372036854775807 6\n"
	var r report
	added, err := f.ImportFriends(t.Context(), strings.NewReader(text), importer.FriendsOptions{Offset: 1}, &r)
	if err != nil {
		t.Fatal(err)
	}
	want := []friends.Edge{{A: "1", B: "2"}, {A: "2", B: "3"}, {A: "3", B: "4"}}
	if added != 3 || !slices.Equal(f.stores.edges, want) {
		t.Errorf("%d added: %v, want %v", added, f.stores.edges, want)
	}
	slices.Sort(r.bad) // rejected edges are reported with their batch
	if r.lines != 9 || r.done != 4 || !slices.Equal(r.bad, []int{6, 7, 8, 9, 10, 11}) {
		t.Errorf("%d lines, bad ones %v", r.lines, r.bad)
	}
}

// User ids are any text, quoted or not. Without an offset numbers are ids like others.
func TestImportFriendsWithAnyID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lines := []string{
		"#a #b", "# a", "#", "01 1", "auth0|5f7c,c56a4180-65aa-42ec-a945-5fd21dec0538", `"a,b","c""d"`, `"x",y`, "a\t\tb", "-1 +1",
		"a b c", `"a" b`, `"a b",c`, "é,f", ". a", ",a", strings.Repeat("x", 129) + " a",
	}
	var r report
	added, err := f.ImportFriends(t.Context(), strings.NewReader(strings.Join(lines, "\n")), importer.FriendsOptions{}, &r)
	if err != nil {
		t.Fatal(err)
	}
	want := []friends.Edge{
		{A: "#a", B: "#b"}, {A: "01", B: "1"}, {A: "auth0|5f7c", B: "c56a4180-65aa-42ec-a945-5fd21dec0538"}, {A: "a,b", B: `c"d`},
		{A: "x", B: "y"}, {A: "a", B: "b"}, {A: "-1", B: "+1"},
	}
	if diff := cmp.Diff(want, f.stores.edges); diff != "" || added != len(want) {
		t.Errorf("%d added, -want +got:\n%s", added, diff)
	}
	if !slices.Equal(r.bad, []int{10, 11, 12, 13, 14, 15, 16}) {
		t.Errorf("bad lines %v", r.bad)
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
	result, err := f.ImportSteps(t.Context(), strings.NewReader(text), f.board, false, &r)
	if err != nil {
		t.Fatal(err)
	}
	if want := (importer.StepsResult{Raised: 3, Archived: 1}); result != want {
		t.Errorf("%+v, want %+v", result, want)
	}
	if r.lines != 8 || r.done != 3 || !slices.Equal(r.bad, []int{6, 7, 8, 9, 10}) {
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
	result, err := f.ImportSteps(t.Context(), strings.NewReader(text), f.board, false, &r)
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

// Days of a file are the users' own if the board's are. Without a time, a total counts as
// reached when its day ended everywhere; hours are read as UTC.
func TestImportLocalDays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []string
		bad  []int
	}{
		"days": {
			"user_id,date,steps\n1,2026-11-18,5\n2,2026-11-20,6\n3,2026-11-21,7\n4,2026-11-22,8\n",
			[]string{"1 5 2026-11-19T11:59:59.999Z", "2 6 2026-11-20T13:00:00.000Z", "3 7 2026-11-20T13:00:00.000Z"}, []int{5},
		},
		"hours": {
			"Id,ActivityHour,StepTotal\n1,2026-11-18 23:00,5\n1,2026-11-19 00:00,6\n2,2026-11-21 01:00,7\n",
			[]string{"1 5 2026-11-19T00:00:00.000Z", "1 6 2026-11-19T01:00:00.000Z", "2 7 2026-11-20T13:00:00.000Z"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureIn(t, models.LocalZone)
			var r report
			if _, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, false, &r); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.bad, tt.bad) {
				t.Errorf("bad lines %v", r.bad)
			}
			if diff := cmp.Diff(tt.want, f.stores.hot); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
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
		"unknown columns": {text: "who,when,what\n", want: `the first line is "who,when,what"`},
		"raising":         {text: "user_id,date,steps\n1,2026-11-19,5\n2,2026-11-19,5\n", raiseErr: broken, want: "2 of 2 totals were not raised: broken"},
		"archiving":       {text: "user_id,date,steps\n1,2026-11-10,5\n", archiveErr: broken, want: "the totals are stored, and the next archival moves them: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.stores.raiseErr, f.stores.archiveErr = tt.raiseErr, tt.archiveErr
			_, err := f.ImportSteps(t.Context(), strings.NewReader(tt.text), f.board, false, &report{})
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
	result, err := f.ImportSteps(t.Context(), strings.NewReader("user_id,date,steps\n1,2026-11-10,5\n"), f.board, false, &report{})
	if want := (importer.StepsResult{Raised: 1, Waiting: 1}); err != nil || result != want {
		t.Errorf("%+v, %v, want %+v", result, err, want)
	}
}

func TestImportIsStopped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	added, err := f.ImportFriends(ctx, strings.NewReader("1 2\n"), importer.FriendsOptions{}, &report{})
	if added != 0 || !errors.Is(err, context.Canceled) || f.stores.edges != nil {
		t.Errorf("%d added, %v", added, err)
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
		added, err := f.ImportFriends(ctx, strings.NewReader(edgeLines(10_000)), importer.FriendsOptions{Gently: gently}, &r)
		if !errors.Is(err, context.Canceled) || added == 0 || added == 10_000 || r.done != added || len(f.stores.edges) != added {
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
	added, err := f.ImportFriends(t.Context(), strings.NewReader(edgeLines(5000)+"7 7\n"), importer.FriendsOptions{}, &r)
	if err != nil || added != 5000 || r.done != 5001 || len(f.stores.edges) != 5000 || !slices.Equal(r.bad, []int{5001}) {
		t.Errorf("%d added, %d done, bad lines %v, %v", added, r.done, r.bad, err)
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
