package models_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/models"
)

func drawUser(t *rapid.T, label string) models.RowID {
	bits := rapid.IntRange(0, 52).Draw(t, label+" bits")
	return models.RowID(rapid.Int64Range(1, 1<<(bits+1)-1).Draw(t, label))
}

func TestCompareTextIsTheBytewiseOrderOfDecimals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUser(t, "a"), drawUser(t, "b")
		if rapid.Bool().Draw(t, "prefix") && a < models.MaxRowID/1000 {
			b = a * 1000
		}
		if got, want := a.CompareText(b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("%d against %d: %d, want %d", a, b, got, want)
		}
	})
}

func TestParseUserID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"1", "1001", "9007199254740991"} {
		if id, err := models.ParseRowID(good); err != nil || id.String() != good {
			t.Errorf("%q: %v, %v", good, id, err)
		}
	}
	for _, bad := range []string{
		"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "1e3", "0x1", "9007199254740992",
		"99999999999999999999", "1\x00", "{1}", "१", "one",
	} {
		if id, err := models.ParseRowID(bad); err == nil {
			t.Errorf("%q was read as %d", bad, id)
		}
	}
}

func FuzzParseUserID(f *testing.F) {
	f.Add("1001")
	f.Add("9007199254740992")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := models.ParseRowID(s)
		if err == nil && (id.String() != s || !id.Valid()) {
			t.Errorf("%q was read as %d", s, id)
		}
	})
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"2026-11-20", "2024-02-29", "1969-12-31", "0001-01-01", "9999-12-31"} {
		if d, err := models.ParseDate(good); err != nil || d.String() != good {
			t.Errorf("%q: %v, %v", good, d, err)
		}
	}
	for _, bad := range []string{"", "2026-02-29", "2026-13-01", "2026-1-1", "20261120", "2026-11-20T00:00:00Z", "tomorrow", "-001-01-01", "10000-01-01"} {
		if d, err := models.ParseDate(bad); err == nil {
			t.Errorf("%q was read as %v", bad, d)
		}
	}
}

func TestCursorsCarryTheirPlaceAndNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		place := models.Cursor{Key: rapid.Int64Min(0).Draw(t, "key"), User: drawUser(t, "user")}
		scope := rapid.SliceOfN(rapid.StringN(0, 8, -1), 1, 4).Draw(t, "scope")
		cursor := models.EncodeCursor(place, scope...)
		got, err := models.DecodeCursor(cursor, scope...)
		if err != nil || got != place {
			t.Fatalf("read back %v, %v, want %v", got, err, place)
		}
		if _, err := models.DecodeCursor(cursor, append([]string{"other"}, scope...)...); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Fatalf("taken in another list: %v", err)
		}
		at := rapid.IntRange(0, len(cursor)-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("AZaz09-_=+ ")).Draw(t, "with")
		damaged := cursor[:at] + string(with) + cursor[at+1:]
		if damaged != cursor {
			if got, err := models.DecodeCursor(damaged, scope...); models.CodeOf(err) != models.CodeInvalidCursor {
				t.Fatalf("%q for %q was read as %v, %v", damaged, cursor, got, err)
			}
		}
	})
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add(models.EncodeCursor(models.Cursor{Key: 1 << 52, User: 1001}, "friends", "steps"))
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		place, err := models.DecodeCursor(cursor, "friends", "steps")
		if err == nil && models.EncodeCursor(place, "friends", "steps") != cursor {
			t.Errorf("%q is not the cursor of %v", cursor, place)
		}
	})
}

func drawEntry(t *rapid.T) models.RankedEntry {
	return models.RankedEntry{
		Rank:      rapid.Int64Min(1).Draw(t, "rank"),
		User:      drawUser(t, "user"),
		Nickname:  rapid.String().Draw(t, "nickname"),
		AvatarURL: string(rapid.SliceOf(rapid.Byte()).Draw(t, "avatar")),
		Score:     rapid.Int64Range(0, 1<<40).Draw(t, "score"),
		ReachedAt: models.Timestamp(rapid.Int64Range(0, 4e12).Draw(t, "reached at")),
	}
}

// The hand-written encoding equals that of encoding/json for the same types,
// so that responses always match their description in OpenAPI.
func TestRankingEncodesAsEncodingJSONWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := models.Ranking{
			Board:   rapid.StringMatching(`[a-z0-9-]{1,40}`).Draw(t, "board"),
			Source:  models.SourceHot,
			Final:   rapid.Bool().Draw(t, "final"),
			Total:   rapid.Int64Min(0).Draw(t, "total"),
			Entries: []models.RankedEntry{},
		}
		if rapid.Bool().Draw(t, "dated") {
			date := "2026-11-20"
			r.Date = &date
		}
		if rapid.Bool().Draw(t, "me") {
			me := drawEntry(t)
			r.Me = &me
		}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			r.Entries = append(r.Entries, drawEntry(t))
		}
		if rapid.Bool().Draw(t, "more") {
			next := rapid.String().Draw(t, "next")
			r.NextCursor = &next
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
		got := string(r.AppendJSON(nil))
		if got != strings.TrimSuffix(want.String(), "\n") {
			t.Fatalf("got  %s\nwant %s", got, want.String())
		}
	})
}

func TestTimestampText(t *testing.T) {
	t.Parallel()
	at := models.TimestampOf(time.Date(2026, 11, 20, 21, 0, 0, 123_900_000, time.FixedZone("+8", 8*3600)))
	text, err := at.MarshalText()
	if err != nil || string(text) != "2026-11-20T13:00:00.123Z" {
		t.Fatalf("%s, %v", text, err)
	}
	var back models.Timestamp
	if err := back.UnmarshalText(text); err != nil || back != at {
		t.Fatalf("%v, %v", back, err)
	}
}

// The text equals that of the standard library, on every day of the calendar and
// beyond.
func TestTimestampTextIsTheLibrarys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := models.Timestamp(rapid.OneOf(
			rapid.Int64Range(-62_200_000_000_000, 253_500_000_000_000), // around the years 0 to 10,000
			rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000),
		).Draw(t, "at"))
		want := at.Time().Format("2006-01-02T15:04:05.000Z")
		if got := string(at.AppendTo(nil)); got != want {
			t.Fatalf("%d is %s, want %s", int64(at), got, want)
		}
	})
	for d := models.Date(-1000); d < 100_000; d++ {
		at := models.TimestampOf(d.UTC())
		if got := string(at.AppendTo(nil)); got != d.String()+"T00:00:00.000Z" {
			t.Fatalf("%v is %s", d, got)
		}
	}
}
