package models_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"stepboard/models"
)

func drawRow(t *rapid.T, label string) models.RowID {
	bits := rapid.IntRange(0, 52).Draw(t, label+" bits")
	return models.RowID(rapid.Int64Range(1, 1<<(bits+1)-1).Draw(t, label))
}

func TestCompareTextIsTheBytewiseOrderOfDecimals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRow(t, "a"), drawRow(t, "b")
		if rapid.Bool().Draw(t, "prefix") && a < models.MaxRowID/1000 {
			b = a * 1000
		}
		if got, want := a.CompareText(b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("%d against %d: %d, want %d", a, b, got, want)
		}
	})
}

func TestParseRowID(t *testing.T) {
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

func TestParseUserID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"1", "9223372036854775808", "01", "0", "-1", "c56a4180-65aa-42ec-a945-5fd21dec0538", "auth0|5f7c8ec7c33c6c004bbafe82",
		"oLVPpjqs9BhvzwPj5A-vTYAX3GLc", "...", ".a", "/", "a/", "//", "..a/b..", ".../.b", `"`, `\`, "{1}", "a/b?c=d&e#f%2F", "<b>", "~", "!", strings.Repeat("x", 128),
	} {
		if id, err := models.ParseUserID(good); err != nil || string(id) != good {
			t.Errorf("%q: %v, %v", good, id, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "../me", "a/..", "a/./b", "./a", "/..", "//.", " ", "a b", " a", "a\t", "a\n", "a\x00", "a\x7f", "é", "१", "a\xff", "\ufeffa", strings.Repeat("x", 129)} {
		if id, err := models.ParseUserID(bad); err == nil {
			t.Errorf("%q was read as %v", bad, id)
		}
	}
}

// drawEntry draws the entry of a user. Its texts are known to be plain or not.
// anonymousLine is how encoding/json writes who an anonymous line is about.
const anonymousLine = `"user_id":"","nickname":"","avatar_url":"","anonymous":true`

func drawEntry(t *rapid.T) models.RankedEntry {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom(oddTexts), rapid.StringMatching(`[ -~]{0,20}`))
	e := models.RankedEntry{
		Rank: rapid.Int64Min(1).Draw(t, "rank"),
		User: models.UserID(texts.Draw(t, "user")), Nickname: texts.Draw(t, "nickname"),
		AvatarURL: models.URL{
			Begin: rapid.SampledFrom([]string{"", "https://example.com/", "\xff<&>\"/"}).Draw(t, "begin"),
			Rest:  rapid.OneOf(texts, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "rest"),
		},
		Score: rapid.Int64Range(0, 1<<40).Draw(t, "score"),
		ReachedAt: models.Timestamp(rapid.OneOf(
			rapid.Int64Range(0, 4e12),
			rapid.Int64Range(1_795_132_800_000, 1_795_132_800_000+2*86_400_000-1), // two days
		).Draw(t, "reached at")),
		Days: rapid.Int64Range(0, 31).Draw(t, "days"),
	}
	if models.IsPlain(string(e.User)) && models.IsPlain(e.Nickname) && models.IsPlain(e.AvatarURL.String()) {
		e.Plain = rapid.Bool().Draw(t, "known to be plain")
	}
	if rapid.Bool().Draw(t, "likes are included") {
		likes, liked := rapid.Int64Min(0).Draw(t, "likes"), rapid.Bool().Draw(t, "liked")
		e.Likes, e.Liked = &likes, &liked
	}
	if rapid.IntRange(0, 3).Draw(t, "anonymous") == 0 {
		e.Anonymize()
	}
	return e
}

// oddTexts are texts that an encoder may get wrong.
var oddTexts = []string{
	"<b>Ann & \"Ben\"</b>", "\u2028 \u2029", "\xff\xc0\xaf", "a\xe2\x80",
	"\x00\x1f\x7f\b\f\n\r\t", `\\/`, "\ufffd", "👩‍👩‍👧", "\u202e",
}

// The hand-written encoding equals that of encoding/json for the same types, with null as
// the user of anonymous lines and each string in its shortest form, so that responses always
// match their description in OpenAPI.
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
		if rapid.Bool().Draw(t, "span") {
			from, to := "2026-11-16", "2026-11-22"
			r.From, r.To = &from, &to
		}
		if rapid.Bool().Draw(t, "me") {
			me := drawEntry(t)
			r.Me = &me
		}
		if rapid.Bool().Draw(t, "champion") {
			e := drawEntry(t)
			r.Champion = &models.Champion{User: e.User, Nickname: e.Nickname, AvatarURL: e.AvatarURL, CoverURL: e.Nickname}
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
		shortest := jsontext.Value(want.Bytes())
		if err := shortest.Format(); err != nil {
			t.Fatal(err)
		}
		got := string(r.AppendJSON(nil))
		wanted := strings.ReplaceAll(string(shortest), anonymousLine, strings.Replace(anonymousLine, `""`, "null", 1))
		if got != wanted {
			t.Fatalf("got  %s\nwant %s", got, wanted)
		}
	})
}

// Rankings that are made at the same time share no entries, also if those of earlier ones
// are used again.
func TestReleasedRankings(t *testing.T) {
	t.Parallel()
	var making sync.WaitGroup
	for worker := range int64(4) {
		making.Go(func() {
			for i := range int64(200) {
				var r models.Ranking
				r.MakeEntries(int(1 + i%5))
				for j := range r.Entries {
					if r.Entries[j] != (models.RankedEntry{}) {
						t.Errorf("a new entry is %v", r.Entries[j])
					}
					r.Entries[j] = models.RankedEntry{Rank: i, Score: worker}
				}
				want := slices.Repeat([]models.RankedEntry{{Rank: i, Score: worker}}, len(r.Entries))
				if !slices.Equal(r.Entries, want) {
					t.Errorf("the entries are %v, want %v", r.Entries, want)
				}
				r.Release()
			}
		})
	}
	making.Wait()
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

// The times of a ranking are those of the standard library, on every day of the calendar and
// beyond, whatever time was written before.
func TestTimesOfARankingAreTheLibrarys(t *testing.T) {
	t.Parallel()
	check := func(t interface {
		Helper()
		Fatalf(format string, args ...any)
	}, times ...models.Timestamp) {
		t.Helper()
		r := models.Ranking{Entries: make([]models.RankedEntry, len(times))}
		for i, at := range times {
			r.Entries[i].ReachedAt = at
		}
		var got struct {
			Entries []struct {
				ReachedAt string `json:"reached_at"`
			}
		}
		if err := json.Unmarshal(r.AppendJSON(nil), &got); err != nil {
			t.Fatalf("%v", err)
		}
		for i, at := range times {
			if want := at.Time().Format("2006-01-02T15:04:05.000Z"); got.Entries[i].ReachedAt != want {
				t.Fatalf("%d is %s, want %s", int64(at), got.Entries[i].ReachedAt, want)
			}
		}
	}
	times := rapid.SliceOfN(rapid.OneOf(
		rapid.Int64Range(-62_200_000_000_000, 253_500_000_000_000), // around the years 0 to 10,000
		rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000),
		rapid.Int64Range(-100_000_000, 100_000_000), // around 1970
	), 1, 5)
	rapid.Check(t, func(t *rapid.T) {
		var drawn []models.Timestamp
		for _, at := range times.Draw(t, "times") {
			near := rapid.Int64Range(-90_000_000, 90_000_000).Draw(t, "another one near it")
			drawn = append(drawn, models.Timestamp(at), models.Timestamp(at+near))
		}
		check(t, drawn...)
	})
	var midnights []models.Timestamp
	for d := models.Date(-1000); d < 100_000; d++ {
		midnights = append(midnights, models.TimestampOf(d.UTC()))
	}
	check(t, midnights...)
}
