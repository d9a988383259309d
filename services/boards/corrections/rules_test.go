package corrections_test

import (
	"slices"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// What a user reports goes to the board, to the key of reported scores while a correction
// holds, and nowhere if the user was erased or the ledger has it. Erased and excluded users
// have no score, and a lowered one is shown as it was set.
func TestRules(t *testing.T) {
	t.Parallel()
	f := newLedgerFixture(t, testenv.Local(t))
	day, event := f.today(), f.only("gifts")
	for user := models.RowID(1); user <= 4; user++ {
		f.raise(day, user, 100)
		f.add("gifts", user, 100, user.String())
	}
	f.create(exclude(2, day.Day))
	f.create(set(3, day.Day, 60))
	f.create(on("gifts", exclude(2, 0)))
	f.erased.Add(4)
	users := []models.RowID{1, 2, 3, 4}
	for _, tt := range []struct {
		bucket *models.Bucket
		routes []string
		shown  []int64
	}{
		{day, []string{"board", "reported", "reported", "nowhere"}, []int64{100, -1, 60, -1}},
		{event, []string{"board", "nowhere", "board", "nowhere"}, []int64{100, -1, 100, -1}},
	} {
		var routes []string
		composites := make([]models.Composite, len(users))
		for i, user := range users {
			composites[i] = f.composite(tt.bucket, 100)
			switch key, ok := f.rules.Route(tt.bucket, user); {
			case !ok:
				routes = append(routes, "nowhere")
			case key == models.KeyBoard:
				routes = append(routes, "board")
			default:
				routes = append(routes, string(key))
			}
		}
		f.rules.Show(tt.bucket, users, composites)
		var shown []int64
		for _, c := range composites {
			shown = append(shown, points(tt.bucket, c))
		}
		if !slices.Equal(routes, tt.routes) || !slices.Equal(shown, tt.shown) {
			t.Errorf("%s: %v and %v, want %v and %v", tt.bucket.Board, routes, shown, tt.routes, tt.shown)
		}
	}
}
