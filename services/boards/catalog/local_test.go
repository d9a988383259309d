package catalog_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// local returns a board whose days are each user's own.
func local() models.Board {
	def := steps()
	def.TimeZone = models.LocalZone
	return def
}

func offset(t testing.TB, text string) models.UTCOffset {
	t.Helper()
	o, err := models.ParseUTCOffset(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Today is the date at the offset of the user's clock, and unknown without one.
func TestTodayOnALocalBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, local())
		now := *moment("2026-11-20T11:00:00Z")
		for text, want := range map[string]string{"+14:00": "2026-11-21", "+13:00": "2026-11-21", "+12:59": "2026-11-20", "-11:00": "2026-11-20", "-12:00": "2026-11-19"} {
			bucket, err := c.Buckets.Resolve(b, nil, now, offset(t, text))
			if err != nil || bucket.Day != day(t, want) || !bucket.Open(now) {
				t.Errorf("at %s: %+v, %v; want %s", text, bucket, err, want)
			}
		}
		if _, err := c.Buckets.Resolve(b, nil, now, models.UTCOffset{}); models.CodeOf(err) != models.CodeOffsetRequired {
			t.Errorf("without an offset: %v", err)
		}
		date := day(t, "2026-11-18")
		bucket, err := c.Buckets.Resolve(b, &date, now, models.UTCOffset{})
		if err != nil || !bucket.StartsAt.Equal(*moment("2026-11-17T10:00:00Z")) || !bucket.EndsAt.Equal(*moment("2026-11-19T12:00:00Z")) ||
			!bucket.ClosesAt.Equal(*moment("2026-11-21T12:00:00Z")) || !bucket.ColdAt.Equal(*moment("2026-11-22T12:00:00Z")) {
			t.Errorf("%v is %+v, %v", date, bucket, err)
		}
	})
}

// In a time zone it is the date there until the next midnight there, however long that day is.
func TestTodayInATimeZone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, tt := range []struct {
			board           models.Board
			zone, day, ends string
		}{
			{local(), "Europe/Berlin", "2026-10-25", "2026-10-25T23:00:00Z"}, // 25 hours long
			{local(), "Pacific/Kiritimati", "2026-10-26", "2026-10-26T10:00:00Z"},
			{steps(), "Europe/Berlin", "2026-10-25", "2026-10-25T16:00:00Z"}, // in Shanghai
		} {
			c, b := newCatalog(t, env, tt.board)
			zone := testenv.Must(time.LoadLocation(tt.zone))
			bucket, ends, err := c.Buckets.CurrentIn(b, *moment("2026-10-25T11:00:00Z"), zone)
			if err != nil || bucket.Day != day(t, tt.day) || !ends.Equal(*moment(tt.ends)) {
				t.Errorf("%s in %s: %+v until %v, %v", tt.board.TimeZone, tt.zone, bucket, ends, err)
			}
		}
	})
}

// Every date that it is somewhere has a bucket before it begins, so that uploads go on
// while Postgres is away.
func TestLocalDaysArePrepared(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		env.Clock.Set(*moment("2026-11-20T09:00:00Z")) // an hour before the 21st begins
		c, b := newCatalog(t, env, local())
		made := func(text string) bool {
			_, err := c.Buckets.Load(t.Context(), b.Name, text)
			if err != nil && !errors.Is(err, catalog.ErrNoBucket) {
				t.Fatal(err)
			}
			return err == nil
		}
		for text, want := range map[string]bool{"20261118": false, "20261119": true, "20261120": true, "20261121": true, "20261122": false} {
			if got := made(text); got != want {
				t.Errorf("%s was made: %t", text, got)
			}
		}
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		now := *moment("2026-11-20T10:00:00Z")
		for _, text := range []string{"2026-11-19", "2026-11-20", "2026-11-21"} {
			if _, err := c.Buckets.ForUpload(t.Context(), b, day(t, text), now); err != nil {
				t.Errorf("%s, with the database away: %v", text, err)
			}
		}
		if _, err := c.Buckets.ForUpload(t.Context(), b, day(t, "2026-11-22"), now); models.CodeOf(err) != models.CodeDateInFuture {
			t.Errorf("a date that it is nowhere yet: %v", err)
		}
	})
}

// The buckets that may be held in memory are those of all dates that it is somewhere, and
// the next date once it is made.
func TestCurrentAndNextOfALocalBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for at, want := range map[string][]string{
			"2026-11-20T09:00:00Z": {"20261119", "20261120", "20261121"}, // the 21st has not begun
			"2026-11-20T11:00:00Z": {"20261119", "20261120", "20261121"},
			"2026-11-20T13:00:00Z": {"20261120", "20261121"},
		} {
			now := *moment(at)
			env.Clock.Set(now)
			c, b := newCatalog(t, env, local())
			var held []string
			for _, bucket := range c.Buckets.CurrentAndNext(now) {
				held = append(held, bucket.Name)
			}
			slices.Sort(held)
			if !slices.Equal(held, want) {
				t.Errorf("at %s: %v, want %v", at, held, want)
			}
			for _, text := range []string{"-12:00", "+00:00", "+14:00"} {
				if bucket := testenv.Must(c.Buckets.Current(b, now, offset(t, text))); !slices.Contains(held, bucket.Name) {
					t.Errorf("at %s, at %s: %s is not among %v", at, text, bucket.Name, held)
				}
			}
		}
	})
}

// A board may change from a zone to local days and back. Its existing days keep their
// times, and today is the definition's.
func TestChangeToLocalDaysAndBack(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		newCatalog(t, env, steps())
		c, b := newCatalog(t, env, local())
		now := env.Clock.Now() // 2026-11-20T13:00Z, already the 21st in the farthest east
		for date, starts := range map[string]string{"2026-11-20": "2026-11-19T16:00:00Z", "2026-11-21": "2026-11-20T10:00:00Z"} {
			bucket, err := c.Buckets.ForUpload(t.Context(), b, day(t, date), now)
			if err != nil || !bucket.StartsAt.Equal(*moment(starts)) {
				t.Errorf("%s: %+v, %v", date, bucket, err)
			}
		}
		c, b = newCatalog(t, env, steps())
		for _, tt := range []struct{ now, want string }{
			{"2026-11-20T13:00:00Z", "2026-11-20"},
			{"2026-11-20T15:59:59Z", "2026-11-20"},
			{"2026-11-20T16:00:00Z", "2026-11-21"},
			{"2026-11-21T15:59:59Z", "2026-11-21"},
			{"2026-11-21T16:00:00Z", "2026-11-22"},
		} {
			env.Clock.Set(*moment(tt.now))
			if err := c.Definitions.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			if bucket := testenv.Must(c.Buckets.Current(b, *moment(tt.now), models.UTCOffset{})); bucket.Day != day(t, tt.want) {
				t.Errorf("at %s it is %v, want %s", tt.now, bucket.Day, tt.want)
			}
		}
	})
}

// The schedules of a local board are in UTC.
func TestZoneOfALocalBoard(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	c, b := newCatalog(t, env, local())
	if zones := c.Definitions.Zones(); len(zones) != 1 || zones[0] != time.UTC || b.Zone() != time.UTC {
		t.Errorf("zones %v", zones)
	}
}
