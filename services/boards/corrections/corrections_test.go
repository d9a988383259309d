package corrections_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
)

// A correction is stored with all that was decided, and listed, also after it was lifted.
func TestCreateLiftList(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b := f.today()
		f.raise(b, 1, 98_800)
		reached := env.Clock.Now()
		f.later(time.Minute)
		c := f.create(set(1, b.Day, 9_000))
		if c.ID == 0 || c.Pending || c.UserID != "1" || *c.BeforeScore != 98_800 || !c.BeforeAt.Equal(reached) ||
			*c.Score != 9_000 || !c.ReachedAt.Equal(env.Clock.Now()) || c.Actor != "ann" || c.Reason != "shaken" {
			t.Errorf("created %+v", c)
		}
		if got := f.shown(b, 1); got != 9_000 {
			t.Errorf("the board has %d", got)
		}
		f.later(time.Minute)
		lifted := f.lift(c.ID)
		if lifted.LiftedBy != "bob" || lifted.LiftReason != "a mistake" || !lifted.LiftedAt.Equal(env.Clock.Now()) {
			t.Errorf("lifted %+v", lifted)
		}
		if got := f.shown(b, 1); got != 98_800 {
			t.Errorf("after lifting the board has %d", got)
		}
		f.later(time.Minute)
		if again := f.lift(c.ID); !again.LiftedAt.Equal(*lifted.LiftedAt) {
			t.Errorf("lifted again at %v", again.LiftedAt)
		}
		open := f.create(excludeFromNow(2))
		if open.Bucket != nil || open.Day != b.Day || open.BeforeScore != nil {
			t.Errorf("created %+v", open)
		}
		f.checkList(corrections.Query{Limit: 9}, open.ID, c.ID)
		f.checkList(corrections.Query{Limit: 1}, open.ID)
		f.checkList(corrections.Query{Limit: 9, Before: open.ID}, c.ID)
		f.checkList(corrections.Query{Limit: 9, Active: true, Board: "steps"}, open.ID)
		f.checkList(corrections.Query{Limit: 9, User: "1"}, c.ID)
		f.checkList(corrections.Query{Limit: 9, Board: "other"})

		// Those of a day: the first is of that day only, the other one of each day until it is lifted and shortly after.
		for day, want := range map[models.Date][]int64{b.Day - 1: nil, b.Day: {open.ID, c.ID}, b.Day + 1: {open.ID}, catalog.FirstDay - 1: nil} {
			f.checkList(corrections.Query{Limit: 9, Day: &day}, want...)
		}
		f.lift(open.ID)
		for day, want := range map[models.Date][]int64{b.Day: {open.ID, c.ID}, b.Day + 40: nil} {
			f.checkList(corrections.Query{Limit: 9, Day: &day}, want...)
		}
	})
}

// checkList checks which corrections a query selects.
func (f *fixture) checkList(q corrections.Query, want ...int64) {
	f.t.Helper()
	list, err := f.corrections.List(f.t.Context(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	var got []int64
	for _, c := range list {
		got = append(got, c.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%+v (-want +got):\n%s", q, diff)
	}
}

// What can't be corrected is refused, and nothing is stored. A dry run refuses the same.
func TestRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b := f.today()
		f.raise(b, 1, 5_000)
		change := func(r corrections.Request, change func(*corrections.Request)) corrections.Request {
			change(&r)
			return r
		}
		for _, tt := range []struct {
			name string
			r    corrections.Request
			want models.Code
		}{
			{"no such board", change(exclude(1, b.Day), func(r *corrections.Request) { r.Board = "none" }), models.CodeBoardNotFound},
			{"no such user", exclude(99, b.Day), models.CodeUserNotFound},
			{"tomorrow", exclude(1, b.Day+1), models.CodeDateInFuture},
			{"a day without reports", exclude(1, b.Day-400), models.CodeNotFound},
			{"more than the user has", set(1, b.Day, 5_001), models.CodeCorrectionRaises},
			{"a user without a score", set(2, b.Day, 0), models.CodeCorrectionRaises},
			{"less than nothing", set(1, b.Day, -1), models.CodeValidationFailed},
			{"a reason with an escape sequence", change(exclude(1, b.Day), func(r *corrections.Request) { r.Reason = "a\x1b[31mb" }), models.CodeValidationFailed},
			{"no reason", change(exclude(1, b.Day), func(r *corrections.Request) { r.Reason = "" }), models.CodeValidationFailed},
			{"nobody", change(exclude(1, b.Day), func(r *corrections.Request) { r.Actor = "" }), models.CodeValidationFailed},
			{"too long a message", change(exclude(1, b.Day), func(r *corrections.Request) { r.Message = strings.Repeat("步", 201) }), models.CodeValidationFailed},
			{"a message of lines", change(exclude(1, b.Day), func(r *corrections.Request) { r.Message = "a\nb" }), models.CodeValidationFailed},
			{"no kind", change(exclude(1, b.Day), func(r *corrections.Request) { r.Kind = "" }), models.CodeValidationFailed},
			{"no score", change(set(1, b.Day, 1), func(r *corrections.Request) { r.Score = nil }), models.CodeValidationFailed},
			{"no day", change(set(1, b.Day, 1), func(r *corrections.Request) { r.Date = nil }), models.CodeValidationFailed},
			{"a score", change(set(1, b.Day, 1), func(r *corrections.Request) { r.Kind = models.CorrectionExclude }), models.CodeValidationFailed},
		} {
			for _, tt.r.DryRun = range []bool{true, false} {
				if _, err := f.corrections.Create(t.Context(), tt.r); models.CodeOf(err) != tt.want {
					t.Errorf("%s, dry run %v: %v, want %s", tt.name, tt.r.DryRun, err, tt.want)
				}
			}
		}
		if _, err := f.corrections.Lift(t.Context(), corrections.Lifting{ID: 7, Reason: "x", Actor: "y"}); models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("lifted what does not exist: %v", err)
		}
		f.checkList(corrections.Query{Limit: 9})
	})
}

// A dry run returns what would be stored, and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b := f.today()
		f.raise(b, 1, 5_000)
		dry := set(1, b.Day, 4_000)
		dry.DryRun = true
		if c := f.create(dry); c.ID != 0 || *c.BeforeScore != 5_000 || c.UserID != "1" {
			t.Errorf("would create %+v", c)
		}
		f.checkList(corrections.Query{Limit: 9})
		c := f.create(set(1, b.Day, 4_000))
		would, err := f.corrections.Lift(t.Context(), corrections.Lifting{ID: c.ID, Reason: "x", Actor: "y", DryRun: true})
		if err != nil || would.LiftedAt == nil {
			t.Errorf("would lift %+v, %v", would, err)
		}
		f.checkList(corrections.Query{Limit: 9, Active: true}, c.ID)
		if got := f.shown(b, 1); got != 4_000 {
			t.Errorf("the board has %d", got)
		}
	})
}

// An exclusion from now on and one from a day that begins meanwhile don't both hold, although
// no row of a bucket is common to them. The first one has looked for others, and waits to be stored.
func TestOneHoldsInADayThatBegins(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env)
	table := env.Gorm.Begin()
	defer table.Rollback()
	if err := table.Exec(`LOCK TABLE corrections IN SHARE MODE`).Error; err != nil { // nobody may write
		t.Fatal(err)
	}
	var errs [2]error
	create := func(i int, r corrections.Request) chan struct{} {
		return testenv.Behind(t, env, table, i+1, func() { _, errs[i] = f.corrections.Create(t.Context(), r) })
	}
	first := create(0, excludeFromNow(1))
	env.Clock.Advance(24 * time.Hour)
	second := create(1, exclude(1, f.today().Day))
	table.Rollback()
	testenv.Receive(t, "the first call ends", first)
	testenv.Receive(t, "the second call ends", second)
	if errs[0] != nil || models.CodeOf(errs[1]) != models.CodeCorrectionExists {
		t.Errorf("the first one: %v; the second one: %v, want %s", errs[0], errs[1], models.CodeCorrectionExists)
	}
}

// At most one correction holds for a user and bucket, an exclusion without a bucket
// included, also if several operators decide at the same time.
func TestOneHolds(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b, before := f.today(), f.day(-1)
		f.raise(b, 1, 5_000)
		requests := []corrections.Request{exclude(1, b.Day), set(1, b.Day, 10), excludeFromNow(1)}
		for _, first := range requests {
			c := f.create(first)
			for _, second := range requests {
				if _, err := f.corrections.Create(t.Context(), second); models.CodeOf(err) != models.CodeCorrectionExists {
					t.Errorf("%+v beside %+v: %v", second, first, err)
				}
			}
			f.lift(c.ID)
		}
		f.lift(f.create(exclude(1, before.Day)).ID)
		// An earlier day and another user are not concerned.
		f.create(excludeFromNow(1))
		f.create(exclude(1, before.Day))
		f.create(exclude(2, b.Day))

		var wg sync.WaitGroup
		var mu sync.Mutex
		codes := make(map[models.Code]int)
		for i := range 9 {
			wg.Go(func() {
				r := exclude(3, b.Day)
				if i%3 == 0 {
					r = excludeFromNow(3)
				}
				_, err := f.corrections.Create(t.Context(), r)
				mu.Lock()
				codes[models.CodeOf(err)]++
				mu.Unlock()
			})
		}
		testenv.Wait(t, "the calls end", &wg)
		if codes[""] != 1 || codes[models.CodeCorrectionExists] != 8 {
			t.Errorf("answers %v", codes)
		}
	})
}
