package catalog

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// zonedBoard returns a daily board in a time zone.
func zonedBoard(t rapid.TB, zone string, openDays int) *Board {
	t.Helper()
	b, err := NewBoard(models.Board{
		Name: "steps", Kind: models.KindDaily, TimeZone: zone, OpenDays: openDays, MaxScore: 100_000, Shards: 1, Global: models.AudienceUsers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A day takes uploads while it is today or one of the open days before, and every
// moment at which it does fits its composites. It turns cold at least a day later.
func TestOpenDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		openDays := rapid.IntRange(0, models.MaxOpenDays).Draw(t, "open days")
		hotDays := rapid.IntRange(2, 30).Draw(t, "hot days")
		b := zonedBoard(t, rapid.SampledFrom(strangeZones).Draw(t, "zone"), openDays)
		now := time.UnixMilli(rapid.Int64Range(100_000_000_000, 2_200_000_000_000).Draw(t, "now")).UTC()
		today := dayAt(now, b.zone)
		d := today + models.Date(rapid.IntRange(-33, 2).Draw(t, "day"))
		bucket, err := b.kind.bucketForDay(b, d, hotDays)
		if err != nil {
			t.Fatal(err)
		}
		var want models.Code
		switch {
		case d > today:
			want = models.CodeDateInFuture
		case d < today-models.Date(openDays):
			want = models.CodeDateClosed
		}
		if got := models.CodeOf(checkOpen(bucket, d, now)); got != want {
			t.Fatalf("%v on %v: %q, want %q", d, today, got, want)
		}
		if want == "" {
			codec := score.Of(bucket)
			if _, err := codec.Encode(bucket.Points(b.MaxScore), codec.Cut(models.TimestampOf(now))); err != nil {
				t.Fatal(err)
			}
		}
		if cold := today > d+models.Date(max(hotDays, openDays+1)); bucket.Cold(now) != cold {
			t.Fatalf("%v on %v with %d hot and %d open days: cold is %t", d, today, hotDays, openDays, !cold)
		}
	})
}

// On a board whose days are each user's own, a date takes uploads from when it begins
// first, at UTC+14, until the open days after it are over everywhere, at UTC−12.
func TestOpenLocalDays(t *testing.T) {
	t.Parallel()
	east, west := time.FixedZone("", 14*3600), time.FixedZone("", -12*3600)
	rapid.Check(t, func(t *rapid.T) {
		openDays := rapid.IntRange(0, models.MaxOpenDays).Draw(t, "open days")
		hotDays := rapid.IntRange(2, 30).Draw(t, "hot days")
		b := zonedBoard(t, models.LocalZone, openDays)
		now := time.UnixMilli(rapid.Int64Range(100_000_000_000, 2_200_000_000_000).Draw(t, "now")).UTC()
		newest, oldest := models.DateOf(now.In(east)), models.DateOf(now.In(west))
		d := newest + models.Date(rapid.IntRange(-34, 2).Draw(t, "day"))
		bucket, err := b.kind.bucketForDay(b, d, hotDays)
		if err != nil {
			t.Fatal(err)
		}
		var want models.Code
		switch {
		case d > newest:
			want = models.CodeDateInFuture
		case d < oldest-models.Date(openDays):
			want = models.CodeDateClosed
		}
		if got := models.CodeOf(checkOpen(bucket, d, now)); got != want {
			t.Fatalf("%v at %v: %q, want %q", d, now, got, want)
		}
		if want == "" {
			codec := score.Of(bucket)
			if _, err := codec.Encode(bucket.Points(b.MaxScore), codec.Cut(models.TimestampOf(now))); err != nil {
				t.Fatal(err)
			}
		}
		if cold := oldest > d+models.Date(max(hotDays, openDays+1)); bucket.Cold(now) != cold {
			t.Fatalf("%v at %v with %d hot and %d open days: cold is %t", d, now, hotDays, openDays, !cold)
		}
	})
}

// Wherever a user is, and however often the clocks change there: today's date can be
// uploaded and is found by the clock's offset, and each date takes uploads at least
// until the open days after it are over on the user's own calendar.
func TestLocalDaysInEveryZone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		openDays := rapid.IntRange(0, models.MaxOpenDays).Draw(t, "open days")
		b := zonedBoard(t, models.LocalZone, openDays)
		name := rapid.SampledFrom(strangeZones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(rapid.Int64Range(100_000_000, 2_200_000_000).Draw(t, "now"), 0).In(loc)
		offset, err := models.ParseUTCOffset(now.Format("-07:00"))
		if err != nil {
			t.Fatal(err)
		}
		today, _ := offset.Today(now)
		if today != models.DateOf(now) {
			t.Fatalf("today is %v at %v", today, now)
		}
		for ago := range openDays + 1 {
			bucket, err := b.kind.bucketForDay(b, today-models.Date(ago), 3)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkOpen(bucket, today-models.Date(ago), now); err != nil {
				t.Fatalf("%d days ago, at %v: %v", ago, now, err)
			}
		}
	})
}
