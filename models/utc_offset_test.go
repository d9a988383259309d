package models_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/models"
)

func TestParseUTCOffset(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"+08:00": "+08:00", " 08:00": "+08:00", "-03:30": "-03:30", "+14:00": "+14:00", "-12:00": "-12:00", "+00:00": "+00:00",
		"-00:00": "+00:00", "+05:45": "+05:45", " -08:00": "", "08:00": "", "+8:00": "", "+0800": "", "+08": "", "Z": "+00:00", "z": "", "": "", "+14:01": "", "-12:01": "",
		"+08:60": "", "+24:00": "", "  08:00": "", "+08:00 ": "", "Asia/Shanghai": "", "+08:00:00": "",
	} {
		offset, err := models.ParseUTCOffset(text)
		if (err == nil) != (want != "") || offset.String() != want {
			t.Errorf("%q is %v, %v; want %q", text, offset, err, want)
		}
	}
	if d, ok := (models.UTCOffset{}).Today(time.Now()); ok {
		t.Errorf("without an offset it is %v", d)
	}
}

// Today is the date on a clock with that offset, and the moment is between its midnights.
func TestTodayAtAnOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.IntRange(-12*60, 14*60).Draw(t, "minutes")
		now := time.Unix(rapid.Int64Range(-5_000_000_000, 5_000_000_000).Draw(t, "now"), 0)
		clock := now.In(time.FixedZone("", minutes*60))
		offset, err := models.ParseUTCOffset(clock.Format("-07:00"))
		if err != nil {
			t.Fatal(err)
		}
		today, ok := offset.Today(now)
		if !ok || today.String() != clock.Format(time.DateOnly) {
			t.Fatalf("at %v it is %v", clock, today)
		}
		if starts, ends := offset.StartOf(today), offset.StartOf(today+1); now.Before(starts) || !now.Before(ends) || ends.Sub(starts) != 24*time.Hour {
			t.Fatalf("at %v it is from %v to %v", clock, starts, ends)
		}
	})
}
