package corrections_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/recovery"
	"stepboard/services/servicetest"
)

// window is how many hours count on the rolling board of these tests.
const window = 3

// newLedgerFixture returns a fixture that has an event and a rolling board, too, to whose
// totals the first process adds.
func newLedgerFixture(t testing.TB, env *testenv.Env) *fixture {
	t.Helper()
	start, end := env.Clock.Now(), env.Clock.Now().Add(12*time.Hour)
	def := func(name string, kind models.Kind) models.Board {
		return models.Board{
			Name: name, Kind: kind, TimeZone: "UTC", MaxScore: 100_000, Shards: 2, Global: models.AudienceUsers,
		}
	}
	gifts, active := def("gifts", models.KindEvent), def("active", models.KindRolling)
	gifts.StartsAt, gifts.EndsAt, gifts.ChangeStream, active.WindowHours = &start, &end, true, window
	return newFixture(t, env, gifts, active)
}

// only returns the only bucket of a board without days.
func (f *fixture) only(board string) *models.Bucket {
	f.t.Helper()
	b := testenv.Must(f.catalog.Definitions.Board(board))
	bucket := testenv.Must(f.catalog.Buckets.Resolve(b, nil, f.env.Clock.Now(), models.UTCOffset{}))
	return bucket
}

// add counts an increment.
func (p *process) add(board string, user models.RowID, delta int64, id string) {
	p.f.t.Helper()
	increment := ledger.Increment{User: testenv.ID(user), Amount: delta, Result: board == "laps", EventID: id}
	results, err := p.increments.Add(p.f.t.Context(), board, []ledger.Increment{increment})
	if err != nil || results[0].Err != nil {
		p.f.t.Fatal(err, results)
	}
}

// reconcile is a pass of the reconciler after a loss of everything.
func (p *process) reconcile() {
	p.f.t.Helper()
	if _, _, err := p.reconciler.Replay(p.f.t.Context(), recovery.Loss{Extent: recovery.EverythingLost}); err != nil {
		p.f.t.Fatal(err)
	}
}

// forget empties Redis. A data folder's process begins anew instead, with what was reported.
func (f *fixture) forget() {
	f.t.Helper()
	servicetest.Forget(f.t, f.env)
	if local, ok := f.boards.(*board.Local); ok {
		if err := local.Load(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
}

// on returns a request for another board without days.
func on(board string, r corrections.Request) corrections.Request {
	r.Board, r.Date = board, nil
	return r
}

// A correction on an event or a rolling board holds whatever is counted, by processes that
// know of it and by those that do not, and whatever Redis loses. Lifting it gives back all
// that was counted.
func TestCorrectWhatIsCounted(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newLedgerFixture(t, env)
		late := f.newProcess()
		for _, tt := range []struct {
			request   corrections.Request
			corrected int64
		}{
			{on("gifts", set(1, 0, 200)), 200},
			{on("gifts", exclude(2, 0)), -1},
			{on("active", exclude(1, 0)), -1},
		} {
			user := models.RowID(1)
			if tt.request.User == testenv.ID(2) {
				user = 2
			}
			id := func(n int) string { return fmt.Sprintf("%d-%s-%d", user, tt.request.Kind, n) }
			name := tt.request.Board
			b := f.only(name)
			f.add(name, user, 500, id(1))
			f.later(time.Minute)
			c := f.create(tt.request)
			if *c.BeforeScore != 500 || c.Days || c.Pending || *c.Bucket != b.Name {
				t.Errorf("%s: created %+v", name, c)
			}
			check := func(when string, want int64) {
				t.Helper()
				if got := f.shown(b, user); got != want {
					t.Errorf("%s, %s, %s: the board has %d, want %d", name, tt.request.Kind, when, got, want)
				}
			}
			check("at once", tt.corrected)
			f.add(name, user, 10, id(2))
			f.add(name, user, 500, id(1)) // sent again
			check("after an increment", tt.corrected)
			late.add(name, user, 10, id(3))
			check("after an increment of a process that does not know", 520)
			late.reconcile()
			f.apply()
			check("after the job", tt.corrected)
			if n := f.apply(); n != 0 {
				t.Errorf("%s: the job has changed %d entries again", name, n)
			}
			late.refresh()
			late.add(name, user, 10, id(4))
			late.reconcile()
			check("after reconciling", tt.corrected)
			f.forget()
			f.reconcile()
			f.apply()
			check("after Redis was emptied", tt.corrected)
			if _, err := f.reconciler.Rebuild(t.Context(), func(int64) {}); err != nil {
				t.Fatal(err)
			}
			check("after a rebuild", tt.corrected)
			f.lift(c.ID)
			check("lifted", 530)
			late.add(name, user, 10, id(5)) // it has not heard of the lifting
			f.apply()
			check("after the job has run again", 540)
			f.forget()
			f.reconcile()
			check("lifted, after Redis was emptied", 540)
		}
	})
}

// What was counted while a user was excluded from a rolling board counts again for the rest
// of its hours. Once all these hours have left the window, no process reads the correction any more.
func TestLiftedExclusionFromARollingBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newLedgerFixture(t, env)
		b := f.only("active")
		f.add("active", 1, 100, "a")
		c := f.create(on("active", exclude(1, 0)))
		f.later(time.Hour)
		f.add("active", 1, 20, "b")
		f.lift(c.ID)
		if got := f.shown(b, 1); got != 120 {
			t.Errorf("after lifting the board has %d", got)
		}
		f.later((window - 1) * time.Hour)
		if _, err := f.boards.Drain(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := f.shown(b, 1); got != 20 {
			t.Errorf("after the first hour has left the window the board has %d", got)
		}
		hot := func() (n int64) {
			t.Helper()
			f.apply()
			if err := env.Gorm.Model(&models.Correction{}).Where("hot").Count(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := hot(); n != 1 {
			t.Errorf("%d corrections are read while hours of it count", n)
		}
		f.later(3 * time.Hour)
		if n := hot(); n != 0 {
			t.Errorf("%d corrections are read afterwards", n)
		}
	})
}

// What can't be corrected on boards without days is refused.
func TestRefusedWithoutDays(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newLedgerFixture(t, env)
		dated := on("gifts", exclude(1, 0))
		day := f.today().Day
		dated.Date = &day
		for _, tt := range []struct {
			name string
			r    corrections.Request
			want models.Code
		}{
			{"more than nothing", on("gifts", set(1, 0, 0)), models.CodeCorrectionRaises},
			{"a date", dated, models.CodeBoardKind},
			{"a score of a rolling board", on("active", set(1, 0, 1)), models.CodeBoardKind},
		} {
			if _, err := f.corrections.Create(t.Context(), tt.r); models.CodeOf(err) != tt.want {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
		}
		f.add("gifts", 1, 100, "a")
		if _, err := f.corrections.Create(t.Context(), on("gifts", set(1, 0, 101))); models.CodeOf(err) != models.CodeCorrectionRaises {
			t.Errorf("more than was counted: %v", err)
		}
		f.create(on("gifts", set(1, 0, 100)))
		if _, err := f.corrections.Create(t.Context(), on("gifts", exclude(1, 0))); models.CodeOf(err) != models.CodeCorrectionExists {
			t.Errorf("a second one: %v", err)
		}
	})
}

// The archive of an event has the corrections, and later runs apply those that are made or
// lifted afterwards, also when the ledger has deleted the totals and whatever Redis has.
func TestArchivedEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newLedgerFixture(t, env)
		b := f.only("gifts")
		for user := range models.RowID(4) {
			f.add("gifts", user+1, 100*int64(user+1), fmt.Sprint(user))
		}
		f.later(time.Minute)
		lowered, excluded := f.create(on("gifts", set(4, 0, 150))), f.create(on("gifts", exclude(3, 0)))
		f.add("gifts", 3, 50, "more")
		run := f.archiveDay(b)
		f.checkArchived("after the first run", b, "1. 2 200", "2. 4 150", "3. 1 100")
		if run.Moved != 4 || run.Entries != 3 || run.PointsSum != 450 {
			t.Errorf("the run has %+v", run)
		}
		if err := env.Gorm.Exec(`DELETE FROM score_totals WHERE board = 'gifts'`).Error; err != nil {
			t.Fatal(err)
		}
		f.raise(b, 1, 9_000) // nothing of Redis counts
		if c := f.lift(lowered.ID); !c.Pending {
			t.Error("lifting is not pending")
		}
		if c := f.create(on("gifts", set(2, 0, 20))); !c.Pending || *c.BeforeScore != 200 {
			t.Errorf("created %+v", c)
		}
		due := testenv.Must(f.archive.Due(t.Context()))
		at := slices.IndexFunc(due, func(b *models.Bucket) bool { return b.Board == "gifts" })
		if at < 0 || !due[at].FromLedger {
			t.Fatalf("due are %v", due)
		}
		b = due[at]
		if run := f.archiveDay(b); run.Run != 2 || run.Moved != 0 || run.PointsSum != 520 {
			t.Errorf("the run has %+v", run)
		}
		f.checkArchived("after the second run", b, "1. 4 400", "2. 1 100", "3. 2 20")
		f.lift(excluded.ID)
		f.archiveDay(b)
		f.checkArchived("after the third run", b, "1. 4 400", "2. 3 350", "3. 1 100", "4. 2 20")
		f.checkNothingPending(b)
		f.refresh()
		if n := f.corrections.Held(); n != 0 {
			t.Errorf("%d corrections are held for buckets in Redis", n)
		}
	})
}
