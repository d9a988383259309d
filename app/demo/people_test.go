package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/people/friends"
	"stepboard/services/platform/auth"
)

// fileOf returns the path of a new file with a text.
func fileOf(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// described returns everything that a seed decides about people before they walk.
func described(t testing.TB, o Options) map[string]any {
	t.Helper()
	p, err := newPeople(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"ids": p.ids, "friendships": p.edges, "steps": p.patterns, "names": p.names}
}

func TestDemoPeopleComeFromTheSeed(t *testing.T) {
	t.Parallel()
	first := described(t, Options{Users: 300, Seed: 7})
	if diff := cmp.Diff(first, described(t, Options{Users: 300, Seed: 7})); diff != "" {
		t.Errorf("the same seed makes other people: %s", diff)
	}
	other := described(t, Options{Users: 300, Seed: 8})
	for _, what := range []string{"friendships", "steps", "names"} {
		if cmp.Equal(first[what], other[what]) {
			t.Errorf("another seed makes the same %s", what)
		}
	}
}

func TestDemoPeopleInAnyNumber(t *testing.T) {
	t.Parallel()
	for users := 1; users <= 30; users++ {
		p, err := newPeople(t.Context(), Options{Users: users, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[friends.Edge]bool)
		for _, e := range p.edges {
			_, knowsA := p.positions[e.A]
			_, knowsB := p.positions[e.B]
			if e.A >= e.B || !knowsA || !knowsB || seen[e] {
				t.Errorf("%d users: friendship %v", users, e)
			}
			seen[e] = true
		}
		if len(p.ids) != users || len(p.positions) != users || (users > 1 && len(p.edges) == 0) {
			t.Errorf("%d users: %d ids, %d friendships", users, len(p.ids), len(p.edges))
		}
	}
}

// edge returns the friendship of two people as befriender adds it.
func edge(a, b models.UserID) friends.Edge { return friends.Edge{A: min(a, b), B: max(a, b)} }

// The people have ids of every shape, none of them twice.
func TestDemoIDs(t *testing.T) {
	t.Parallel()
	shapes := []string{`^[0-9]+$`, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$`, `^auth0\|[0-9a-f]{24}$`, `^o[0-9A-Za-z_-]{27}$`}
	count := make([]int, len(shapes))
	seen := make(map[models.UserID]bool)
	for number := 1; number <= 4000; number++ {
		id := idOf(number)
		if _, err := models.ParseUserID(string(id)); err != nil || seen[id] {
			t.Errorf("person %d is %q: %v, taken: %v", number, id, err, seen[id])
		}
		seen[id] = true
		for i, shape := range shapes {
			if regexp.MustCompile(shape).MatchString(string(id)) {
				count[i]++
			}
		}
	}
	if want := []int{1000, 1000, 1000, 1000}; !slices.Equal(count, want) {
		t.Errorf("%v ids of each shape, want %v", count, want)
	}
	if idOf(1) != "1" {
		t.Errorf("the first person is %q; the guide calls it 1", idOf(1))
	}
}

func TestDemoPeopleFromFiles(t *testing.T) {
	t.Parallel()
	graph := fileOf(t, "\ufeff# who knows whom\n\n 4 0\n0  1\n1\t0\n2 2\n")
	steps := fileOf(t, strings.Join([]string{
		"", " Id, ActivityHour, StepTotal",
		"20,2016-4-12 1:00,7",
		"10,2016-4-13 1:00,500", // out of order; the hours before have no row
		"10,2016-4-12 2:00,100", "10,2016-4-12 2:00,11",
	}, "\r\n"))
	p, err := newPeople(t.Context(), Options{Graph: graph, Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	if want := []models.UserID{idOf(1), idOf(2), idOf(3), idOf(5)}; !slices.Equal(p.ids, want) {
		t.Errorf("users %v, want %v", p.ids, want)
	}
	if want := []friends.Edge{edge(idOf(5), idOf(1)), edge(idOf(1), idOf(2))}; !slices.Equal(p.edges, want) {
		t.Errorf("friendships %v, want %v", p.edges, want)
	}
	for _, tt := range []struct {
		at          int // 0 and 2 walk as user 10, 1 and 3 as user 20
		hours, want float64
	}{
		{0, 0, 0}, {0, 2, 0}, {0, 2.5, 55.5}, {0, 3, 111}, {0, 24, 111}, {0, 25, 111}, {0, 26, 611}, {0, 48, 611}, {0, 51, 722},
		{1, 1, 0}, {1, 2, 7}, {1, 24, 7}, {1, 26, 14}, {1, 240, 70}, {2, 3, 111}, {3, 2, 7},
	} {
		if got := p.stepsAfter(tt.at, tt.hours); got != tt.want {
			t.Errorf("after %v hours person %d has walked %v, want %v", tt.hours, tt.at, got, tt.want)
		}
	}
}

// Within a day a score never falls. It equals the steps up to freshSteps.
func TestDemoScores(t *testing.T) {
	t.Parallel()
	p, err := newPeople(t.Context(), Options{Users: 10, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, 9).Draw(t, "person")
		from := rapid.Float64Range(0, 5000).Draw(t, "from")
		to := from + rapid.Float64Range(0, 5000).Draw(t, "for")
		later := to + rapid.Float64Range(0, 100).Draw(t, "and")
		a := dailyScore(p.stepsAfter(at, to) - p.stepsAfter(at, from))
		b := dailyScore(p.stepsAfter(at, later) - p.stepsAfter(at, from))
		if a < 0 || b < a || b > mostSteps {
			t.Fatalf("a score of %d is followed by %d", a, b)
		}
	})
	for steps, want := range map[float64]int64{0: 0, 0.9: 0, 12_345: 12_345, freshSteps: freshSteps, 1e15: mostSteps} {
		if got := dailyScore(steps); got != want {
			t.Errorf("%v steps are a score of %d, want %d", steps, got, want)
		}
	}
	if dailyScore(100_000) >= dailyScore(101_000) {
		t.Error("after some hours the scores no longer rise")
	}
}

// The first person begins in the middle of their friends, with one of them startGap steps
// ahead.
func TestDemoFirstPerson(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		p, err := newPeople(t.Context(), Options{Users: 400, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		score := func(position int) int64 { return dailyScore(p.stepsBetween(position, 0, startHour)) }
		own := score(0)
		var friends []int64
		for _, e := range p.edges {
			switch p.ids[0] {
			case e.A:
				friends = append(friends, score(p.positions[e.B]))
			case e.B:
				friends = append(friends, score(p.positions[e.A]))
			}
		}
		slices.Sort(friends)
		rank, _ := slices.BinarySearch(friends, own)
		if rank < len(friends)/6 || rank > len(friends)*5/6 {
			t.Errorf("seed %d: %d of %d friends are behind", seed, rank, len(friends))
		}
		if !slices.Contains(friends, own+startGap) {
			t.Errorf("seed %d: nobody of %v is %d steps ahead of %d", seed, friends, startGap, own)
		}
		// On the next day there is no head start.
		if steps, want := p.stepsBetween(0, 40, 50), p.stepsAfter(0, 50)-p.stepsAfter(0, 40); steps != want {
			t.Errorf("seed %d: %v steps on the second day, want %v", seed, steps, want)
		}
	}
}

// A demo that runs for an hour shows a day like any other: nobody is near the largest score.
func TestDemoPace(t *testing.T) {
	t.Parallel()
	p, err := newPeople(t.Context(), Options{Users: 400, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for position := range p.ids {
		begin, hour := p.stepsBetween(position, 0, startHour), p.stepsBetween(position, 0, startHour+float64(time.Hour)/float64(hourOfWalking))
		if score := dailyScore(hour); score > 35_000 || hour-begin < 500 {
			t.Errorf("person %d has %d steps after an hour, %.0f more than at its beginning", position, score, hour-begin)
		}
	}
}

// At midnight the day's steps begin at 0, while the hours of walking go on.
func TestDemoMidnight(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 20, 15, 50, 0, 0, time.UTC)
	d := walkDay{start: start, day: 100}
	for _, tt := range []struct {
		after    time.Duration
		today    models.Date
		from, to float64
	}{
		{0, 100, 0, 8}, {hourOfWalking, 100, 0, 9}, {2 * hourOfWalking, 101, 10, 10}, {4 * hourOfWalking, 101, 10, 12},
		{24*time.Hour + 2*hourOfWalking, 102, 298, 298},
	} {
		d.advance(start.Add(tt.after), tt.today)
		if d.began != tt.from || d.now != tt.to || d.day != tt.today {
			t.Errorf("after %v: hours %v to %v of day %d, want %v to %v of day %d", tt.after, d.began, d.now, d.day, tt.from, tt.to, tt.today)
		}
	}
}

// simulationOn returns a demo of a number of people on the test's local stores, with boards. Nothing is
// stored yet.
func simulationOn(t testing.TB, env *testenv.Env, boards []config.Board, users int) *simulation {
	t.Helper()
	cfg := config.Default()
	cfg.Boards = boards
	a, err := app.Build(context.Background(), app.Options{
		Config: cfg, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: auth.NewVerifier(auth.VerifierConfig{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Start(context.Background())
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	p := testenv.Must(newPeople(t.Context(), Options{Users: users, Seed: 1}))
	return &simulation{people: p, app: a, stores: env.Stores, clock: env.Clock.Now, log: env.Log, progress: noProgress{}}
}

// populated returns a demo of a number of people with their past.
func populated(t testing.TB, env *testenv.Env, users int) *simulation {
	t.Helper()
	s := simulationOn(t, env, boards(env.Clock.Now()), users)
	if err := s.store(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A change of the graph can't be stopped, so ctx is checked before each one.
func TestDemoMovingInIsStopped(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := simulationOn(t, env, config.Default().Boards, 10)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := s.storeFriends(ctx)
	var n int64
	if err := env.Gorm.Model(&models.Friendship{}).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("%v, after %d friendships", err, n/2)
	}
}

// A demo of many people uploads more totals at once than the service's queue takes.
// A day that has closed is not an error.
func TestDemoUploads(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	configured := config.Default().Boards
	configured[0].OpenDays = 29
	s := simulationOn(t, env, configured, 1)
	a := s.app
	board := testenv.Must(a.Catalog.Definitions.Board(stepsBoard))
	bucket := testenv.Must(a.Catalog.Buckets.Current(board, env.Clock.Now(), models.UTCOffset{}))
	today := bucket.Day
	const people, days = 2000, 30
	users := make([]models.UserID, people)
	var uploads []ingest.Upload
	for i := range users {
		users[i] = idOf(i + 1)
		for ago := range models.Date(days) {
			uploads = append(uploads, ingest.Upload{User: users[i], Date: today - ago, Score: 1})
		}
	}
	testenv.Must(a.Directory.EnsureMany(t.Context(), users))
	uploads[0].Date = today - days
	if err := s.upload(t.Context(), stepsBoard, uploads); err != nil {
		t.Fatal(err)
	}
	if n := testenv.Must(a.Entries.Counts(t.Context(), []*models.Bucket{bucket}))[0]; n != people-1 {
		t.Errorf("%d of %d totals of today arrived", n, people-1)
	}
	uploads[0].Date = today + 1
	if err := s.upload(t.Context(), stepsBoard, uploads[:1]); models.CodeOf(err) != models.CodeDateInFuture {
		t.Errorf("a future day: %v", err)
	}
}

func TestDemoFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	var crowd strings.Builder
	for n := range maxPeople {
		fmt.Fprintf(&crowd, "%d %d\n", n, n+1)
	}
	for name, tt := range map[string]struct{ graph, steps, want string }{
		"an empty graph":        {graph: " \n# nobody\n", want: "no friendships"},
		"only oneself":          {graph: "1 1\n", want: "no friendships"},
		"no pair":               {graph: "1 2\n3\n", want: "line 2: 1 fields instead of two user ids"},
		"a graph of names":      {graph: "ann ben\n", want: `line 1: "ann" is not a user number`},
		"a negative number":     {graph: "1 -1\n", want: `line 1: "-1" is not a user number`},
		"too many people":       {graph: crowd.String(), want: "more than 100000 people"},
		"no steps at all":       {steps: "\n", want: "the file is empty"},
		"a header and no steps": {steps: "Id,ActivityHour,StepTotal\n", want: "no steps"},
		"daily steps":           {steps: "user_id,date,steps\n1,2016-04-12,5\n", want: "a demo needs hours"},
		"no header":             {steps: "1,2016-4-12 1:00,5\n", want: "no column has the steps"},
		"no id":                 {steps: "Id,ActivityHour,StepTotal\n\na b,2016-4-12 1:00,5\n", want: `line 3: "a b"`},
		"no hour":               {steps: "Id,ActivityHour,StepTotal\n1,noon,5\n", want: `line 2: "noon" is not a date`},
		"no number":             {steps: "Id,ActivityHour,StepTotal\n1,2016-4-12 1:00,-5\n", want: `line 2: "-5" is not a whole number`},
		"two columns":           {steps: "Id,ActivityHour,StepTotal\n1,2\n", want: "line 2: 2 fields"},
		"a gap of years":        {steps: "Id,ActivityHour,StepTotal\n1,2016-4-12 1:00,5\n1,9999-4-12 1:00,5\n", want: "user 1: "},
	} {
		o := Options{Users: 10}
		if tt.graph != "" {
			o.Graph = fileOf(t, tt.graph)
		}
		if tt.steps != "" {
			o.Steps = fileOf(t, tt.steps)
		}
		if _, err := newPeople(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), o.Graph+o.Steps) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// noProgress shows nothing.
type noProgress struct{}

func (noProgress) Show(string, ...any) {}
func (noProgress) Clear()              {}
