package jobs_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/jobs"
)

// firings returns the next n firings after a moment, in real time.
func firings(t *testing.T, spec string, from string, n int, clock func() time.Time, zones ...string) []string {
	t.Helper()
	schedule := testenv.Must(jobs.Zoned(spec, func() []*time.Location { return locations(zones...) }, clock))
	at := testenv.Must(time.Parse(time.RFC3339, from))
	var list []string
	for range n {
		next := schedule.Next(at)
		if !next.After(at) {
			t.Fatalf("after %v comes %v", at, next)
		}
		at = next
		list = append(list, at.Format(time.RFC3339))
	}
	return list
}

func locations(names ...string) []*time.Location {
	var zones []*time.Location
	for _, name := range names {
		zones = append(zones, testenv.Must(time.LoadLocation(name)))
	}
	return zones
}

func TestZoned(t *testing.T) {
	t.Parallel()
	const shanghai, newYork, kolkata = "Asia/Shanghai", "America/New_York", "Asia/Kolkata"
	shifted := func(offset time.Duration) func() time.Time {
		return func() time.Time { return time.Now().Add(offset) }
	}
	tests := []struct {
		name   string
		spec   string
		from   string
		offset time.Duration
		zones  []string
		want   []string
	}{
		{"one zone", "30 3 * * *", "2026-11-20T13:00:00Z", 0, []string{shanghai},
			[]string{"2026-11-20T19:30:00Z", "2026-11-21T19:30:00Z"}},
		{"a zone twice", "30 3 * * *", "2026-11-20T13:00:00Z", 0, []string{shanghai, shanghai},
			[]string{"2026-11-20T19:30:00Z", "2026-11-21T19:30:00Z"}},
		{"several zones", "30 3 * * *", "2026-11-20T13:00:00Z", 0, []string{shanghai, newYork, kolkata},
			[]string{"2026-11-20T19:30:00Z", "2026-11-20T22:00:00Z", "2026-11-21T08:30:00Z", "2026-11-21T19:30:00Z"}},
		{"no board yet", "30 3 * * *", "2026-11-20T13:00:00Z", 0, nil,
			[]string{"2026-11-21T03:30:00Z"}},
		{"an answer in the zone of the question", "30 3 * * *", "2026-11-20T21:00:00+08:00", 0, []string{newYork},
			[]string{"2026-11-21T16:30:00+08:00"}},
		{"a descriptor", "@daily", "2026-11-20T13:00:00Z", 0, []string{shanghai},
			[]string{"2026-11-20T16:00:00Z"}},
		{"an interval knows no zones", "@every 90m", "2026-11-20T13:00:00Z", 0, []string{shanghai, newYork},
			[]string{"2026-11-20T14:30:00Z"}},
		{"a clock five hours and a bit ahead", "30 3 * * *", "2026-11-20T13:00:00Z", 5*time.Hour + 7*time.Second, []string{shanghai},
			[]string{"2026-11-20T14:29:53Z", "2026-11-21T14:29:53Z"}},
		{"a clock two days behind, where it is a Friday", "30 3 * * FRI", "2026-11-20T13:00:00Z", -48 * time.Hour, []string{shanghai},
			[]string{"2026-11-21T19:30:00Z", "2026-11-28T19:30:00Z"}},
		{"the hour that New York skips on 8 March", "30 2 * * *", "2026-03-07T00:00:00Z", 0, []string{newYork},
			[]string{"2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"several times of that hour", "*/20 2 * * *", "2026-03-08T00:00:00Z", 0, []string{newYork},
			[]string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z", "2026-03-09T06:20:00Z"}},
		{"the hour that Helsinki skips on 29 March", "30 3 * * *", "2026-03-28T12:00:00Z", 0, []string{"Europe/Helsinki"},
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"the first minute after that hour", "0 4 * * *", "2026-03-28T12:00:00Z", 0, []string{"Europe/Helsinki"},
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"}},
		{"an interval", "@every 10m", "2026-03-29T00:55:00Z", 0, []string{"Europe/Helsinki"},
			[]string{"2026-03-29T01:05:00Z"}},
		{"another zone is not held up by that", "30 2 * * *", "2026-03-07T07:30:00Z", 0, []string{newYork, shanghai},
			[]string{"2026-03-07T18:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T18:30:00Z", "2026-03-09T06:30:00Z"}},
		{"the hour that New York repeats on 1 November", "30 1 * * *", "2026-10-31T12:00:00Z", 0, []string{newYork},
			[]string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := firings(t, test.spec, test.from, len(test.want), shifted(test.offset), test.zones...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever clock changes a zone has, a nightly job misses no night.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	tests := []struct{ zone, from string }{
		{"America/New_York", "2026-01-01T00:00:00Z"},
		{"Europe/Berlin", "2026-01-01T00:00:00Z"},
		{"Australia/Lord_Howe", "2026-01-01T00:00:00Z"}, // by half an hour
		{"America/Sao_Paulo", "2018-01-01T00:00:00Z"},   // at midnight
		{"Africa/Cairo", "2026-01-01T00:00:00Z"},        // at midnight
		{"America/St_Johns", "2010-06-01T00:00:00Z"},    // a minute past midnight
		{"Pacific/Apia", "2011-06-01T00:00:00Z"},        // skipped a whole day
		{"Africa/Casablanca", "2026-01-01T00:00:00Z"},   // for Ramadan
		{"Asia/Pyongyang", "2018-01-01T00:00:00Z"},      // a new zone, by half an hour
	}
	for _, test := range tests {
		for _, spec := range []string{"0 0 * * *", "15 0 * * *", "0 2 * * *", "30 2 * * *", "30 3 * * *", "45 23 * * *"} {
			at := testenv.Must(time.Parse(time.RFC3339, test.from))
			for _, text := range firings(t, spec, test.from, 400, time.Now, test.zone) {
				next := testenv.Must(time.Parse(time.RFC3339, text))
				if next.Sub(at) > 25*time.Hour {
					t.Errorf("%s in %s: nothing from %v to %v", spec, test.zone, at, next)
				}
				at = next
			}
		}
	}
}

// The zone of a board that is defined later counts from the next firing on.
func TestZonesAreReadAnew(t *testing.T) {
	t.Parallel()
	zones := locations("Asia/Shanghai")
	schedule := testenv.Must(jobs.Zoned("30 3 * * *", func() []*time.Location { return zones }, time.Now))
	at := schedule.Next(testenv.Noon)
	zones = append(zones, locations("Asia/Kolkata")...)
	if next := schedule.Next(at); next.Sub(at) != 150*time.Minute {
		t.Errorf("after %v comes %v", at, next)
	}
}

// On a shifted clock a job runs at the start, and then once when that clock says so.
func TestScheduledByAShiftedClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		shanghai := locations("Asia/Shanghai")
		clock := func() time.Time { return time.Now().Add(-31*time.Hour - 13*time.Minute) }
		schedule := testenv.Must(jobs.Zoned("30 3 * * *", func() []*time.Location { return shanghai }, clock))
		var at []string
		stop := s.start(jobs.Job{Name: "archive", Schedule: schedule, Deadline: time.Hour, Run: func(context.Context) (int64, error) {
			at = append(at, clock().In(shanghai[0]).Format(time.DateTime))
			return 0, nil
		}})
		<-time.After(72 * time.Hour) // from 2000-01-01 00:00 UTC on
		stop()
		if want := []string{"1999-12-31 00:47:00", "1999-12-31 03:30:00", "2000-01-01 03:30:00", "2000-01-02 03:30:00"}; !slices.Equal(at, want) {
			t.Errorf("ran at %v", at)
		}
	})
}

func TestCheckSpec(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"30 3 * * *", "*/5 * * * *", "0 4 1,15 JAN-MAR mon-fri", "0 0 29 2 *", "@daily", "@hourly", "@every 1s", "@every 1h30m"} {
		if err := jobs.CheckSpec(spec); err != nil {
			t.Errorf("%q: %v", spec, err)
		}
	}
	tests := []struct{ spec, want string }{
		{"", "empty"},
		{"30 3 * *", "5 fields"},
		{"0 30 3 * * *", "5 fields"},
		{"60 3 * * *", "60"},
		{"30 3 * * someday", "someday"},
		{"0 0 30 2 *", "no such time"},
		{", 3 * * *", "no such time"},
		{"@fortnightly", "@fortnightly"},
		{"@every", "@every"},
		{"@every -5m", "second or more"},
		{"@every 10ms", "second or more"},
		{"TZ=Asia/Shanghai 30 3 * * *", "no time zone"},
		{"CRON_TZ=Asia/Shanghai 30 3 * * *", "no time zone"},
		{"TZ=Asia/Shanghai", "no time zone"},
	}
	for _, test := range tests {
		err := jobs.CheckSpec(test.spec)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v", test.spec, err)
		}
		if schedule, err := jobs.Zoned(test.spec, nil, time.Now); err == nil || schedule != nil {
			t.Errorf("%q is scheduled", test.spec)
		}
	}
}

// A valid expression fires, and later each time.
func FuzzCheckSpec(f *testing.F) {
	for _, spec := range []string{"30 3 * * *", "*/5 0-6/2 1,15 JAN mon", "@daily", "@every 1h", "TZ=UTC @daily", "0 0 29 2 *"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		schedule, err := jobs.Zoned(spec, func() []*time.Location { return locations("America/New_York") }, time.Now)
		if err != nil {
			return
		}
		if next := schedule.Next(testenv.Noon); !next.After(testenv.Noon) {
			t.Errorf("%q: after %v comes %v", spec, testenv.Noon, next)
		}
	})
}
