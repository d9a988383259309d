package catalog_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

func steps() models.Board {
	return models.Board{
		Name: "steps", Kind: models.KindDaily, TimeZone: "Asia/Shanghai",
		OpenDays: 2, MaxScore: 100_000, Order: models.OrderHigh, Shards: 1, Global: models.AudienceUsers, Uploads: models.AudienceUsers,
	}
}

// moment parses an RFC 3339 time.
func moment(text string) *time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return &t
}

// gifts returns an event board of ten days.
func gifts() models.Board {
	return models.Board{
		Name: "gifts", Kind: models.KindEvent, TimeZone: "Asia/Shanghai", MaxScore: 1_000_000, Shards: 2,
		Global: models.AudienceUsers, StartsAt: moment("2026-12-01T12:00:00Z"), EndsAt: moment("2026-12-11T12:00:00Z"),
	}
}

func active() models.Board {
	return models.Board{
		Name: "active", Kind: models.KindRolling, TimeZone: "Asia/Shanghai", MaxScore: 1_000_000, Shards: 1,
		Global: models.AudienceUsers,
	}
}

func day(t testing.TB, text string) models.Date {
	t.Helper()
	d, err := models.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newCatalog makes a catalog with the board in the test's database.
func newCatalog(t testing.TB, env *testenv.Env, def models.Board) (*catalog.Catalog, *catalog.Board) {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	if err := c.Definitions.Define(t.Context(), []models.Board{def}); err != nil {
		t.Fatal(err)
	}
	b, err := c.Definitions.Board(def.Name)
	if err != nil {
		t.Fatal(err)
	}
	return c, b
}

func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*models.Board)
		want   string
	}{
		{"a valid definition", func(*models.Board) {}, ""},
		{"no name", func(b *models.Board) { b.Name = "" }, "name"},
		{"a name with a brace", func(b *models.Board) { b.Name = "a{b" }, "name"},
		{"a name too long", func(b *models.Board) { b.Name = strings.Repeat("a", 41) }, "name"},
		{"an unknown kind", func(b *models.Board) { b.Kind = "yearly" }, "kind"},
		{"no zone", func(b *models.Board) { b.TimeZone = "" }, "time_zone"},
		{"the machine's own zone", func(b *models.Board) { b.TimeZone = "Local" }, "time_zone"},
		{"each user's own days", func(b *models.Board) { b.TimeZone = "local" }, ""},
		{"each user's own days, and a score that fits no tick", func(b *models.Board) { b.TimeZone, b.MaxScore = "local", 1<<46 },
			"over 98h0m0s a composite holds scores up to 16,777,215 in milliseconds, 17,179,869,183 in seconds, 1,099,511,627,775 in minutes, "},
		{"an event with each user's own days", func(b *models.Board) { *b = gifts(); b.TimeZone = "local" }, "time_zone: only boards of kind daily"},
		{"a rolling board with each user's own days", func(b *models.Board) { *b = active(); b.TimeZone = "local" }, "time_zone: only boards of kind daily"},
		{"an unknown zone", func(b *models.Board) { b.TimeZone = "Mars/Olympus" }, "time_zone"},
		{"a largest score of 0", func(b *models.Board) { b.MaxScore = 0 }, "max_score"},
		{"a largest score that fits no tick", func(b *models.Board) { b.MaxScore = 1 << 46 }, "70,368,744,177,663"},
		{"no open days", func(b *models.Board) { b.OpenDays = 0 }, ""},
		{"30 open days", func(b *models.Board) { b.OpenDays, b.MaxScore = 30, 8_796_093_022_207 }, ""},
		{"31 open days", func(b *models.Board) { b.OpenDays = 31 }, "open_days"},
		{"negative open days", func(b *models.Board) { b.OpenDays = -1 }, "open_days"},
		{"a largest score that fits no tick in 30 open days", func(b *models.Board) { b.OpenDays, b.MaxScore = 30, 8_796_093_022_208 },
			"8,796,093,022,208 does not fit: over 746h0m0s a composite holds scores up to 2,097,151 in milliseconds, 2,147,483,647 in seconds, "},
		{"no shards", func(b *models.Board) { b.Shards = 0 }, "shards"},
		{"too many shards", func(b *models.Board) { b.Shards = catalog.MaxShards + 1 }, "shards"},
		{"an unknown audience", func(b *models.Board) { b.Global = "everybody" }, "global"},
		{"a day with a start", func(b *models.Board) { b.StartsAt = moment("2026-12-01T12:00:00Z") }, "start"},
		{"a day with a window", func(b *models.Board) { b.WindowHours = 24 }, "window"},
		{"an event", func(b *models.Board) { *b = gifts() }, ""},
		{"an event without a start", func(b *models.Board) { *b = gifts(); b.StartsAt = nil }, "start"},
		{"an event without an end", func(b *models.Board) { *b = gifts(); b.EndsAt = nil }, "end"},
		{"an event that ends as it starts", func(b *models.Board) { *b = gifts(); b.EndsAt = b.StartsAt }, "end"},
		{"an event that ends before it starts", func(b *models.Board) { *b = gifts(); b.StartsAt, b.EndsAt = b.EndsAt, b.StartsAt }, "end"},
		{"92 days in hours", func(b *models.Board) {
			*b = gifts()
			b.EndsAt, b.MaxScore = moment("2027-03-03T12:00:00Z"), 1<<41-1
		}, ""},
		{"92 days with one more", func(b *models.Board) {
			*b = gifts()
			b.EndsAt, b.MaxScore = moment("2027-03-03T12:00:00Z"), 1<<41
		}, "1,073,741,823 in seconds"},
		{"an event longer than any resolution holds", func(b *models.Board) {
			*b = gifts()
			b.EndsAt = moment("9999-12-31T12:00:00Z")
			b.MaxScore = 1 << 40
		}, "max_score"},
		{"an event before 1970", func(b *models.Board) { *b = gifts(); b.StartsAt = moment("1960-01-01T00:00:00Z") }, "start"},
		{"an event with open days", func(b *models.Board) { *b = gifts(); b.OpenDays = 2 }, "open_days"},
		{"an event with a window", func(b *models.Board) { *b = gifts(); b.WindowHours = 1 }, "window"},
		{"a change stream", func(b *models.Board) { b.ChangeStream = true }, ""},
		{"reviews", func(b *models.Board) { b.ReviewAbove = b.MaxScore - 1 }, ""},
		{"reviews above the largest score", func(b *models.Board) { b.ReviewAbove = b.MaxScore }, "review_above"},
		{"reviews above less than nothing", func(b *models.Board) { b.ReviewAbove = -1 }, "review_above"},
		{"uploads by services", func(b *models.Board) { b.Uploads = models.AudienceService }, ""},
		{"uploads by nobody", func(b *models.Board) { b.Uploads = "nobody" }, "uploads"},
		{"uploads to an event", func(b *models.Board) { *b = gifts(); b.Uploads = models.AudienceService }, "uploads"},
		{"uploads to a rolling board", func(b *models.Board) { *b = active(); b.Uploads = models.AudienceService }, "uploads"},
		{"holds", func(b *models.Board) { b.HoldAbove = b.MaxScore - 1 }, ""},
		{"holds above the largest score", func(b *models.Board) { b.HoldAbove = b.MaxScore }, "hold_above"},
		{"holds above less than nothing", func(b *models.Board) { b.HoldAbove = -1 }, "hold_above"},
		{"holds of low scores", func(b *models.Board) { b.HoldAbove, b.Order = 1, models.OrderLow }, "hold_above"},
		{"a unit", func(b *models.Board) { b.Unit = "steps" }, ""},
		{"the longest unit", func(b *models.Board) { b.Unit = strings.Repeat("步", 20) }, ""},
		{"too long a unit", func(b *models.Board) { b.Unit = strings.Repeat("s", 21) }, "unit"},
		{"a unit that can't be printed", func(b *models.Board) { b.Unit = "st\u202eeps" }, "unit"},
		{"a unit that is no text", func(b *models.Board) { b.Unit = "st\xffeps" }, "unit"},
		{"a unit of a space", func(b *models.Board) { b.Unit = " " }, "unit"},
		{"an event with a change stream", func(b *models.Board) { *b = gifts(); b.ChangeStream = true }, ""},
		{"a rolling board", func(b *models.Board) { *b = active() }, ""},
		{"a rolling board with a change stream", func(b *models.Board) { *b = active(); b.ChangeStream = true }, "change_stream"},
		{"a rolling board with open days", func(b *models.Board) { *b = active(); b.OpenDays = 2 }, "open_days"},
		{"a rolling board of a week", func(b *models.Board) { *b = active(); b.WindowHours = 168 }, ""},
		{"a rolling board of longer", func(b *models.Board) { *b = active(); b.WindowHours = 169 }, "window"},
		{"a rolling board of negative hours", func(b *models.Board) { *b = active(); b.WindowHours = -1 }, "window"},
		{"a rolling board with an end", func(b *models.Board) { *b = active(); b.EndsAt = moment("2026-12-24T15:00:00Z") }, "start"},
		{"a rolling board with a sum too large", func(b *models.Board) { *b = active(); b.MaxScore = 8_388_608 }, "8388607"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			def := steps()
			tt.change(&def)
			_, err := catalog.NewBoard(def)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want one about %q", err, tt.want)
			}
		})
	}
}

func TestWhenADayTakesUploads(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		tests := []struct {
			now, date string
			want      models.Code
		}{
			{"2026-11-20T13:00:00Z", "2026-11-20", ""},
			{"2026-11-20T13:00:00Z", "2026-11-19", ""},
			{"2026-11-20T13:00:00Z", "2026-11-18", ""},
			{"2026-11-20T13:00:00Z", "2026-11-17", models.CodeDateClosed},
			{"2026-11-20T13:00:00Z", "2026-11-21", models.CodeDateInFuture},
			{"2026-11-20T13:00:00Z", "9999-12-31", models.CodeDateInFuture},
			{"2026-11-20T13:00:00Z", "0001-01-01", models.CodeDateClosed},
			{"2026-11-20T15:59:59.999Z", "2026-11-21", models.CodeDateInFuture},
			{"2026-11-20T16:00:00Z", "2026-11-21", ""},
			{"2026-11-20T15:59:59.999Z", "2026-11-18", ""},
			{"2026-11-20T16:00:00Z", "2026-11-18", models.CodeDateClosed},
		}
		for _, tt := range tests {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			bucket, err := c.Buckets.ForUpload(t.Context(), b, day(t, tt.date), now)
			if models.CodeOf(err) != tt.want {
				t.Errorf("at %s for %s: %v, want %q", tt.now, tt.date, err, tt.want)
			}
			if (bucket == nil) != (tt.want != "") {
				t.Errorf("at %s for %s: bucket %v", tt.now, tt.date, bucket)
			}
		}
	})
}

// A refused date leaves no row behind, so that requests can't fill the table.
func TestRefusedDatesMakeNoBuckets(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		count := func() (n int64) {
			if err := env.Gorm.Model(&models.Bucket{}).Count(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := count()
		for _, d := range []string{"2026-11-21", "2026-11-10"} {
			if _, err := c.Buckets.ForUpload(t.Context(), b, day(t, d), env.Clock.Now()); err == nil {
				t.Errorf("%s was taken", d)
			}
			if _, err := c.Buckets.Find(t.Context(), b, day(t, d)); err == nil {
				t.Errorf("%s was found", d)
			}
		}
		if after := count(); after != before {
			t.Errorf("%d buckets became %d", before, after)
		}
	})
}

// A bucket never changes when its definition does. The next bucket is made by the
// new definition.
func TestABucketKeepsItsNature(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		today := day(t, "2026-11-20")
		made, err := c.Buckets.ForUpload(t.Context(), b, today, env.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}

		changed := steps()
		changed.Shards, changed.MaxScore, changed.TimeZone, changed.OpenDays = 16, 1<<33, "America/New_York", 3
		changed.ChangeStream = true
		later, lb := newCatalog(t, env, changed)
		again, err := later.Buckets.Find(t.Context(), lb, today)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, again, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("the bucket has changed:\n%s", diff)
		}

		env.Clock.Advance(24 * time.Hour)
		next, err := later.Buckets.ForUpload(t.Context(), lb, today+1, env.Clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if next.Shards != 16 || next.TickMS != 1000 || !next.ChangeStream || next.StartsAt.UTC().Hour() != 5 || next.ClosesAt.Sub(next.EndsAt) != 72*time.Hour {
			t.Errorf("the next bucket is %+v", next)
		}
	})
}

// The longest time that a day stays in Redis follows from hot_days and from the board
// with the most open days.
func TestDaysHot(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, steps())
		if got := c.Buckets.DaysHot(); got != 3 {
			t.Errorf("%d days with 2 open days", got)
		}
		late := steps()
		late.Name, late.OpenDays = "late", 9
		if _, err := c.Definitions.Add(t.Context(), late, false); err != nil {
			t.Fatal(err)
		}
		if got := c.Buckets.DaysHot(); got != 10 {
			t.Errorf("%d days with 9 open days", got)
		}
	})
}

// The first writer makes the bucket; all others get the same one.
func TestConcurrentMakersAgree(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		newCatalog(t, env, steps())
		yesterday := day(t, "2026-11-19")
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			buckets []*models.Bucket
		)
		for i := range 8 {
			// Each replica has another definition, and an empty cache.
			def := steps()
			def.Shards = i + 1
			c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
			b, err := catalog.NewBoard(def)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				bucket, err := c.Buckets.ForUpload(t.Context(), b, yesterday, env.Clock.Now())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				buckets = append(buckets, bucket)
			})
		}
		testenv.Wait(t, "the calls end", &wg)
		for _, bucket := range buckets {
			if bucket.Shards != buckets[0].Shards {
				t.Errorf("one replica has %d shards, another %d", bucket.Shards, buckets[0].Shards)
			}
		}
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		if _, err := c.Buckets.Find(t.Context(), b, day(t, "2026-11-20")); err != nil {
			t.Errorf("today has no bucket: %v", err)
		}
		if _, err := c.Buckets.Find(t.Context(), b, day(t, "2020-01-01")); !errors.Is(err, catalog.ErrNoBucket) {
			t.Errorf("a day without scores: %v", err)
		}
		if _, err := c.Buckets.Find(t.Context(), b, day(t, "2026-11-21")); models.CodeOf(err) != models.CodeDateInFuture {
			t.Errorf("tomorrow: %v", err)
		}
	})
}

// The next day's bucket is made shortly before the day begins, so that uploads at
// midnight do not need Postgres.
func TestTheNextDayIsPrepared(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		tomorrow := day(t, "2026-11-21")
		env.Clock.Set(time.Date(2026, 11, 20, 14, 5, 0, 0, time.UTC))
		if err := c.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Buckets.Find(t.Context(), b, tomorrow); models.CodeOf(err) != models.CodeDateInFuture {
			t.Errorf("two hours before midnight: %v", err)
		}
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		env.Clock.Set(time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC))
		if _, err := c.Buckets.ForUpload(t.Context(), b, tomorrow, env.Clock.Now()); err != nil {
			t.Errorf("at midnight, with the database away: %v", err)
		}
		if _, err := c.Buckets.ForUpload(t.Context(), b, tomorrow-2, env.Clock.Now()); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a day that nobody has seen, with the database away: %v", err)
		}
	})
}

func TestAKindCannotChange(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, steps())
		if err := env.Gorm.Model(&models.Board{}).Where("name = ?", "steps").Update("kind", "event").Error; err != nil {
			t.Fatal(err)
		}
		err := c.Definitions.Define(t.Context(), []models.Board{steps()})
		if err == nil || !strings.Contains(err.Error(), "can't become daily") {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnOrderCannotChange(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, steps())
		low := steps()
		low.Order = models.OrderLow
		if err := c.Definitions.Define(t.Context(), []models.Board{low}); err == nil || !strings.Contains(err.Error(), "can't change it to low") {
			t.Errorf("error %v", err)
		}
		if err := c.Definitions.DefineMissing(t.Context(), []models.Board{low}); err != nil {
			t.Error(err)
		}
		if b := testenv.Must(c.Definitions.Board("steps")); b.Order != models.OrderHigh {
			t.Errorf("the order became %s", b.Order)
		}
	})
}

func TestUnknownBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, steps())
		if _, err := c.Definitions.Board("nix"); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("error %v", err)
		}
		if boards := c.Definitions.Boards(); len(boards) != 1 || boards[0].Name != "steps" {
			t.Errorf("boards %v", boards)
		}
	})
}

// DefineMissing stores missing definitions and does not change stored ones.
func TestDefineMissing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		served := steps()
		served.Shards, served.TimeZone = 4, "America/New_York"
		newCatalog(t, env, served)
		other := steps()
		other.Name = "other"
		beside := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
		if err := beside.Definitions.DefineMissing(t.Context(), []models.Board{steps(), other}); err != nil {
			t.Fatal(err)
		}
		b, err := beside.Definitions.Board("steps")
		if err != nil || b.Shards != 4 || b.TimeZone != "America/New_York" {
			t.Errorf("the service's board became %+v, %v", b, err)
		}
		if b, err := beside.Definitions.Board("other"); err != nil || b.Shards != 1 {
			t.Errorf("the missing board: %+v, %v", b, err)
		}
	})
}

// Boards that earlier settings have named are told from those that were defined while the service
// ran, and from those of a version that did not store the difference, until settings name them.
func TestDropped(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		store := catalog.NewStore(env.Gorm)
		definitions := catalog.New(store, env.Clock.Now, 3, env.Log).Definitions
		named := func(name string) models.Board {
			b := steps()
			b.Name = name
			return b
		}
		over := gifts()
		over.Name, over.StartsAt, over.EndsAt = "over", moment("2026-10-01T00:00:00Z"), moment("2026-11-01T00:00:00Z")
		older := named("older")
		if err := env.Gorm.Omit("FromSettings").Create(&older).Error; err != nil {
			t.Fatal(err)
		}
		if _, err := definitions.Add(t.Context(), named("added"), false); err != nil {
			t.Fatal(err)
		}
		all := []models.Board{named("added"), gifts(), named("missing"), named("older"), over, named("steps"), named("walk")}
		for _, tt := range []struct {
			settings []models.Board
			want     []string
		}{
			{[]models.Board{steps(), gifts(), over, named("walk")}, nil},
			{[]models.Board{steps(), named("walk")}, []string{"gifts"}},
			{[]models.Board{steps()}, []string{"gifts", "walk"}},
			{all, nil},
			{[]models.Board{steps()}, []string{"added", "gifts", "missing", "older", "walk"}},
		} {
			if err := definitions.Define(t.Context(), tt.settings); err != nil {
				t.Fatal(err)
			}
			dropped, err := store.Dropped(t.Context(), tt.settings, env.Clock.Now())
			if diff := cmp.Diff(tt.want, dropped, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
	})
}

// A definition of an unknown kind, which a newer version may have stored, does not
// stop the refresh of the others.
func TestAnUnknownDefinitionIsPassedOver(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		newer := steps()
		newer.Name, newer.Kind = "gifts", "event"
		if err := env.Gorm.Create(&newer).Error; err != nil {
			t.Fatal(err)
		}
		env.Clock.Advance(24 * time.Hour)
		if err := c.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Definitions.Board("gifts"); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("the unknown board: %v", err)
		}
		if _, err := c.Buckets.Find(t.Context(), b, day(t, "2026-11-21")); err != nil {
			t.Errorf("the next day: %v", err)
		}
		// A board that was valid before stays as it was.
		if err := env.Gorm.Model(&models.Board{}).Where("name = ?", "steps").Update("time_zone", "Mars/Olympus").Error; err != nil {
			t.Fatal(err)
		}
		if err := c.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b, err := c.Definitions.Board("steps"); err != nil || b.TimeZone != "Asia/Shanghai" {
			t.Errorf("the known board: %+v, %v", b, err)
		}
	})
}

// After a change of the time zone the current day ends as it was made. The next one
// begins as the new zone says.
func TestTodayAfterAChangeOfZone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		newCatalog(t, env, steps())
		moved := steps()
		moved.TimeZone = "America/New_York"
		c, b := newCatalog(t, env, moved) // 2026-11-20 08:00 there, 21:00 in Shanghai
		for _, tt := range []struct{ now, want string }{
			{"2026-11-20T13:00:00Z", "2026-11-20"},
			{"2026-11-20T15:59:59Z", "2026-11-20"},
			{"2026-11-20T16:00:00Z", "2026-11-20"}, // over in Shanghai, not in New York
			{"2026-11-21T05:00:00Z", "2026-11-21"},
		} {
			now, err := time.Parse(time.RFC3339, tt.now)
			if err != nil {
				t.Fatal(err)
			}
			env.Clock.Set(now)
			if err := c.Definitions.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			bucket := testenv.Must(c.Buckets.Current(b, now, models.UTCOffset{}))
			today := bucket.Day
			if today.String() != tt.want || now.Before(bucket.StartsAt) {
				t.Errorf("at %s it is %v, from %v; want %s", tt.now, today, bucket.StartsAt, tt.want)
			}
		}
	})
}

// A process that starts after a change of the time zone westwards takes and serves
// the day in progress as the processes do that run already.
func TestRestartAfterAChangeOfZone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, from, to, now, day string }{
		{"an hour into the day", "Asia/Shanghai", "America/New_York", "2026-11-19T17:00:00Z", "2026-11-20"},
		{"from the first zone to the last", "Etc/GMT-14", "Etc/GMT+12", "2026-11-19T10:30:00Z", "2026-11-20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, env *testenv.Env) {
				now, today := *moment(tt.now), day(t, tt.day)
				env.Clock.Set(now)
				def := steps()
				def.TimeZone = tt.from
				newCatalog(t, env, def)
				def.TimeZone = tt.to
				c, b := newCatalog(t, env, def)
				if got := testenv.Must(c.Buckets.Current(b, now, models.UTCOffset{})); got.Day != today || !got.Open(now) {
					t.Errorf("the current day is %v, from %v", got.Day, got.StartsAt)
				}
				if _, err := c.Buckets.Resolve(b, &today, now, models.UTCOffset{}); err != nil {
					t.Errorf("reading: %v", err)
				}
				if _, err := c.Buckets.ForUpload(t.Context(), b, today, now); err != nil {
					t.Errorf("an upload: %v", err)
				}
				if _, err := c.Buckets.ForImport(t.Context(), b, today, now); err != nil {
					t.Errorf("an import: %v", err)
				}
				tomorrow := today + 1
				if _, err := c.Buckets.Resolve(b, &tomorrow, now, models.UTCOffset{}); models.CodeOf(err) != models.CodeDateInFuture {
					t.Errorf("the next day: %v", err)
				}
			})
		})
	}
}
