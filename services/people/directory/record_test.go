package directory_test

import (
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/people/directory"
)

func TestRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := models.Record{
			Row:     models.RowID(rapid.Int64Range(1, int64(models.MaxRowID)).Draw(t, "row")),
			User:    rapid.Map(rapid.StringMatching(`[!-~]{3,128}`), func(s string) models.UserID { return models.UserID(s) }).Filter(models.UserID.Valid).Draw(t, "user"),
			Version: rapid.Int64Range(0, 1<<45-1).Draw(t, "version"),
			Hidden:  rapid.Bool().Draw(t, "hidden"),
			Profile: models.Profile{Nickname: rapid.String().Draw(t, "nickname"), AvatarURL: rapid.String().Draw(t, "avatar"), CoverURL: rapid.String().Draw(t, "cover")},
		}
		data := string(directory.Encode(want))
		if got, err := directory.Decode(data); err != nil || got != want {
			t.Fatalf("%q is read as %v, %v, want %v", data, got, err, want)
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if got, err := directory.Decode(data[:cut]); err == nil {
			t.Fatalf("%q is read as %v", data[:cut], got)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(string(directory.Encode(models.Record{Row: 1, User: "ann", Version: 5, Profile: models.Profile{Nickname: "Ann"}})))
	f.Add("")
	f.Add("0000000000000001")
	f.Fuzz(func(t *testing.T, data string) {
		if r, err := directory.Decode(data); err == nil && (!r.Row.Valid() || r.Version < 0 || r.User == "") {
			t.Errorf("%q is read as %v", data, r)
		}
	})
}

// Whatever the bytes of a slab are, they are read as a record that has these bytes, apart
// from flags that do not fit the texts and numbers that are longer than necessary, or not
// at all.
func FuzzDecodeHeld(f *testing.F) {
	begins := []string{"", "https://example.com/"}
	f.Add("")
	f.Add("\x01\x05\x02\x01\x03ann\x04Anna1.png")
	f.Add("\x05\x05\x02\x01\x03ann\x04Anna\x05c.png1.png")
	f.Add("\x00\x05\x02\x00\x03ann\x04\"Al\"")
	f.Add("\x01\x05\x02\x02\x03ann\x00")
	f.Add("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, data string) {
		again, ok := directory.DecodeHeld(data, begins)
		if !ok {
			return
		}
		if twice, ok := directory.DecodeHeld(again, begins); !ok || twice != again || len(again) > len(data) {
			t.Errorf("%q is encoded as %q, and then as %q, %v", data, again, twice, ok)
		}
	})
}
