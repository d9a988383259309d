package catalog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// movedTo describes the bucket of gifts as a catalog knows it.
func movedTo(t *testing.T, c *catalog.Catalog) string {
	t.Helper()
	b := testenv.Must(c.Definitions.Board("gifts"))
	bucket := testenv.Must(c.Buckets.Current(b, time.Unix(0, 0), models.UTCOffset{}))
	return fmt.Sprint(b.EndsAt.UTC().Format(time.RFC3339), bucket.EndsAt.UTC().Format(" 2006-01-02T15"), bucket.ClosesAt.UTC().Format(" 2006-01-02T15"),
		bucket.ColdAt.UTC().Format(" 2006-01-02T15 "), bucket.Day)
}

// The end of an event moves to a later time only, as far as its bucket can hold. What follows from it
// moves, too, and the bits of its composites stay.
func TestAnEndMovesToALaterTime(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		ctx, def := t.Context(), gifts()
		def.Late = 36 * time.Hour
		c, b := newCatalog(t, env, def)
		env.Clock.Set(*def.StartsAt)
		if err := c.Definitions.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		other, _ := newCatalog(t, env, def)
		before := *testenv.Must(c.Buckets.Load(ctx, "gifts", "event"))
		if err := env.Gorm.Create(&models.Correction{Board: "gifts", Bucket: &before.Name, Day: before.Day, User: 1, Kind: models.CorrectionExclude}).Error; err != nil {
			t.Fatal(err)
		}
		until := *c.Buckets.ExtendableUntil(b)
		for _, tt := range []struct {
			end    time.Time
			dryRun bool
			code   models.Code
			want   string
		}{
			{*moment("2026-12-11T11:59:59Z"), false, models.CodeValidationFailed, "2026-12-11T12:00:00Z 2026-12-11T12 2026-12-13T00 2026-12-14T12 2026-12-11"},
			{until.Add(time.Millisecond), false, models.CodeValidationFailed, "2026-12-11T12:00:00Z 2026-12-11T12 2026-12-13T00 2026-12-14T12 2026-12-11"},
			{*moment("2026-12-12T16:00:00Z"), true, "", "2026-12-11T12:00:00Z 2026-12-11T12 2026-12-13T00 2026-12-14T12 2026-12-11"},
			{*moment("2026-12-12T16:00:00Z"), false, "", "2026-12-12T16:00:00Z 2026-12-12T16 2026-12-14T04 2026-12-15T16 2026-12-12"},
			{*moment("2026-12-12T16:00:00Z"), false, "", "2026-12-12T16:00:00Z 2026-12-12T16 2026-12-14T04 2026-12-15T16 2026-12-12"},
		} {
			moved, err := c.Definitions.MoveEnd(ctx, "gifts", tt.end, tt.dryRun)
			if models.CodeOf(err) != tt.code || err == nil && !moved.EndsAt.Equal(tt.end) {
				t.Errorf("to %v: %v, want %q", tt.end, err, tt.code)
			}
			if got := movedTo(t, c); got != tt.want {
				t.Errorf("after %v: %s, want %s", tt.end, got, tt.want)
			}
		}
		after := testenv.Must(c.Buckets.Load(ctx, "gifts", "event"))
		if score.Of(after) != score.Of(&before) || after.MaxScore != before.MaxScore {
			t.Errorf("the bucket was %+v and is %+v", before, after)
		}
		var filed models.Correction
		if err := env.Gorm.Take(&filed).Error; err != nil || filed.Day != after.Day {
			t.Errorf("the correction is filed under %v, %v", filed.Day, err)
		}

		// Settings with another end: the latest holds, in whatever order processes start.
		later := def
		later.EndsAt = moment("2026-12-13T12:00:00Z")
		for _, settings := range []models.Board{def, later, def} {
			if err := other.Definitions.Define(ctx, []models.Board{settings}); err != nil {
				t.Error(err)
			}
		}
		const want = "2026-12-13T12:00:00Z 2026-12-13T12 2026-12-15T00 2026-12-16T12 2026-12-13"
		if got := movedTo(t, other); got != want {
			t.Errorf("by settings it moved to %s, want %s", got, want)
		}
		if names, err := catalog.NewStore(env.Gorm).Later(ctx, []models.Board{def}); err != nil || len(names) != 1 {
			t.Errorf("later than the settings are %v, %v", names, err)
		}
		if names, err := catalog.NewStore(env.Gorm).Later(ctx, []models.Board{later}); err != nil || len(names) != 0 {
			t.Errorf("later than the settings are %v, %v", names, err)
		}
		if err := c.Definitions.Refresh(ctx); err != nil || movedTo(t, c) != want {
			t.Errorf("another process sees %s, %v", movedTo(t, c), err)
		}

		// It moves until it is final.
		env.Clock.Set(*moment("2026-12-15T00:00:00Z"))
		if n, err := other.Buckets.Finish(ctx); n != 1 || err != nil {
			t.Errorf("final are %d, %v", n, err)
		}
		if _, err := c.Definitions.MoveEnd(ctx, "gifts", *moment("2026-12-14T12:00:00Z"), false); models.CodeOf(err) != models.CodeEventFinal {
			t.Errorf("when it is final: %v", err)
		}
		if n, err := other.Buckets.Finish(ctx); n != 0 || err != nil {
			t.Errorf("again final are %d, %v", n, err)
		}
		if err := c.Definitions.Define(ctx, []models.Board{active()}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Definitions.MoveEnd(ctx, "active", until, false); models.CodeOf(err) != models.CodeBoardKind {
			t.Errorf("of a rolling board: %v", err)
		}
	})
}

// Before its bucket exists, an event's end moves to a later time only, too.
func TestAnEndMovesBeforeTheStart(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, gifts())
		end := c.Buckets.ExtendableUntil(b).Add(-time.Hour)
		if _, err := c.Definitions.MoveEnd(t.Context(), "gifts", end, false); err != nil {
			t.Fatal(err)
		}
		if err := c.Definitions.Define(t.Context(), []models.Board{gifts()}); err != nil {
			t.Fatal(err)
		}
		if b := testenv.Must(c.Definitions.Board("gifts")); !b.EndsAt.Equal(end) {
			t.Errorf("it ends at %v", b.EndsAt)
		}
	})
}

// An end that is moved while the event becomes final either moves, and the event is not final, or
// does not.
func TestAnEndMovesInItsLastSecond(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var defs []models.Board
		for i := range 20 {
			def := gifts()
			def.Name = fmt.Sprint("gifts-", i)
			defs = append(defs, def)
		}
		catalogs := make([]*catalog.Catalog, 2)
		env.Clock.Set(*gifts().EndsAt)
		for i := range catalogs {
			catalogs[i] = catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
			if err := catalogs[i].Definitions.Define(t.Context(), defs); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var moving, finishing sync.WaitGroup
		failed := make([]models.Code, len(defs))
		finishing.Go(func() {
			for ctx.Err() == nil {
				if _, err := catalogs[0].Buckets.Finish(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		for i, def := range defs {
			moving.Go(func() {
				_, err := catalogs[1].Definitions.MoveEnd(t.Context(), def.Name, def.EndsAt.Add(time.Hour), false)
				failed[i] = models.CodeOf(err)
			})
		}
		testenv.Wait(t, "the ends move", &moving)
		stop()
		testenv.Wait(t, "the last round ends", &finishing)
		for i, def := range defs {
			bucket := testenv.Must(catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log).Buckets.Load(t.Context(), def.Name, "event"))
			moved, final := bucket.EndsAt.After(*def.EndsAt), bucket.FinalAt != nil
			if moved == final || moved != (failed[i] == "") || final != (failed[i] == models.CodeEventFinal) {
				t.Errorf("%s: moved %t, final %t, the call says %q", def.Name, moved, final, failed[i])
			}
		}
	})
}
