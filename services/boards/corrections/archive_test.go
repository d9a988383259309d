package corrections_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/corrections"
)

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

// archived returns rank, user and score of each row of an archived bucket.
func (f *fixture) archived(b *models.Bucket) (rows []string) {
	f.t.Helper()
	w, err := f.archive.Window(f.t.Context(), b, board.Top, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	for i, e := range w.Behind {
		rows = append(rows, fmt.Sprintf("%d. %s %d", i+1, e.User, points(b, e.Composite)))
	}
	return rows
}

func (f *fixture) checkArchived(when string, b *models.Bucket, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.archived(b)); diff != "" {
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

// A decision about a day waits for a run that has read the day's corrections already, and is then
// pending, so that another run applies it.
func TestADecisionWaitsForARun(t *testing.T) {
	t.Parallel()
	decisions := map[string]struct {
		decide func(p *process, day models.Date, excluded int64) (corrections.Entry, error)
		want   []string
	}{
		"create": {func(p *process, day models.Date, _ int64) (corrections.Entry, error) {
			return p.corrections.Create(p.f.t.Context(), exclude(2, day))
		}, []string{"1. 1 1000"}},
		"lift": {func(p *process, _ models.Date, excluded int64) (corrections.Entry, error) {
			return p.corrections.Lift(p.f.t.Context(), corrections.Lifting{ID: excluded, Actor: "ann", Reason: "was real"})
		}, []string{"1. 3 3000", "2. 2 2000", "3. 1 1000"}},
	}
	for name, decision := range decisions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			f := newFixture(t, env)
			f.archiveDay(f.day(-9)) // makes the month's partition
			b := f.today()
			for user := range models.RowID(3) {
				f.raise(b, user+1, 1_000*int64(user+1))
			}
			excluded := f.create(exclude(3, b.Day)).ID
			env.Clock.Set(b.ColdAt.Add(time.Hour))
			rows := env.Gorm.Begin()
			defer rows.Rollback()
			if err := rows.Exec(`LOCK TABLE archived_scores IN SHARE MODE`).Error; err != nil { // nobody may write
				t.Fatal(err)
			}
			var runErr, err error
			var decided corrections.Entry
			calls := []chan struct{}{
				testenv.Behind(t, env, rows, 1, func() { _, runErr = f.archive.Archive(t.Context(), b, func(int64) {}) }),
				testenv.Behind(t, env, rows, 2, func() { decided, err = decision.decide(f.process, b.Day, excluded) }),
			}
			rows.Rollback()
			for _, ended := range calls {
				testenv.Receive(t, "the call ends", ended)
			}
			if runErr != nil || err != nil || !decided.Pending {
				t.Errorf("the run: %v; the decision: %+v, %v", runErr, decided, err)
			}
			f.archiveDay(b)
			f.checkArchived("after another run", b, decision.want...)
			f.checkNothingPending(b)
		})
	}
}

// A correction of an archived day is pending until a run has applied it.
func TestCorrectAnArchivedDay(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b := f.today()
		for user := range models.RowID(3) {
			f.raise(b, user+1, 1_000*int64(user+1))
		}
		f.archiveDay(b)
		c := f.create(set(3, b.Day, 1_000))
		if !c.Pending || *c.BeforeScore != 3_000 || c.ReachedAt.After(b.ClosesAt) {
			t.Errorf("created %+v", c)
		}
		due := testenv.Must(f.corrections.PendingBuckets(t.Context()))
		if len(due) != 1 || due[0].Name != b.Name {
			t.Errorf("pending are %v", due)
		}
		f.archiveDay(b)
		f.checkArchived("lowered", b, "1. 2 2000", "2. 1 1000", "3. 3 1000")
		f.lift(c.ID)
		f.create(exclude(3, b.Day))
		f.archiveDay(b)
		f.checkArchived("excluded", b, "1. 2 2000", "2. 1 1000")
		if due := testenv.Must(f.archive.Due(t.Context())); len(due) > 0 {
			t.Errorf("%s has entries that are not archived", due[0].Name)
		}
		f.checkNothingPending(b)
		if _, err := f.corrections.Create(t.Context(), set(2, b.Day, 2_001)); models.CodeOf(err) != models.CodeCorrectionRaises {
			t.Errorf("raised: %v", err)
		}
	})
}

// Lifting an exclusion of several days takes a run for each day that is archived.
func TestLiftAnArchivedExclusion(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		first := f.today()
		c := f.create(excludeFromNow(1))
		f.raise(first, 1, 1_000)
		f.raise(first, 2, 500)
		f.later(24 * time.Hour)
		second := f.today()
		f.raise(second, 1, 2_000)
		f.archiveDay(first)
		f.archiveDay(second)
		today := f.today()
		f.raise(today, 1, 3_000)
		f.checkArchived("excluded", first, "1. 2 500")
		f.checkArchived("excluded", second)
		if c := f.lift(c.ID); !c.Pending {
			t.Error("lifting is not pending")
		}
		if got := f.shown(today, 1); got != 3_000 {
			t.Errorf("today has %d", got)
		}
		due := testenv.Must(f.corrections.PendingBuckets(t.Context()))
		if len(due) != 2 {
			t.Fatalf("pending are %v", due)
		}
		for _, b := range due {
			f.archiveDay(b)
		}
		f.checkArchived("lifted", first, "1. 1 1000", "2. 2 500")
		f.checkArchived("lifted", second, "1. 1 2000")
		f.checkNothingPending(second)
		// Once the days that it concerned are archived, no process reads it any more.
		f.archiveDay(today)
		for range 2 {
			f.later(24 * time.Hour)
			f.archiveDay(f.today())
		}
		f.refresh()
		if changed := f.apply(); changed != 0 || f.corrections.Held() != 0 {
			t.Errorf("changed %d, %d hold", changed, f.corrections.Held())
		}
		var hot int64
		if err := env.Gorm.Model(&models.Correction{}).Where("hot").Count(&hot).Error; err != nil || hot != 0 {
			t.Errorf("%d hot, %v", hot, err)
		}
	})
}
