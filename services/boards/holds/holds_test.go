package holds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/score"
	"stepboard/services/platform/lease"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// holdAbove is the limit of the board.
	holdAbove = 50_000
	// retain is how many months the archive keeps.
	retain = 1
	today  = models.Date(20_777) // of testenv.Noon
)

// fixture is a service with a board of days that holds totals, and what it depends on.
type fixture struct {
	t           *testing.T
	env         *testenv.Env
	catalog     *catalog.Catalog
	boards      board.Entries
	archive     *archive.Service
	corrections *corrections.Service
	store       *holds.Store
	ingest      *ingest.Service
	holds       *holds.Service
	// away is the error of the writer, nil while it can be reached.
	away error
}

func newFixture(t *testing.T, env *testenv.Env) *fixture {
	t.Helper()
	testenv.NumberUsers(t, env, 20)
	f := &fixture{t: t, env: env, catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)}
	defs := env.Config.BoardDefinitions()
	defs[0].HoldAbove = holdAbove
	if err := f.catalog.Definitions.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	rules := corrections.NewRules(new(models.RowSet))
	f.boards = servicetest.Entries(env, env.Clock.Now, rules)
	store := archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool, Reads: env.Gorm, Reports: env.Gorm})
	f.archive = archive.New(store, servicetest.Source(f.boards), lease.NewLocal(), env.Clock.Now, env.Log)
	t.Cleanup(f.archive.Close)
	users := testenv.Numbers{DB: env.Gorm}
	f.corrections = corrections.New(corrections.Options{
		Store: corrections.NewStore(env.Gorm, env.Gorm, nil), Rules: rules, Catalog: f.catalog, Entries: f.boards, Archive: f.archive,
		Ledger: ledger.NewReconciler(ledger.ReconcilerOptions{}), Directory: users, Clock: env.Clock.Now, Log: env.Log,
	})
	writer := ingest.Direct(f.boards, func(store ingest.Store) ingest.Store {
		return func(ctx context.Context, raises []models.Raise) []error {
			if f.away != nil {
				return slices.Repeat([]error{f.away}, len(raises))
			}
			return store(ctx, raises)
		}
	})
	t.Cleanup(writer.Close)
	f.store = holds.NewStore(env.Gorm, env.Gorm)
	f.ingest = ingest.New(f.catalog, users, f.store, writer, env.Clock.Now)
	f.holds = holds.New(holds.Options{
		Store: f.store, Catalog: f.catalog, Entries: entriesAway{f.boards, f}, Archive: f.archive, Rules: rules, Directory: users,
		Write: writer.Raise, RetainMonths: retain, Clock: env.Clock.Now, Log: env.Log,
	})
	return f
}

// entriesAway are entries that can't be read while the fixture's are away.
type entriesAway struct {
	board.Entries
	f *fixture
}

func (e entriesAway) CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	if e.f.away != nil {
		return nil, e.f.away
	}
	return e.Entries.CompositesBefore(ctx, raises)
}

// upload uploads totals of user 1 for today, and returns which were held.
func (f *fixture) upload(scores ...int64) (held []bool) {
	f.t.Helper()
	var uploads []ingest.Upload
	for _, s := range scores {
		uploads = append(uploads, ingest.Upload{User: "1", Date: today, Score: s})
	}
	accepted, rejected, err := f.ingest.Accept(f.t.Context(), "steps", uploads)
	if err != nil || len(rejected) > 0 {
		f.t.Fatalf("%v, %v", rejected, err)
	}
	for _, a := range accepted {
		held = append(held, a.Held)
	}
	return held
}

// all describes the holds of user 1 in all states as "score time counting state", and returns the newest.
func (f *fixture) all() (string, models.Hold) {
	f.t.Helper()
	var list []models.Hold
	for _, state := range []models.HoldState{models.HoldOpen, models.HoldRejected, models.HoldReleased} {
		list = append(list, testenv.Must(f.holds.List(f.t.Context(), holds.Query{State: state, Board: "steps", User: "1", Limit: 50}))...)
	}
	var lines []string
	for _, h := range list {
		counting := "-"
		if h.Counting != nil {
			counting = fmt.Sprint(*h.Counting)
		}
		if h.User != "1" || h.Day != today {
			f.t.Errorf("a hold of %q on %v", h.User, h.Day)
		}
		lines = append(lines, fmt.Sprint(h.Score, " +", h.ReachedAt.Sub(testenv.Noon), " ", counting, " ", h.State))
	}
	return strings.Join(lines, "; "), append(list, models.Hold{})[0]
}

// want checks the holds as all describes them.
func (f *fixture) want(want string) models.Hold {
	f.t.Helper()
	got, h := f.all()
	if got != want {
		f.t.Errorf("holds: %q, want %q", got, want)
	}
	return h
}

// try decides about the hold of user 1, who is said to have the score.
func (f *fixture) try(state models.HoldState, value int64) (models.Hold, error) {
	f.t.Helper()
	_, h := f.all()
	return f.holds.Decide(f.t.Context(), holds.Decision{ID: h.ID, State: state, Score: value, Reason: "seen", By: "alice"})
}

func (f *fixture) decide(state models.HoldState, value int64) models.Hold {
	f.t.Helper()
	return testenv.Must(f.try(state, value))
}

// refused checks that a decision is refused.
func (f *fixture) refused(state models.HoldState, value int64) {
	f.t.Helper()
	if _, err := f.try(state, value); models.CodeOf(err) != models.CodeHoldChanged {
		f.t.Errorf("%s %d: %v", state, value, err)
	}
}

// bucket returns today's bucket.
func (f *fixture) bucket() *models.Bucket {
	f.t.Helper()
	return testenv.Must(f.catalog.Buckets.Load(f.t.Context(), "steps", "20261120"))
}

// toArchive moves the clock to when the day may be archived.
func (f *fixture) toArchive() {
	f.env.Clock.Set(f.bucket().ColdAt.Add(2 * time.Hour))
}

// archives runs the archive on today's bucket.
func (f *fixture) archives() {
	f.t.Helper()
	if _, err := f.archive.Archive(f.t.Context(), f.bucket(), func(int64) {}); err != nil {
		f.t.Fatal(err)
	}
}

func check[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

const (
	open     = models.HoldOpen
	rejected = models.HoldRejected
	released = models.HoldReleased
)

// What may happen to the totals of one day.
func TestHolds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(f *fixture)
	}{
		{"the limit itself counts", func(f *fixture) {
			check(f.t, "held", f.upload(holdAbove), []bool{false})
			f.want("")
		}},
		{"the first total of a day", func(f *fixture) {
			check(f.t, "held", f.upload(60_000), []bool{true})
			f.want("60000 +0s - open")
		}},
		{"sent again, larger, lower", func(f *fixture) {
			f.upload(60_000)
			f.env.Clock.Advance(time.Minute)
			f.upload(60_000)
			f.want("60000 +0s - open")
			f.upload(70_000)
			f.env.Clock.Advance(time.Minute)
			check(f.t, "held", f.upload(65_000), []bool{true})
			check(f.t, "held", f.upload(9_000), []bool{false})
			f.want("70000 +1m0s 9000 open")
		}},
		{"several in one call", func(f *fixture) {
			check(f.t, "held", f.upload(60_000, 8_000, 80_000, 70_000), []bool{true, false, true, true})
			f.want("80000 +0s 8000 open")
		}},
		{"released", func(f *fixture) {
			f.upload(8_000)
			f.upload(60_000)
			f.env.Clock.Advance(time.Minute)
			h := f.decide(released, 60_000)
			check(f.t, "released", fmt.Sprint(h.State, *h.Counting, h.WrittenAt != nil, h.DecidedBy, h.Reason), "released60000 truealiceseen")
			composite := testenv.Must(f.boards.Composites(f.t.Context(), f.bucket(), []models.RowID{1}))[0]
			_, at := score.Of(f.bucket()).Decode(composite)
			check(f.t, "reached at", at.Time(), testenv.Noon.UTC())
			check(f.t, "held", f.upload(61_000), []bool{false})
			f.want("60000 +0s 61000 released")
			again := f.decide(released, 60_000)
			check(f.t, "decided at", again.DecidedAt.UTC(), h.DecidedAt.UTC())
			f.refused(rejected, 60_000)
		}},
		{"rejected, and released later", func(f *fixture) {
			f.upload(60_000)
			check(f.t, "state", f.decide(rejected, 60_000).State, rejected)
			check(f.t, "held", f.upload(9_000, 70_000), []bool{false, true})
			f.want("70000 +0s 9000 rejected")
			f.refused(released, 60_000)
			f.decide(released, 70_000)
			f.want("70000 +0s 70000 released")
		}},
		{"a larger total during the decision", func(f *fixture) {
			f.upload(60_000)
			f.upload(70_000)
			f.refused(released, 60_000)
			f.refused(rejected, 60_000)
			f.refused(released, 80_000)
			f.want("70000 +0s - open")
		}},
		{"a dry run", func(f *fixture) {
			f.upload(60_000)
			_, h := f.all()
			d := holds.Decision{ID: h.ID, State: released, Score: 60_000, Reason: "seen", By: "alice", DryRun: true}
			check(f.t, "state", testenv.Must(f.holds.Decide(f.t.Context(), d)).State, released)
			f.want("60000 +0s - open")
		}},
		{"the day closes", func(f *fixture) {
			f.upload(60_000)
			f.env.Clock.Set(f.bucket().ClosesAt)
			f.decide(released, 60_000)
			f.want("60000 +0s 60000 released")
			f.toArchive()
			f.archives()
			f.want("60000 +0s 60000 released")
		}},
		{"the day is archived", func(f *fixture) {
			f.upload(8_000)
			f.upload(60_000)
			f.toArchive()
			f.archives()
			f.want("60000 +0s 8000 open")
			f.decide(released, 60_000)
			f.want("60000 +0s 8000 released")
			check(f.t, "due", len(testenv.Must(f.archive.Due(f.t.Context()))), 1)
			f.archives()
			f.want("60000 +0s 60000 released")
		}},
		{"the month is dropped", func(f *fixture) {
			f.upload(60_000)
			_, h := f.all()
			f.env.Clock.Set(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
			f.want("")
			_, err := f.holds.Decide(f.t.Context(), holds.Decision{ID: h.ID, State: released, Score: 60_000, Reason: "seen", By: "alice"})
			check(f.t, "code", models.CodeOf(err), models.CodeNotFound)
			check(f.t, "purged", testenv.Must(f.holds.Purge(f.t.Context())), 1)
		}},
		{"a correction", func(f *fixture) {
			f.upload(8_000)
			f.upload(60_000)
			lower, day := int64(5_000), today
			entry := testenv.Must(f.corrections.Create(f.t.Context(), corrections.Request{
				Board: "steps", Date: &day, User: "1", Kind: models.CorrectionSet, Score: &lower, Reason: "r", Actor: "alice",
			}))
			f.want("60000 +0s 5000 open")
			f.decide(released, 60_000)
			f.want("60000 +0s 5000 released")
			testenv.Must(f.corrections.Lift(f.t.Context(), corrections.Lifting{ID: entry.ID, Reason: "r", Actor: "alice"}))
			f.want("60000 +0s 60000 released")
		}},
		{"the writer is away", func(f *fixture) {
			f.upload(60_000)
			_, h := f.all()
			f.away = errors.New("away")
			h = testenv.Must(f.holds.Decide(f.t.Context(), holds.Decision{ID: h.ID, State: released, Score: 60_000, Reason: "seen", By: "alice"}))
			check(f.t, "released", fmt.Sprint(h.State, h.WrittenAt, h.Counting), "released<nil> <nil>")
			if _, err := f.holds.Write(f.t.Context()); err == nil {
				f.t.Error("what can't be written is")
			}
			f.away = nil
			f.want("60000 +0s - released")
			check(f.t, "written", testenv.Must(f.holds.Write(f.t.Context())), 1)
			check(f.t, "written again", testenv.Must(f.holds.Write(f.t.Context())), 0)
			f.want("60000 +0s 60000 released")
		}},
		{"erased at each step", func(f *fixture) {
			erase := f.store.Subject().Erase
			f.upload(60_000)
			check(f.t, "erased", testenv.Must(erase(f.t.Context(), 1)), 1)
			f.want("")
			f.upload(60_000)
			_, h := f.all()
			f.away = errors.New("away")
			testenv.Must(f.holds.Decide(f.t.Context(), holds.Decision{ID: h.ID, State: released, Score: 60_000, Reason: "seen", By: "alice"}))
			check(f.t, "erased", testenv.Must(erase(f.t.Context(), 1)), 1)
			f.away = nil
			check(f.t, "written", testenv.Must(f.holds.Write(f.t.Context())), 0)
			// A process that has not heard of an erasure stores nothing.
			err := f.env.Gorm.Exec(`INSERT INTO erasures (row_id, user_id, user_hash, begun_at, sweeps, removed, hidings, requests_sent, moved)
				VALUES (1, '1', ?, ?, 0, 0, 0, 0, ?)`, []byte("x"), testenv.Noon, false).Error
			if err != nil {
				f.t.Fatal(err)
			}
			check(f.t, "held", f.upload(60_000), []bool{true})
			f.want("")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, env *testenv.Env) { tt.do(newFixture(t, env)) })
		})
	}
}

// A batch holds the totals of many users and days in one statement, each user's largest.
func TestABatch(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		var uploads []ingest.Upload
		for user := 1; user <= 1000; user++ {
			for i, day := range []models.Date{today, today - 1} {
				uploads = append(uploads, ingest.Upload{User: testenv.ID(user), Date: day, Score: int64(49_500 + user - 500*i)})
			}
		}
		accepted, _, err := f.ingest.AcceptBatch(t.Context(), "steps", uploads)
		if err != nil {
			t.Fatal(err)
		}
		held := 0
		for _, a := range accepted {
			if a.Held != (a.Score > holdAbove) || a.Score != uploads[a.Index].Score {
				t.Fatalf("%+v", a)
			}
			if a.Held {
				held++
			}
		}
		list := testenv.Must(f.holds.List(t.Context(), holds.Query{State: open, Limit: 2000}))
		waiting := testenv.Must(f.holds.Waiting(t.Context()))
		if held != 500 || len(list) != held || waiting["steps"] != (holds.Waiting{Open: 500}) {
			t.Errorf("%d are held, %d are listed, %v wait", held, len(list), waiting)
		}
		env.Clock.Advance(time.Hour)
		check(t, "oldest", testenv.Must(f.holds.Waiting(t.Context()))["steps"].Oldest, time.Hour)
		check(t, "on the board", testenv.Must(f.boards.Counts(t.Context(), []*models.Bucket{f.bucket()})), []int64{500})
	})
}

// Uploads and decisions at the same time end in one of two ways: the larger total came first, and the
// release is refused, or it counts.
func TestUploadsDuringDecisions(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		f.upload(60_000)
		_, h := f.all()
		done := make(chan error, 1)
		go func() {
			_, err := f.holds.Decide(context.Background(), holds.Decision{ID: h.ID, State: released, Score: 60_000, Reason: "seen", By: "alice"})
			done <- err
		}()
		held := f.upload(70_000)[0]
		err := testenv.Receive(t, "the decision", done)
		if changed := models.CodeOf(err) == models.CodeHoldChanged; changed != held || err != nil && !changed {
			t.Fatalf("held: %v, decided: %v", held, err)
		}
		if held {
			f.want("70000 +0s - open")
		} else {
			f.want("60000 +0s 70000 released")
		}
	})
}

// Without SQL, only calls with a total above the limit fail.
func TestWithoutSQL(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		users := testenv.Numbers{}
		writer := ingest.Direct(f.boards, func(store ingest.Store) ingest.Store { return store })
		t.Cleanup(writer.Close)
		away := ingest.New(f.catalog, users, holdsAway{}, writer, env.Clock.Now)
		f.upload(1)
		for value, want := range map[int64]models.Code{holdAbove: "", holdAbove + 1: models.CodeUnavailable} {
			_, _, err := away.Accept(t.Context(), "steps", []ingest.Upload{{User: "1", Date: today, Score: value}, {User: "1", Date: today - 1, Score: 7}})
			if models.CodeOf(err) != want {
				t.Errorf("%d: %v", value, err)
			}
		}
	})
}

// holdsAway is a ingest.Holds whose SQL does not respond.
type holdsAway struct{}

func (holdsAway) Hold(context.Context, string, models.Timestamp, []ingest.HeldTotal) (map[ingest.HeldKey]bool, error) {
	return nil, models.Unavailable("hold totals", errors.New("away"))
}

// The texts of decisions can be stored and shown.
func TestTexts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testenv.Local(t))
	f.upload(60_000)
	_, h := f.all()
	for i, d := range []holds.Decision{
		{Reason: ""}, {Reason: "a\nb"}, {Reason: "\xff"}, {Reason: strings.Repeat("x", 501)},
		{Reason: "x", Message: "\x00"}, {Reason: "x", Message: strings.Repeat("步", 201)},
	} {
		d.ID, d.State, d.Score, d.By = h.ID, released, 60_000, "alice"
		if _, err := f.holds.Decide(t.Context(), d); models.CodeOf(err) != models.CodeValidationFailed {
			t.Errorf("%d: %v", i, err)
		}
	}
	d := holds.Decision{ID: h.ID, State: rejected, Score: 60_000, Reason: "x", Message: strings.Repeat("步", 200), By: "alice"}
	check(t, "message", testenv.Must(f.holds.Decide(t.Context(), d)).Message, d.Message)
}
