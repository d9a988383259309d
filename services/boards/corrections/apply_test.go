package corrections_test

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// A process that does not know of a correction yet raises the board. The job repairs it,
// and lifting gives back the best of what was reported, by whomever.
func TestAProcessLearnsLate(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, kind := range []models.CorrectionKind{models.CorrectionSet, models.CorrectionExclude} {
			f := newFixture(t, env)
			b := f.today()
			user, corrected := models.RowID(1), int64(9_000)
			request := set(1, b.Day, 9_000)
			if kind == models.CorrectionExclude {
				user, corrected, request = 2, -1, exclude(2, b.Day)
			}
			late := f.newProcess()
			f.raise(b, user, 50_000)
			c := f.create(request)
			f.later(time.Second)
			late.raise(b, user, 60_000)
			if got := f.shown(b, user); got != 60_000 {
				t.Errorf("%s: the process that does not know has raised the board to %d", kind, got)
			}
			f.raise(b, user, 55_000)
			if n := f.apply(); n != 1 {
				t.Errorf("%s: the job has changed %d entries", kind, n)
			}
			if n := f.apply(); n != 0 {
				t.Errorf("%s: the job has changed %d entries again", kind, n)
			}
			if got := f.shown(b, user); got != corrected {
				t.Errorf("%s: the board has %d", kind, got)
			}
			late.refresh()
			late.raise(b, user, 70_000)
			if got := f.shown(b, user); got != corrected {
				t.Errorf("%s: after a report that is kept apart the board has %d", kind, got)
			}
			f.lift(c.ID)
			if got := f.shown(b, user); got != 70_000 {
				t.Errorf("%s: after lifting the board has %d", kind, got)
			}
			// A process that has not heard of the lifting keeps reports apart.
			late.raise(b, user, 80_000)
			f.apply()
			if got := f.shown(b, user); got != 80_000 {
				t.Errorf("%s: the job has raised the board to %d", kind, got)
			}
		}
	})
}

// An exclusion without a day holds on the day it was made and on later ones, until it is
// lifted; all of them get back what was reported.
func TestExcludedFromNowOn(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		yesterday, today := f.day(-1), f.today()
		f.raise(yesterday, 1, 1_000)
		f.raise(today, 1, 2_000)
		c := f.create(excludeFromNow(1))
		f.later(24 * time.Hour)
		tomorrow := f.today()
		f.raise(tomorrow, 1, 3_000)
		f.apply()
		for _, tt := range []struct {
			b    *models.Bucket
			want int64
		}{{yesterday, 1_000}, {today, -1}, {tomorrow, -1}} {
			if got := f.shown(tt.b, 1); got != tt.want {
				t.Errorf("%s: %d, want %d", tt.b.Name, got, tt.want)
			}
		}
		f.lift(c.ID)
		if a, b := f.shown(today, 1), f.shown(tomorrow, 1); a != 2_000 || b != 3_000 {
			t.Errorf("after lifting: %d and %d", a, b)
		}
	})
}
