package erasure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/results"
	"stepboard/services/boards/score"
	"stepboard/services/operations/erasure"
	"stepboard/services/people/directory"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/outcomes"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a process with a board of days and an event. It erases users, of whom only scores and
// corrections are stored, and hears of their erasures at once.
type fixture struct {
	testenv.Numbers

	t           testing.TB
	env         *testenv.Env
	catalog     *catalog.Catalog
	boards      board.Entries
	archive     *archive.Service
	increments  *ledger.Service
	corrections *corrections.Service
	events      *results.Events
	service     *erasure.Service
	erased      models.RowSet
}

func newFixture(t testing.TB, env *testenv.Env) *fixture {
	t.Helper()
	testenv.NumberUsers(t, env, 20)
	f := &fixture{
		t: t, env: env, Numbers: testenv.Numbers{DB: env.Gorm},
		catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
	}
	rules := corrections.NewRules(&f.erased)
	f.boards = servicetest.Entries(env, env.Clock.Now, rules)
	start, end := env.Clock.Now(), env.Clock.Now().Add(12*time.Hour)
	gifts := models.Board{
		Name: "gifts", Kind: models.KindEvent, TimeZone: "UTC", MaxScore: 100_000, Shards: 2, Global: models.AudienceUsers,
		StartsAt: &start, EndsAt: &end,
	}
	if err := f.catalog.Definitions.Define(t.Context(), append(env.Config.BoardDefinitions(), gifts)); err != nil {
		t.Fatal(err)
	}
	outbox := outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, env.Clock.Now)
	f.events = results.NewEvents(outbox, env.Gorm, env.Clock.Now)
	f.archive = archive.New(archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool, Outbox: outbox}), servicetest.Source(f.boards), lease.NewLocal(),
		env.Clock.Now, env.Log)
	t.Cleanup(f.archive.Close)
	totals, decided := ledger.NewStore(env.Gorm, env.Gorm, env.Pool), corrections.NewStore(env.Gorm, env.Gorm, nil)
	f.increments = ledger.New(totals, f.catalog.Buckets, testenv.Numbers{}, f.boards, env.Clock.Now, env.Log)
	t.Cleanup(f.increments.Close)
	f.corrections = corrections.New(corrections.Options{
		Store: decided, Rules: rules, Catalog: f.catalog, Entries: f.boards, Archive: f.archive,
		Ledger: ledger.NewReconciler(ledger.ReconcilerOptions{
			Store: totals, Totals: f.catalog.Buckets, Entries: f.boards, Archived: f.archive.Complete, Clock: env.Clock.Now, Log: env.Log,
		}),
		Directory: f, Clock: env.Clock.Now, Log: env.Log,
	})
	if err := f.corrections.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	store := erasure.NewStore(env.Gorm, env.Gorm)
	f.service = erasure.New(erasure.Options{
		Store: store, Directory: f, Entries: f.boards, Pending: decided.Pending, Clock: env.Clock.Now, Log: env.Log,
		Subjects: []models.Subject{
			erasure.Scores(store, f.boards, env.Clock.Now), f.archive.Subject(), totals.Subject(), f.corrections.Subject(),
			ingest.NewDeadLetterStore(env.Gorm).Subject(), outcomes.NewStore(env.Gorm, results.Topic(f)).Subject(),
		},
	})
	return f
}

// Forget implements erasure.Directory.
func (f *fixture) Forget(_ context.Context, _ models.UserID, row models.RowID) {
	f.erased.Add(row)
}

// DropCopies implements erasure.Directory.
func (f *fixture) DropCopies(context.Context, ...directory.Erased) (int64, error) { return 0, nil }

// begin erases users. What is stored about them stays until sweep.
func (f *fixture) begin(users ...models.RowID) {
	f.t.Helper()
	for _, user := range users {
		if _, err := f.service.Begin(f.t.Context(), testenv.ID(user), false); err != nil {
			f.t.Fatal(err)
		}
	}
}

// sweep removes what is stored about erased users until nothing is left.
func (f *fixture) sweep() {
	f.t.Helper()
	for range 4 {
		if _, err := f.service.Run(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		f.env.Clock.Advance(time.Minute)
	}
	if n, _, err := f.service.Unfinished(f.t.Context()); err != nil || n != 0 {
		f.t.Errorf("%d erasures are not finished, %v", n, err)
	}
}

// bucket returns the present bucket of a board.
func (f *fixture) bucket(board string) *models.Bucket {
	f.t.Helper()
	b, now := testenv.Must(f.catalog.Definitions.Board(board)), f.env.Clock.Now()
	if board == "gifts" {
		return testenv.Must(f.catalog.Buckets.Resolve(b, nil, now, models.UTCOffset{}))
	}
	return testenv.Must(f.catalog.Buckets.ForImport(f.t.Context(), b, b.Today(now), now))
}

// add counts an increment of the event.
func (f *fixture) add(user models.RowID, delta int64) {
	f.t.Helper()
	increment := ledger.Increment{User: testenv.ID(user), Amount: delta, EventID: fmt.Sprint(user)}
	added, err := f.increments.Add(f.t.Context(), "gifts", []ledger.Increment{increment})
	if err != nil || added[0].Err != nil {
		f.t.Fatal(err, added)
	}
}

// raise reports a total of a day.
func (f *fixture) raise(b *models.Bucket, user models.RowID, points int64) {
	f.t.Helper()
	composite := testenv.Must(score.Of(b).Encode(b.Points(points), models.TimestampOf(f.env.Clock.Now())))
	raise := models.Raise{Bucket: b, Entry: models.Entry{User: user, Composite: composite}}
	if errs := f.boards.Raise(f.t.Context(), []models.Raise{raise}); errs != nil {
		f.t.Fatal(errs)
	}
}

// exclude returns the request to exclude a user from a bucket.
func exclude(b *models.Bucket, user models.RowID) corrections.Request {
	r := corrections.Request{Board: b.Board, User: testenv.ID(user), Kind: models.CorrectionExclude, Reason: "shaken", Actor: "ann"}
	if !b.FromLedger {
		r.Date = &b.Day
	}
	return r
}

// set returns the request to lower a user's score in a bucket.
func set(b *models.Bucket, user models.RowID, points int64) corrections.Request {
	r := exclude(b, user)
	r.Kind, r.Score = models.CorrectionSet, &points
	return r
}

func (f *fixture) create(r corrections.Request) corrections.Entry {
	f.t.Helper()
	c, err := f.corrections.Create(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) lift(id int64) {
	f.t.Helper()
	if _, err := f.corrections.Lift(f.t.Context(), corrections.Lifting{ID: id, Reason: "a mistake", Actor: "bob"}); err != nil {
		f.t.Fatal(err)
	}
}

// archiveDay archives a bucket, or makes a further run, and returns the run.
func (f *fixture) archiveDay(b *models.Bucket) models.ArchiveRun {
	f.t.Helper()
	if from := b.ColdAt.Add(time.Hour); f.env.Clock.Now().Before(from) {
		f.env.Clock.Set(from)
	}
	testenv.Finish(f.t, f.catalog.Buckets, b)
	run, err := f.archive.Archive(f.t.Context(), b, func(int64) {})
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

// line returns rank, user and score of a row; "nobody" for a user who was erased.
func line(i int, user models.RowID, points int64) string {
	name := user.String()
	if user >= models.FirstNobody {
		name = "nobody"
	}
	return fmt.Sprintf("%d. %s %d", i+1, name, points)
}

// checkArchived checks the rows of an archived bucket.
func (f *fixture) checkArchived(when string, b *models.Bucket, want ...string) {
	f.t.Helper()
	w, err := f.archive.Window(f.t.Context(), b, board.Top, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for i, e := range w.Behind {
		points, _ := score.Of(b).Decode(e.Composite)
		got = append(got, line(i, e.User, b.Score(points)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// checkNothingPending checks that no run follows and all corrections are applied.
func (f *fixture) checkNothingPending(b *models.Bucket) {
	f.t.Helper()
	last := f.archiveDay(b)
	if again := f.archiveDay(b); again.Run != last.Run {
		f.t.Errorf("a run %d follows run %d", again.Run, last.Run)
	}
	list, err := f.corrections.List(f.t.Context(), corrections.Query{Limit: 100})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range list {
		if c.Pending {
			f.t.Errorf("pending: %+v", c)
		}
	}
}

// results returns the results in the outbox, oldest first: revision, entries, sum, and the rank,
// user and score of each.
func (f *fixture) results() (list []string) {
	f.t.Helper()
	var payloads []string
	err := f.env.Gorm.Raw(`SELECT payload FROM webhook_deliveries WHERE type = 'board.final' ORDER BY id`).Scan(&payloads).Error
	if err != nil {
		f.t.Fatal(err)
	}
	for _, payload := range payloads {
		var final results.Final
		if err := json.Unmarshal([]byte(payload), &final); err != nil {
			f.t.Fatal(err)
		}
		var rows []string
		for i, e := range final.Top {
			rows = append(rows, line(i, e.User, e.Score))
		}
		list = append(list, fmt.Sprint("revision ", final.Revision, ": ", final.Total, " entries, sum ", final.ScoreSum, " ", rows))
	}
	return list
}

func (f *fixture) checkResults(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.results()); diff != "" {
		f.t.Errorf("%s: results (-want +got):\n%s", when, diff)
	}
}

// correctSix corrects the scores of users 3 to 6, who have 100 each for their row: 6 is
// lowered, 5 is excluded, 4 was lowered for a time, and 3 is lowered by the returned correction.
func (f *fixture) correctSix(b *models.Bucket) corrections.Entry {
	f.t.Helper()
	f.env.Clock.Advance(time.Minute)
	f.create(set(b, 6, 150))
	f.create(exclude(b, 5))
	f.lift(f.create(set(b, 4, 50)).ID)
	return f.create(set(b, 3, 250))
}

// newCorrectedEvent starts an event in which the users 1 to 6 have scores, and corrects them.
// lowered is the correction of user 3.
func newCorrectedEvent(t *testing.T, env *testenv.Env) (f *fixture, b *models.Bucket, lowered corrections.Entry) {
	t.Helper()
	f = newFixture(t, env)
	b = f.bucket("gifts")
	for user := range models.RowID(6) {
		f.add(user+1, 100*int64(user+1))
	}
	return f, b, f.correctSix(b)
}

// An event that has ended is final without users who were erased, whether their scores were
// corrected or not: its results, its archive, and later runs agree on the figures.
func TestErasedUsersOfACorrectedEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, b, lowered := newCorrectedEvent(t, env)
		announce := func(when string, want ...string) {
			t.Helper()
			if _, err := f.events.Announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.checkResults(when, want...)
		}
		env.Clock.Set(b.EndsAt)
		testenv.Finish(f.t, f.catalog.Buckets, b)
		announce("final", "revision 1: 5 entries, sum 1100 [1. 4 400 2. 3 250 3. 2 200 4. 6 150 5. 1 100]")
		f.begin(6, 5, 4)
		f.sweep()
		const first = "revision 1: 5 entries, sum 1100 [1. 0 400 2. 3 250 3. 2 200 4. 0 150 5. 1 100]"
		const second = "revision 2: 3 entries, sum 550 [1. 3 250 2. 2 200 3. 1 100]"
		announce("erased", first, second)
		announce("erased, again", first, second)
		f.archiveDay(b)
		f.checkArchived("archived", b, "1. 3 250", "2. 2 200", "3. 1 100")
		f.lift(lowered.ID)
		f.archiveDay(b)
		f.checkArchived("lifted", b, "1. 3 300", "2. 2 200", "3. 1 100")
		f.checkResults("lifted", first, second, "revision 3: 3 entries, sum 600 [1. 3 300 2. 2 200 3. 1 100]")
	})
}

// An erasure that has begun, and has removed nothing yet, leaves the user out of the result
// of an event and out of the archive, whether the score was corrected or not.
func TestArchivedWhileAnErasureBegins(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		event, day := f.bucket("gifts"), f.bucket("steps")
		for user := range models.RowID(6) {
			f.add(user+1, 100*int64(user+1))
			f.raise(day, user+1, 100*int64(user+1))
		}
		lowered := f.correctSix(event)
		f.correctSix(day)
		env.Clock.Set(event.EndsAt)
		testenv.Finish(f.t, f.catalog.Buckets, event)
		f.begin(6, 5, 4)
		if _, err := f.events.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		const first = "revision 1: 3 entries, sum 550 [1. 3 250 2. 2 200 3. 1 100]"
		f.checkResults("the event has ended", first)
		for _, b := range []*models.Bucket{day, event} {
			f.archiveDay(b)
			f.checkArchived(b.Board, b, "1. 3 250", "2. 2 200", "3. 1 100")
		}
		f.sweep()
		f.lift(lowered.ID)
		f.archiveDay(event)
		f.checkArchived("lifted", event, "1. 3 300", "2. 2 200", "3. 1 100")
	})
}

// The line of an erased user in an archived event stays as it was corrected, without a user,
// in all later runs and results.
func TestErasedUserOfAnArchivedEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, b, lowered := newCorrectedEvent(t, env)
		run := f.archiveDay(b)
		f.begin(6, 5, 4)
		f.sweep()
		lines := []string{"1. nobody 400", "2. 3 250", "3. 2 200", "4. nobody 150", "5. 1 100"}
		f.checkArchived("erased", b, lines...)
		f.checkNothingPending(b)
		f.lift(lowered.ID)
		again := f.archiveDay(b)
		lines[1] = "2. 3 300"
		f.checkArchived("lifted", b, lines...)
		if again.Entries != run.Entries || again.PointsSum != run.PointsSum+50 {
			t.Errorf("the run has %+v, the first %+v", again, run)
		}
		f.checkNothingPending(b)
		last := "revision 2: 5 entries, sum 1150 [1. nobody 400 2. 3 300 3. 2 200 4. nobody 150 5. 1 100]"
		if results := f.results(); results[len(results)-1] != last {
			t.Errorf("the results are %q, want the last to be %s", results, last)
		}
	})
}
