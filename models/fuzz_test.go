package models_test

import (
	"testing"

	"stepboard/models"
)

// Each text that a parser accepts is the one that its value is written as, apart from the
// several ways to write an offset or a time.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"1001", "9007199254740992", "auth0|5f7c", "..", "2026-11-20", "0000-01-01", "9999-12-31", "+08:00", " 03:30", "-12:00",
		"2026-11-20T13:00:00.123Z", "0000-01-01T00:00:00+14:00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := models.ParseRowID(text); err == nil && (id.String() != text || !id.Valid()) {
			t.Errorf("row id %q is %d", text, id)
		}
		if id, err := models.ParseUserID(text); err == nil && (string(id) != text || !id.Valid()) {
			t.Errorf("user id %q is %q", text, id)
		}
		if d, err := models.ParseDate(text); err == nil && (d.String() != text || models.DateOf(d.UTC()) != d) {
			t.Errorf("date %q is %v", text, d)
		}
		if o, err := models.ParseUTCOffset(text); err == nil {
			if again, err := models.ParseUTCOffset(o.String()); err != nil || again != o {
				t.Errorf("offset %q is %v, and then %v, %v", text, o, again, err)
			}
		}
		var at, again models.Timestamp
		if err := at.UnmarshalText([]byte(text)); err == nil {
			written, _ := at.MarshalText() // it has no error
			if err := again.UnmarshalText(written); err != nil || again != at {
				t.Errorf("time %q is %s, and then %v, %v", text, written, again, err)
			}
		}
	})
}
