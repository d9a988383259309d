package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// An event takes increments from its start to its end. Its bucket is made in the two
// hours before the start.
func TestWhenAnEventTakesIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, gifts())
		for _, tt := range []struct {
			now  string
			made bool
			want models.Code
		}{
			{"2026-11-20T13:00:00Z", false, models.CodeEventNotOpen},
			{"2026-12-01T09:59:59Z", false, models.CodeEventNotOpen},
			{"2026-12-01T10:00:00Z", true, models.CodeEventNotOpen},
			{"2026-12-01T11:59:59.999Z", true, models.CodeEventNotOpen},
			{"2026-12-01T12:00:00Z", true, ""},
			{"2026-12-11T11:59:59.999Z", true, ""},
			{"2026-12-11T12:00:00Z", true, ""}, // the ledger knows
			{"2027-12-11T12:00:00Z", true, ""},
		} {
			now := *moment(tt.now)
			env.Clock.Set(now)
			if err := c.Definitions.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			totals, err := c.Buckets.ForIncrement(t.Context(), b.Name, now)
			if models.CodeOf(err) != tt.want {
				t.Errorf("at %s: %v, want %q", tt.now, err, tt.want)
			}
			if totals.Bucket == nil || totals.Total != "event" || totals.Since != "event" {
				t.Errorf("at %s: %+v", tt.now, totals)
			}
			asked, err := c.Buckets.Resolve(b, nil, now, models.UTCOffset{})
			if err != nil {
				t.Fatal(err)
			}
			stored, err := c.Buckets.Load(t.Context(), asked.Board, asked.Name)
			if (err == nil) != tt.made || (err != nil && !errors.Is(err, catalog.ErrNoBucket)) {
				t.Errorf("at %s the bucket is %v, %v", tt.now, stored, err)
			}
			if asked.Final(now) && asked.FinalAt.After(now.Add(-time.Hour)) {
				t.Errorf("at %s it is final before somebody has made it so", tt.now)
			}
			testenv.Must(c.Buckets.Finish(t.Context()))
			asked = testenv.Must(c.Buckets.Resolve(b, nil, now, models.UTCOffset{}))
			if final := asked.Final(now); final != !now.Before(*gifts().EndsAt) {
				t.Errorf("at %s: final is %t", tt.now, final)
			}
		}
	})
}

// An event is archived under its last day in its time zone, and turns cold hotDays
// days after its end.
func TestDayOfAnEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		def := gifts()
		def.EndsAt = moment("2026-12-11T16:00:00Z") // midnight in Shanghai
		c, b := newCatalog(t, env, def)
		bucket := testenv.Must(c.Buckets.Current(b, env.Clock.Now(), models.UTCOffset{}))
		if bucket.Day.String() != "2026-12-11" || !bucket.ColdAt.Equal(*moment("2026-12-14T16:00:00Z")) {
			t.Errorf("filed under %v, cold at %v", bucket.Day, bucket.ColdAt)
		}
		if b.Date(bucket) != nil {
			t.Error("an event has no date")
		}
	})
}

// The longer an event and the larger its scores, the coarser is its resolution. Its bucket can hold
// times until long after its end: its largest score leaves them the bits.
func TestResolutionFollowsTheDefinition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		end    string
		max    int64
		tick   int64
		beyond string // the first moment that its composites can't hold
	}{
		{"2026-12-01T15:00:00Z", 100_000_000, 1, "2026-12-02T06:38:28.863Z"},
		{"2026-12-11T12:00:00Z", 1_000_000, 1, "2027-03-10T22:05:34.591Z"},
		{"2027-03-03T12:00:00Z", 100_000_000, 1000, "2029-01-16T05:21:03Z"},
		{"2027-03-03T12:00:00Z", 1_073_741_823, 1000, "2027-03-08T14:10:07Z"},
		{"2027-01-15T12:00:00Z", 100_000_000_000, 60_000, "2027-01-16T00:15:00Z"},
		{"2027-03-03T12:00:00Z", 1<<41 - 1, 3_600_000, "2027-05-21T03:00:00Z"},
	} {
		def := gifts()
		def.EndsAt, def.MaxScore = moment(tt.end), tt.max
		b, err := catalog.NewBoard(def)
		if err != nil {
			t.Fatal(err)
		}
		bucket := testenv.Must(catalog.New(nil, time.Now, 3, nil).Buckets.Current(b, time.Now(), models.UTCOffset{}))
		if bucket.TickMS != tt.tick {
			t.Errorf("until %s, %d: ticks of %d ms", tt.end, tt.max, bucket.TickMS)
		}
		codec := score.Of(bucket)
		last := models.TimestampOf(def.EndsAt.Add(-time.Millisecond))
		if _, err := codec.Encode(models.Points(tt.max), codec.Cut(last)); err != nil {
			t.Errorf("until %s, %d: %v", tt.end, tt.max, err)
		}
		beyond := models.TimestampOf(*moment(tt.beyond))
		if _, err := codec.Encode(models.Points(tt.max), beyond-1); err != nil {
			t.Errorf("until %s, %d: %v", tt.end, tt.max, err)
		}
		if _, err := codec.Encode(models.Points(tt.max), beyond); err == nil {
			t.Errorf("until %s, %d: %s is held", tt.end, tt.max, tt.beyond)
		}
	}
}

// An event's bucket that was made with fewer bits stays as it is.
func TestAnEventKeepsItsBits(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		def := gifts()
		b := testenv.Must(catalog.NewBoard(def))
		earlier := *testenv.Must(catalog.New(nil, env.Clock.Now, 3, nil).Buckets.Current(b, *def.StartsAt, models.UTCOffset{}))
		var err error
		if _, earlier.TimeBits, err = score.Fit(def.EndsAt.Sub(*def.StartsAt), def.MaxScore); err != nil {
			t.Fatal(err)
		}
		if err := env.Gorm.Create(&earlier).Error; err != nil {
			t.Fatal(err)
		}
		env.Clock.Set(*def.StartsAt)
		c, _ := newCatalog(t, env, def)
		totals, err := c.Buckets.ForIncrement(t.Context(), def.Name, env.Clock.Now())
		if err != nil || totals.Bucket.TimeBits != earlier.TimeBits || totals.Bucket.TickMS != earlier.TickMS {
			t.Errorf("%+v became %+v, %v", earlier, totals.Bucket, err)
		}
	})
}

// A rolling board has a running total for each hour of UTC, and a window that
// includes the current one.
func TestTotalsOfARollingBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, active())
		now := env.Clock.Now()
		totals, err := c.Buckets.ForIncrement(t.Context(), b.Name, now)
		if err != nil {
			t.Fatal(err)
		}
		if totals.Bucket.Name != "live" || totals.Bucket.WindowHours != 24 || totals.Total != "2026112013" || totals.Since != "2026111914" {
			t.Errorf("%+v of %+v", totals, totals.Bucket)
		}
		for total, want := range map[string]string{"2026112013": "live", "live": ""} {
			bucket, err := c.Buckets.ForTotal(t.Context(), b.Name, total)
			if (want == "") != errors.Is(err, catalog.ErrNoBucket) || (err == nil && bucket.Name != want) {
				t.Errorf("total %s raises %v, %v", total, bucket, err)
			}
		}
		if !totals.Bucket.Open(now.AddDate(30, 0, 0)) || totals.Bucket.Cold(now.AddDate(30, 0, 0)) {
			t.Error("it must stay open and hot for decades")
		}
		ranges, err := c.Buckets.TotalRanges(t.Context(), now)
		if err != nil || len(ranges) != 1 || ranges[0] != totals {
			t.Errorf("ranges %+v, %v", ranges, err)
		}
	})
}

// Each call returns an error for boards of another kind.
func TestCallsThatDoNotFitTheKind(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
		if err := c.Definitions.Define(t.Context(), []models.Board{steps(), gifts(), active()}); err != nil {
			t.Fatal(err)
		}
		now := env.Clock.Now()
		today := day(t, "2026-11-20")
		if _, err := c.Buckets.ForIncrement(t.Context(), "steps", now); models.CodeOf(err) != models.CodeBoardKind {
			t.Errorf("increments of a daily board: %v", err)
		}
		for _, name := range []string{"gifts", "active"} {
			b := testenv.Must(c.Definitions.Board(name))
			_, accepting := c.Buckets.ForUpload(t.Context(), b, today, now)
			_, asked := c.Buckets.Resolve(b, &today, now, models.UTCOffset{})
			_, past := c.Buckets.ForImport(t.Context(), b, today, now)
			for what, err := range map[string]error{"scores": accepting, "a date": asked, "an import": past, "days": b.RequireDays()} {
				if models.CodeOf(err) != models.CodeBoardKind {
					t.Errorf("%s of %s: %v", what, name, err)
				}
			}
		}
		if _, err := c.Buckets.ForIncrement(t.Context(), "nothing", now); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("no board: %v", err)
		}
		for name, want := range map[string]models.Code{"event": "", "live": models.CodeNotFound, "2026-11-20": models.CodeNotFound} {
			env.Clock.Set(*gifts().StartsAt)
			if err := c.Definitions.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Buckets.ByName(t.Context(), testenv.Must(c.Definitions.Board("gifts")), name); models.CodeOf(err) != want {
				t.Errorf("bucket %s: %v", name, err)
			}
		}
	})
}

// The settings of a board's only bucket can't change once it is made. All others
// can.
func TestABoardUnderWayCannotChange(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*models.Board){
		"start":         func(b *models.Board) { b.StartsAt = moment("2026-12-01T12:00:01Z") },
		"what it takes": func(b *models.Board) { b.Takes = models.TakesBest },
		"late":          func(b *models.Board) { b.Late = time.Hour },
		"max_score":     func(b *models.Board) { b.MaxScore++ },
		"shards":        func(b *models.Board) { b.Shards++ },
	}
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, gifts())
		for name, change := range changes {
			def := gifts()
			change(&def)
			if err := c.Definitions.Define(t.Context(), []models.Board{def}); err != nil {
				t.Errorf("%s before it is made: %v", name, err)
			}
		}
		if err := c.Definitions.Define(t.Context(), []models.Board{gifts(), active()}); err != nil {
			t.Fatal(err)
		}
		env.Clock.Set(*gifts().StartsAt)
		if err := c.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, change := range changes {
			def := gifts()
			change(&def)
			if err := c.Definitions.Define(t.Context(), []models.Board{def}); err == nil || !strings.Contains(err.Error(), "under way") {
				t.Errorf("%s under way: %v", name, err)
			}
			if err := c.Definitions.DefineMissing(t.Context(), []models.Board{def}); err != nil {
				t.Errorf("%s beside the service: %v", name, err)
			}
		}
		wider := active()
		wider.WindowHours = 48
		if err := c.Definitions.Define(t.Context(), []models.Board{wider}); err == nil || !strings.Contains(err.Error(), "under way") {
			t.Errorf("the window: %v", err)
		}
		def := gifts()
		def.Global, def.Unit = models.AudienceService, "coins"
		if err := c.Definitions.Define(t.Context(), []models.Board{def}); err != nil {
			t.Errorf("the audience and the unit: %v", err)
		}
		if b := testenv.Must(c.Definitions.Board("gifts")); b.Global != models.AudienceService || b.Unit != "coins" || !b.StartsAt.Equal(*gifts().StartsAt) {
			t.Errorf("it became %+v", b.Board)
		}
		byServices := steps()
		byServices.Uploads = models.AudienceService
		if err := c.Definitions.Define(t.Context(), []models.Board{byServices}); err != nil {
			t.Errorf("who uploads: %v", err)
		}
		if b := testenv.Must(c.Definitions.Board("steps")); b.MayUpload(false) == nil || b.MayUpload(true) != nil {
			t.Errorf("it became %+v", b.Board)
		}
	})
}

// A board can be added once, and other replicas see it after a refresh.
func TestAdd(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, _ := newCatalog(t, env, steps())
		other, _ := newCatalog(t, env, steps())
		if b, err := c.Definitions.Add(t.Context(), gifts(), true); err != nil || b.Name != "gifts" {
			t.Errorf("a dry run: %+v, %v", b, err)
		}
		if _, err := c.Definitions.Board("gifts"); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("after the dry run: %v", err)
		}
		b, err := c.Definitions.Add(t.Context(), gifts(), false)
		if err != nil || b.Name != "gifts" || b.CreatedAt.IsZero() {
			t.Fatalf("%+v, %v", b, err)
		}
		if _, err := c.Definitions.Add(t.Context(), gifts(), false); models.CodeOf(err) != models.CodeBoardExists {
			t.Errorf("again: %v", err)
		}
		if _, err := other.Definitions.Add(t.Context(), gifts(), true); models.CodeOf(err) != models.CodeBoardExists {
			t.Errorf("a dry run again: %v", err)
		}
		bad := gifts()
		bad.Name, bad.EndsAt = "other", nil
		if _, err := c.Definitions.Add(t.Context(), bad, false); models.CodeOf(err) != models.CodeValidationFailed || !strings.Contains(err.Error(), "end") {
			t.Errorf("without an end: %v", err)
		}
		if err := other.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Definitions.Board("gifts"); err != nil {
			t.Errorf("the other replica: %v", err)
		}
	})
}

// Totals expire when nobody reads them any more.
func TestExpiredTotals(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		env.Clock.Set(*gifts().StartsAt)
		c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
		if err := c.Definitions.Define(t.Context(), []models.Board{steps(), gifts(), active()}); err != nil {
			t.Fatal(err)
		}
		const retain = 60 * 24 * time.Hour
		for _, tt := range []struct {
			now  time.Time
			want []string
		}{
			{*gifts().StartsAt, []string{"active 1970010100-2026112812"}},
			{gifts().EndsAt.Add(retain), []string{"active 1970010100-2027020612"}},
			{gifts().EndsAt.Add(retain + 1), []string{"active 1970010100-2027020612", "gifts event-event"}},
		} {
			ranges, err := c.Buckets.ExpiredTotals(t.Context(), tt.now, retain)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range ranges {
				got = append(got, s.Bucket.Board+" "+s.Since+"-"+s.Total)
			}
			if strings.Join(got, ", ") != strings.Join(tt.want, ", ") {
				t.Errorf("at %v: %v, want %v", tt.now, got, tt.want)
			}
		}
	})
}
