package status_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/operations/status"
	"stepboard/services/servicetest"
)

// calendar is a service over a board of days, of which 2026-11-20 is today.
type calendar struct {
	t   *testing.T
	env *testenv.Env
	*status.Service
	catalog *catalog.Catalog
	today   models.Date
}

func newCalendar(t *testing.T, env *testenv.Env, counter status.Counter) *calendar {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	if err := c.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	service := status.New(status.NewStore(env.Gorm), due{}, c.Definitions, counter, env.Clock.Now)
	return &calendar{t, env, service, c, models.DateOf(testenv.Noon)}
}

// day makes the bucket of a day, counted back from today.
func (c *calendar) day(back models.Date) *models.Bucket {
	c.t.Helper()
	b := testenv.Must(c.catalog.Definitions.Board("steps"))
	return testenv.Must(c.catalog.Buckets.ForImport(c.t.Context(), b, c.today-back, c.env.Clock.Now()))
}

func (c *calendar) create(rows any) {
	c.t.Helper()
	if err := c.env.Gorm.Create(rows).Error; err != nil {
		c.t.Fatal(err)
	}
}

// shown returns the days of the board as "20 open 3 - 0": day, state, total, sum and
// corrections.
func (c *calendar) shown(from, to *models.Date, limit int) (list []string) {
	c.t.Helper()
	text := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	page := testenv.Must(c.Buckets(c.t.Context(), status.BucketQuery{Board: "steps", From: from, To: to, Limit: limit}))
	for _, b := range page {
		list = append(list, fmt.Sprint(b.Date.String()[8:], " ", b.State, " ", text(b.Total), " ", text(b.ScoreSum), " ", b.Corrections))
	}
	return list
}

// Each day has the state that follows from the clock and its last run, and its figures.
func TestBuckets(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		hot := servicetest.Entries(env, env.Clock.Now, nil)
		c := newCalendar(t, env, hot)
		if page := c.shown(nil, nil, 10); len(page) > 1 {
			t.Fatalf("before anything was reported: %v", page)
		}
		for back := range models.Date(9) {
			c.day(back)
		}
		raise := func(back models.Date, users ...models.RowID) {
			t.Helper()
			for _, user := range users {
				entry := models.Entry{User: user, Composite: 1 << 40}
				if errs := hot.Raise(t.Context(), []models.Raise{{Bucket: c.day(back), Entry: entry}}); errs != nil {
					t.Fatal(errs)
				}
			}
		}
		raise(0, 1, 2, 3)
		raise(3, 1)
		finished := testenv.Noon
		run := func(back models.Date, number int, state models.ArchiveState) models.ArchiveRun {
			r := models.ArchiveRun{Board: "steps", Bucket: c.day(back).Name, Run: number, Shards: 1, State: state, StartedAt: finished}
			if state == models.ArchiveComplete {
				r.FinishedAt, r.Entries, r.PointsSum = &finished, 10*int64(number), 100*models.Points(number)
			}
			return r
		}
		c.create(&[]models.ArchiveRun{
			run(5, 1, models.ArchiveRunning), run(6, 1, models.ArchiveFailed),
			run(7, 1, models.ArchiveComplete), run(7, 2, models.ArchiveComplete),
			run(8, 1, models.ArchiveComplete), run(8, 2, models.ArchiveFailed),
		})
		c.correct(7, 1, false)
		c.correct(7, 2, true)
		c.correct(8, 3, false)
		if err := env.Gorm.Exec(`INSERT INTO board_results (board, bucket, revision, hash) VALUES ('steps', ?, 3, 'x')`,
			c.day(7).Name).Error; err != nil {
			t.Fatal(err)
		}
		want := []string{
			"20 open 3 - 0", "19 open 0 - 0", "18 open 0 - 0", "17 closed 1 - 0", "16 cold 0 - 0", "15 moving 0 - 0", "14 failed 0 - 0",
			"13 archived 20 200 1", "12 failed 10 100 1",
		}
		if diff := cmp.Diff(want, c.shown(nil, nil, 10)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		c.excludeFrom(4)
		from, to := c.today-5, c.today-3
		if diff := cmp.Diff([]string{"17 closed 1 - 1", "16 cold 0 - 1"}, c.shown(&from, &to, 2)); diff != "" {
			t.Errorf("some days -want +got:\n%s", diff)
		}
		early, before := models.Date(-700_000), models.Date(-1)
		if page := c.shown(&early, &before, 2); len(page) != 0 {
			t.Errorf("before the first day: %v", page)
		}
		last := testenv.Must(c.Buckets(t.Context(), status.BucketQuery{Board: "steps", To: &to, Limit: 10}))[4]
		if last.Revision != 3 || last.LastRun.Run != 2 {
			t.Errorf("an archived day is %+v", last)
		}
		if _, err := c.Buckets(t.Context(), status.BucketQuery{Board: "nix", Limit: 1}); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("an unknown board: %v", err)
		}
	})
}

// correct stores a correction of a user's score on a day.
func (c *calendar) correct(back models.Date, user models.RowID, lifted bool) {
	c.t.Helper()
	bucket := c.day(back)
	entry := models.Correction{
		Board: "steps", Bucket: &bucket.Name, Day: bucket.Day, User: user, Kind: models.CorrectionExclude, Reason: "x", Actor: "x", CreatedAt: testenv.Noon,
	}
	if lifted {
		at := testenv.Noon
		entry.LiftedAt, entry.LiftedBy, entry.LiftReason = &at, "x", "x"
	}
	c.create(&entry)
}

// excludeFrom excludes a user from all days from one on, counted back from today.
func (c *calendar) excludeFrom(back models.Date) {
	c.t.Helper()
	c.create(&models.Correction{
		Board: "steps", Day: c.today - back, User: 9, Kind: models.CorrectionExclude, Reason: "x", Actor: "x", CreatedAt: testenv.Noon,
	})
}

// away is a Redis that does not answer.
type away struct{ err error }

func (a away) Counts(context.Context, []*models.Bucket) ([]int64, error) { return nil, a.err }

// While Redis is away, days are shown without the totals that it has.
func TestBucketsWithoutRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	c := newCalendar(t, env, away{models.Unavailable("count", errors.New("refused"))})
	c.day(0)
	if diff := cmp.Diff([]string{"20 open - - 0"}, c.shown(nil, nil, 10)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	broken := newCalendar(t, env, away{errors.New("a bug")})
	if _, err := broken.Buckets(t.Context(), status.BucketQuery{Board: "steps", Limit: 1}); err == nil {
		t.Error("an unknown error is hidden")
	}
	env.Clock.Advance(-20 * 24 * time.Hour)
	if diff := cmp.Diff([]string{"20 upcoming - - 0"}, c.shown(nil, nil, 10)); diff != "" {
		t.Errorf("before it begins -want +got:\n%s", diff)
	}
}
