package ranking_test

import (
	"slices"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// A group ranks its present members, on past days as well, in the pages of any ranking.
// Only members may see it, on days without scores, too.
func TestRankingAGroup(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		f.befriend(1, 9)
		for user, points := range map[models.RowID]int64{1: 500, 2: 300, 3: 0, 4: 900, 9: 700} {
			f.raise(today, user, points, env.Clock.Now())
			f.raise(today-1, user, points, env.Clock.Now())
		}
		f.group("team", 1, 2, 3, 5)
		yesterday, future := today-1, today+1
		q := query(1)
		for _, date := range []*models.Date{nil, &yesterday} {
			q.Date = date
			r, err := f.ranking.Group(t.Context(), q, "team")
			want := []string{"1. 1 500", "2. 2 300", "3. 3 0"}
			if err != nil || !slices.Equal(lines(r), want) || r.Total != 3 || r.Me.Rank != 1 {
				t.Errorf("%v: %+v, %v", date, r, err)
			}
		}
		q = query(5)
		q.Limit = 2
		first, err := f.ranking.Group(t.Context(), q, "team")
		if err != nil || len(first.Entries) != 2 || first.Me != nil {
			t.Fatalf("the first page: %+v, %v", first, err)
		}
		q.Cursor = *first.NextCursor
		second, err := f.ranking.Group(t.Context(), q, "team")
		if err != nil || !slices.Equal(lines(second), []string{"3. 3 0"}) || second.NextCursor != nil {
			t.Errorf("the second page: %+v, %v", second, err)
		}
		f.group("other", 5, 2)
		refuse := func(what string, viewer models.RowID, group models.GroupID, date *models.Date, cursor string, code models.Code) {
			t.Helper()
			q := query(viewer)
			q.Date, q.Cursor = date, cursor
			if _, err := f.ranking.Group(t.Context(), q, group); models.CodeOf(err) != code {
				t.Errorf("%s: %v, want %s", what, err, code)
			}
		}
		long := today - 400
		refuse("another group's cursor", 5, "other", nil, *first.NextCursor, models.CodeInvalidCursor)
		refuse("another member's cursor", 2, "team", nil, *first.NextCursor, models.CodeInvalidCursor)
		refuse("a stranger", 4, "team", nil, "", models.CodeNotFound)
		refuse("a stranger, on a day without scores", 4, "team", &long, "", models.CodeNotFound)
		refuse("an unknown group", 1, "nix", nil, "", models.CodeNotFound)
		refuse("tomorrow", 1, "team", &future, "", models.CodeDateInFuture)
		f.group("team", 1, 3)
		refuse("a former member", 2, "team", nil, "", models.CodeNotFound)
	})
}
