package handlers

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
)

// The pattern of the API's description and models.ParseUserID agree, because Huma
// checks the ids of paths and queries by the pattern alone.
func TestUserIDPattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(userIDPattern)
	text := rapid.OneOf(
		rapid.StringMatching(`[.!/~a -]{0,4}`), rapid.StringMatching(`[!-~]{126,130}`), rapid.StringN(0, 4, -1),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes")) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := text.Draw(t, "id")
		_, err := models.ParseUserID(id)
		if got := pattern.MatchString(id) && len(id) <= models.MaxUserID; got != (err == nil) {
			t.Errorf("%q matches: %v, ParseUserID: %v", id, got, err)
		}
	})
}
