package corrections_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/results"
	"stepboard/services/operations/erasure"
	"stepboard/services/people/directory"
	"stepboard/services/platform/outcomes"
)

// eraser erases users of a fixture, of whom only scores and corrections are stored.
type eraser struct {
	testenv.Numbers

	f       *fixture
	service *erasure.Service
	erased  sync.Map // of models.RowID
}

// newEraser returns the service that erases users, of whose erasures the process hears at once.
func newEraser(f *fixture) *eraser {
	e := &eraser{Numbers: testenv.Numbers{DB: f.env.Gorm}, f: f}
	decided := corrections.NewStore(f.env.Gorm, f.env.Gorm)
	e.service = erasure.New(erasure.Options{
		Store: erasure.NewStore(f.env.Gorm, f.env.Gorm), Directory: e, Boards: f.boards, Friends: nothing{}, Privacy: nothing{},
		Groups: nothing{}, Likes: nothing{}, Reviews: nothing{}, Audit: nothing{}, Archive: f.archive, Increments: ledger.NewStore(f.env.Gorm, f.env.Pool),
		Corrections: decisions{decided}, Pending: decided.Pending, DeadLetters: ingest.NewDeadLetterStore(f.env.Gorm),
		Deliveries: outcomes.NewStore(f.env.Gorm), Clock: f.env.Clock.Now, Log: f.env.Log,
	})
	f.boards.UseErased(func(user models.RowID) bool {
		_, erased := e.erased.Load(user)
		return erased
	})
	return e
}

// Forget implements erasure.Directory.
func (e *eraser) Forget(_ context.Context, _ models.UserID, row models.RowID) {
	e.erased.Store(row, true)
}

// DropCopies implements erasure.Directory.
func (e *eraser) DropCopies(context.Context, ...directory.Erased) (int64, error) { return 0, nil }

// nothing stands for the places that these tests do not use.
type nothing struct{}

// Erase implements erasure.Eraser.
func (nothing) Erase(context.Context, models.RowID) (int64, error) { return 0, nil }

// Return implements erasure.Keeper.
func (nothing) Return(context.Context, models.RowID, models.RowID) error { return nil }

// Keeps implements erasure.Keeper.
func (nothing) Keeps(context.Context, models.RowID) (bool, error) { return false, nil }

// Forget implements erasure.Keeper.
func (nothing) Forget(context.Context, models.RowID) error { return nil }

// decisions are the corrections of a fixture, whose users never return.
type decisions struct{ *corrections.Store }

// Return implements erasure.Keeper.
func (decisions) Return(context.Context, models.RowID, models.RowID) error { return nil }

// begin erases users. What is stored about them stays until sweep.
func (e *eraser) begin(users ...models.RowID) {
	e.f.t.Helper()
	for _, user := range users {
		if _, err := e.service.Begin(e.f.t.Context(), testenv.ID(user), false); err != nil {
			e.f.t.Fatal(err)
		}
	}
}

// sweep removes what is stored about erased users until nothing is left.
func (e *eraser) sweep() {
	e.f.t.Helper()
	for range 4 {
		if _, err := e.service.Run(e.f.t.Context()); err != nil {
			e.f.t.Fatal(err)
		}
		e.f.later(time.Minute)
	}
	if n, _, err := e.service.Unfinished(e.f.t.Context()); err != nil || n != 0 {
		e.f.t.Errorf("%d erasures are not finished, %v", n, err)
	}
}

// correctSix corrects the scores of users 3 to 6, who have 100 each for their row: 6 is
// lowered, 5 is excluded, 4 was lowered for a time, and 3 is lowered by the returned correction.
func (f *fixture) correctSix(request func(corrections.Request) corrections.Request, day models.Date) corrections.Entry {
	f.t.Helper()
	f.later(time.Minute)
	f.create(request(set(6, day, 150)))
	f.create(request(exclude(5, day)))
	f.lift(f.create(request(set(4, day, 50))).ID)
	return f.create(request(set(3, day, 250)))
}

// newCorrectedEvent starts an event in which the users 1 to 6 have scores, and corrects them.
// lowered is the correction of user 3.
func newCorrectedEvent(t *testing.T, env *testenv.Env) (
	f *fixture, e *eraser, b *models.Bucket, lowered corrections.Entry,
) {
	t.Helper()
	f = newLedgerFixture(t, env)
	e, b = newEraser(f), f.only("gifts")
	for user := range models.RowID(6) {
		f.add("gifts", user+1, 100*int64(user+1), fmt.Sprint(user))
	}
	lowered = f.correctSix(func(r corrections.Request) corrections.Request { return on("gifts", r) }, 0)
	return f, e, b, lowered
}

// An event that has ended is final without users who were erased, whether their scores were
// corrected or not: its results, its archive, and later runs agree on the figures.
func TestErasedUsersOfACorrectedEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, e, b, lowered := newCorrectedEvent(t, env)
		events := results.NewEvents(f.outbox, env.Gorm, env.Clock.Now)
		announce := func(when string, want ...string) {
			t.Helper()
			if _, err := events.Announce(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.checkResults(when, want...)
		}
		env.Clock.Set(b.EndsAt.Add(time.Minute))
		announce("a minute after the end", "revision 1: 5 entries, sum 1100 [1. 4 400 2. 3 250 3. 2 200 4. 6 150 5. 1 100]")
		e.begin(6, 5, 4)
		e.sweep()
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
		f := newLedgerFixture(t, env)
		e, event, day := newEraser(f), f.only("gifts"), f.today()
		for user := range models.RowID(6) {
			f.add("gifts", user+1, 100*int64(user+1), fmt.Sprint(user))
			f.raise(day, user+1, 100*int64(user+1))
		}
		lowered := f.correctSix(func(r corrections.Request) corrections.Request { return on("gifts", r) }, 0)
		f.correctSix(func(r corrections.Request) corrections.Request { return r }, day.Day)
		env.Clock.Set(event.EndsAt.Add(time.Minute))
		e.begin(6, 5, 4)
		if _, err := results.NewEvents(f.outbox, env.Gorm, env.Clock.Now).Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		const first = "revision 1: 3 entries, sum 550 [1. 3 250 2. 2 200 3. 1 100]"
		f.checkResults("the event has ended", first)
		for _, b := range []*models.Bucket{day, event} {
			f.archiveDay(b)
			f.checkArchived(b.Board, b, "1. 3 250", "2. 2 200", "3. 1 100")
		}
		e.sweep()
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
		f, e, b, lowered := newCorrectedEvent(t, env)
		run := f.archiveDay(b)
		e.begin(6, 5, 4)
		e.sweep()
		lines := []string{"1. nobody 400", "2. 3 250", "3. 2 200", "4. nobody 150", "5. 1 100"}
		f.checkArchived("erased", b, lines...)
		f.checkNothingPending(b)
		f.lift(lowered.ID)
		again := f.archiveDay(b)
		lines[1] = "2. 3 300"
		f.checkArchived("lifted", b, lines...)
		if again.Entries != run.Entries || again.ScoreSum != run.ScoreSum+50 {
			t.Errorf("the run has %+v, the first %+v", again, run)
		}
		f.checkNothingPending(b)
		last := "revision 2: 5 entries, sum 1150 [1. nobody 400 2. 3 300 3. 2 200 4. nobody 150 5. 1 100]"
		if results := f.results(); results[len(results)-1] != last {
			t.Errorf("the results are %q, want the last to be %s", results, last)
		}
	})
}
