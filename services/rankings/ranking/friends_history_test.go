package ranking_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// newFriends is a day on which user 1, who has been a friend of user 2 all the time,
// becomes a friend of user 3. All three have a score on this and the twelve days before.
// Those that are due are archived, but for one.
type newFriends struct {
	*fixture

	unarchived models.Date // a cold day
}

func newNewFriends(t *testing.T, env *testenv.Env, month, historyDays int) *newFriends {
	t.Helper()
	env.Clock.Set(testenv.Noon.AddDate(0, month, 0))
	env.Config.Friends.HistoryDays = historyDays
	f := &newFriends{newFixture(t, env, 1), 0}
	today := f.day()
	f.unarchived = today - 10
	f.bucketOf(today - 12)
	f.befriend(1, 2)
	for date := today - 12; date <= today; date++ {
		b := f.bucketOf(date)
		f.apply(f.raiseOf(b, 1, 100, 1), f.raiseOf(b, 2, 200, 1), f.raiseOf(b, 3, 300, 1))
	}
	f.befriend(1, 2, 3)
	for _, b := range testenv.Must(f.archive.Due(t.Context())) {
		if b.Day >= today-12 && b.Day != f.unarchived {
			f.mustArchive(f.archive, b)
		}
	}
	return f
}

// seen returns how many days ago a user sees another one in rankings, as text, and checks
// that the sums and the user's friends' rank agree.
func (f *newFriends) seen(today models.Date, viewer, other models.RowID) string {
	f.t.Helper()
	var seen []int
	for ago := models.Date(12); ago >= 0; ago-- {
		date := today - ago
		q := ranking.Query{Board: "steps", Date: &date, Viewer: id(viewer), Limit: 50}
		r := testenv.Must(f.ranking.Friends(f.t.Context(), q))
		me := testenv.Must(f.ranking.Me(f.t.Context(), q))
		if r.Total != int64(len(r.Entries)) || me.FriendsTotal != r.Total || *me.FriendsRank != r.Me.Rank {
			f.t.Errorf("%v: %d entries of %d, %d in all with the own rank %d", date, len(r.Entries), r.Total, me.FriendsTotal, *me.FriendsRank)
		}
		if slices.ContainsFunc(r.Entries, func(e models.RankedEntry) bool { return e.User == id(other) }) {
			seen = append(seen, int(ago))
		}
	}
	return fmt.Sprint(seen)
}

// listed returns how many days ago a user sees another one in the history, as text.
func (f *newFriends) listed(today models.Date, viewer, other models.RowID) string {
	f.t.Helper()
	from := today - 12
	h := testenv.Must(f.ranking.History(f.t.Context(), ranking.HistoryQuery{
		Board: "steps", Viewer: id(viewer), User: id(other), From: &from, To: &today,
	}))
	var listed []int
	for _, d := range slices.Backward(h.Days) {
		listed = append(listed, int(today-d.Date))
	}
	return fmt.Sprint(listed)
}

// Archived days from long before a friendship began are not shown to the friend, neither
// on the day it began nor later.
func TestDaysFromBeforeAFriendship(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const all = "[12 11 10 9 8 7 6 5 4 3 2 1 0]"
		for month, tt := range []struct { // each case has a month of its own
			historyDays int
			want        string // 10, which is not archived, and those in Redis are always shown
		}{
			{0, "[10 3 2 1 0]"},
			{5, "[10 5 4 3 2 1 0]"},
			{36500, all},
		} {
			f := newNewFriends(t, env, month, tt.historyDays)
			today := f.day()
			for _, later := range []time.Duration{0, 48 * time.Hour} {
				env.Clock.Advance(later)
				for _, pair := range []struct {
					viewer, other models.RowID
					want          string
				}{{1, 2, all}, {2, 1, all}, {1, 3, tt.want}, {3, 1, tt.want}, {1, 1, all}} {
					what := fmt.Sprintf("%d days, %v later, %v of %v", tt.historyDays, later, pair.viewer, pair.other)
					if got := f.seen(today, pair.viewer, pair.other); got != pair.want {
						t.Errorf("%s: rankings of the days before: %s, want %s", what, got, pair.want)
					}
					if got := f.listed(today, pair.viewer, pair.other); got != pair.want {
						t.Errorf("%s: history of the days before: %s, want %s", what, got, pair.want)
					}
				}
			}
		}
	})
}
