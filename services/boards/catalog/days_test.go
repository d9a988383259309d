package catalog

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/models"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func date(t testing.TB, text string) models.Date {
	t.Helper()
	d, err := models.ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStartOfDay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, zone, day string
		start           string
		length          time.Duration
	}{
		{"a plain day", "Asia/Shanghai", "2026-11-20", "2026-11-19T16:00:00Z", 24 * time.Hour},
		{"clocks go forward", "Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", 23 * time.Hour},
		{"clocks go back", "Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", 25 * time.Hour},
		{"midnight is skipped", "Asia/Beirut", "2022-03-27", "2022-03-26T22:00:00Z", 23 * time.Hour},
		{"midnight comes twice", "America/Havana", "2022-11-06", "2022-11-06T04:00:00Z", 25 * time.Hour},
		{"clocks go back over midnight", "America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z", 25 * time.Hour},
		{"a zone two hours of summer", "Antarctica/Troll", "2026-10-25", "2026-10-24T22:00:00Z", 26 * time.Hour},
		{"the day that Samoa left out", "Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z", 0},
		{"the day before it", "Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00Z", 24 * time.Hour},
		{"the farthest east", "Pacific/Kiritimati", "2026-11-20", "2026-11-19T10:00:00Z", 24 * time.Hour},
		{"the farthest west", "Etc/GMT+12", "2026-11-20", "2026-11-20T12:00:00Z", 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			loc, d := zone(t, tt.zone), date(t, tt.day)
			start := startOfDay(d, loc)
			if got := start.Format(time.RFC3339); got != tt.start {
				t.Errorf("starts at %s, want %s", got, tt.start)
			}
			if got := startOfDay(d+1, loc).Sub(start); got != tt.length {
				t.Errorf("lasts %v, want %v", got, tt.length)
			}
		})
	}
}

// The zone's clock shows the hour at each of its moments, or just after a change that has
// skipped it.
func TestMoments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zone, day     string
		hour          int
		first, second string
	}{
		{"Europe/Berlin", "2026-11-20", 13, "2026-11-20T12:00:00Z", ""},
		{"Europe/Berlin", "2026-10-25", 2, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25", 3, "2026-10-25T02:00:00Z", ""},
		{"Europe/Berlin", "2026-03-29", 2, "2026-03-29T01:00:00Z", ""},
		{"Asia/Beirut", "2022-03-27", 0, "2022-03-26T22:00:00Z", ""},
		{"America/Havana", "2022-11-06", 0, "2022-11-06T04:00:00Z", "2022-11-06T05:00:00Z"},
		{"America/Sao_Paulo", "2018-02-17", 23, "2018-02-18T01:00:00Z", "2018-02-18T02:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-05", 2, "2026-04-04T15:30:00Z", ""},
		{"UTC", "2026-11-20", 23, "2026-11-20T23:00:00Z", ""},
	} {
		first, second := Moments(date(t, tt.day), tt.hour, zone(t, tt.zone))
		got := []string{first.Format(time.RFC3339), ""}
		if !second.IsZero() {
			got[1] = second.Format(time.RFC3339)
		}
		if got[0] != tt.first || got[1] != tt.second {
			t.Errorf("%s %s %d:00 is at %v, want %s %s", tt.zone, tt.day, tt.hour, got, tt.first, tt.second)
		}
	}
}

// strangeZones are zones with clock changes of all kinds, and the farthest ones.
var strangeZones = []string{
	"Asia/Shanghai", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "America/Havana",
	"Asia/Beirut", "Asia/Kathmandu", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kiritimati",
	"Pacific/Kwajalein", "Etc/GMT+12", "Etc/GMT-14", "UTC",
}

// Every moment belongs to exactly one day: the last one that has started.
func TestDaysPartitionTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(strangeZones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(0, 2_200_000_000).Draw(t, "at"), 0)
		d := dayAt(at, loc)
		if at.Before(startOfDay(d, loc)) || !at.Before(startOfDay(d+1, loc)) {
			t.Fatalf("%v belongs to %v, which lasts from %v to %v", at.In(loc), d, startOfDay(d, loc), startOfDay(d+1, loc))
		}
		openDays := rapid.IntRange(0, models.MaxOpenDays).Draw(t, "open days")
		if span := startOfDay(d+1+models.Date(openDays), loc).Sub(startOfDay(d, loc)); span > dailySpan(false, openDays) {
			t.Fatalf("%v takes updates for %v", d, span)
		}
	})
}
