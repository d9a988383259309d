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

// Score is what a user has reached.
type Score struct {
	User   models.UserID
	Points int64
	At     models.Timestamp
}

// Compare is less than 0 where a standing ranks before another one.
func (s Score) Compare(other Score) int {
	return cmp.Or(cmp.Compare(other.Points, s.Points), cmp.Compare(s.At, other.At), strings.Compare(other.User.String(), s.User.String()))
}

// DayScores is the best that users have reached on a day.
type DayScores map[models.UserID]Score

// Add adds what a user has reached.
func (d DayScores) Add(s Score) {
	if old, ok := d[s.User]; !ok || s.Compare(old) < 0 {
		d[s.User] = s
	}
}

// Sorted is the ranking.
func (d DayScores) Sorted() []Score {
	return slices.SortedFunc(maps.Values(d), Score.Compare)
}
