package harness

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// NoonDay is the day of testenv.Noon.
var NoonDay = testenv.Must(models.ParseDate("2026-11-20"))

// Score is a user's score and when it was reached.
type Score struct {
	User   models.RowID
	Points int64
	At     models.Timestamp
}

// Compare returns a negative number if s ranks before other.
func (s Score) Compare(other Score) int {
	return cmp.Or(cmp.Compare(other.Points, s.Points), cmp.Compare(s.At, other.At), strings.Compare(other.User.String(), s.User.String()))
}

// DayScores holds the best score of each user on one day.
type DayScores map[models.RowID]Score

// Add adds a score, which counts if it ranks before the user's former one.
func (d DayScores) Add(s Score) {
	if old, ok := d[s.User]; !ok || s.Compare(old) < 0 {
		d[s.User] = s
	}
}

// Sorted returns the scores in the order of the ranking.
func (d DayScores) Sorted() []Score {
	return slices.SortedFunc(maps.Values(d), Score.Compare)
}
