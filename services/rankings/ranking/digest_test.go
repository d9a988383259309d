package ranking_test

import (
	"slices"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// Neighbours are the rankings of friends of everybody who has a score, ties included.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		users := []models.RowID{1, 2, 3, 9, 10, 100}
		for _, user := range users {
			f.befriend(user, slices.DeleteFunc(slices.Clone(users), func(other models.RowID) bool { return other == user })...)
		}
		now := env.Clock.Now()
		for _, user := range users[1:] { // the first has no score
			f.raise(f.day(), user, int64(user)/50*100+100, now)
		}
		if err := f.privacy.Choose(t.Context(), "9", models.Muted, "100"); err != nil {
			t.Fatal(err)
		}
		list, err := f.ranking.Neighbours(t.Context(), f.bucketOf(f.day()), append(users, 4000))
		if err != nil || len(list) != len(users)-1 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, at := range list {
			r := testenv.Must(f.ranking.Friends(t.Context(), query(at.Mine.User)))
			var want []models.UserID
			for _, e := range r.Entries {
				want = append(want, e.User)
			}
			got := testenv.IDs(slices.Concat(at.Ahead, []models.RowID{at.Mine.User}, at.Behind)...)
			if !slices.Equal(got, want) || int(r.Me.Rank) != len(at.Ahead)+1 {
				t.Errorf("user %v is between %v and %v; ranking %v", at.Mine.User, at.Ahead, at.Behind, want)
			}
		}
	})
}
