package ranking_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// choices are the ways in which user 2 is not shown to user 1.
var choices = map[string]func(f *fixture) error{
	"hidden":      func(f *fixture) error { return f.privacy.SetHidden(f.t.Context(), "2", true) },
	"hidden from": func(f *fixture) error { return f.privacy.Choose(f.t.Context(), "2", models.HiddenFrom, "1") },
	"muted":       func(f *fixture) error { return f.privacy.Choose(f.t.Context(), "1", models.Muted, "2") },
}

// A friend who is not shown is in no ranking and no total, on days in Redis, on archived
// ones and on those that are so old that only some friends show them, and has an empty
// history. The friend's own ranking and history stay the same.
func TestAFriendWhoIsNotShown(t *testing.T) {
	t.Parallel()
	for name, choose := range choices {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(t *testing.T, env *testenv.Env) { testNotShown(t, newFixture(t, env, 1), choose) })
		})
	}
}

func testNotShown(t *testing.T, f *fixture, choose func(*fixture) error) {
	f.befriend(1, 2, 3)
	day := f.day()
	for user := models.RowID(1); user <= 3; user++ {
		f.raise(day, user, int64(user)*100, f.env.Clock.Now())
	}
	bucket := f.bucketOf(day)
	check := func(when string, viewer models.RowID, want ...string) {
		t.Helper()
		q := query(viewer)
		q.Date = &day
		r, err := f.ranking.Friends(t.Context(), q)
		if err != nil || !slices.Equal(lines(r), want) || r.Total != int64(len(want)) {
			t.Errorf("%s: %v, %v, want %v", when, lines(r), err, want)
		}
	}
	check("before", 1, "1. 3 300", "2. 2 200", "3. 1 100")
	if err := choose(f); err != nil {
		t.Fatal(err)
	}
	summary, err := f.ranking.Me(t.Context(), ranking.Query{Board: "steps", Viewer: "1", Date: &day})
	if err != nil || *summary.FriendsRank != 2 || summary.FriendsTotal != 2 || *summary.GlobalRank != 3 || summary.GlobalTotal != 3 {
		t.Errorf("%+v, %v", summary, err)
	}
	history := func(viewer, user models.UserID) int {
		t.Helper()
		h, err := f.ranking.History(t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: viewer, User: user, From: &day, To: &day})
		if err != nil || h.Partial {
			t.Fatalf("%+v, %v", h, err)
		}
		return len(h.Days)
	}
	for _, when := range []string{"hot", "archived", "old"} {
		check(when, 1, "1. 3 300", "2. 1 100")
		check(when, 2, "1. 2 200", "2. 1 100")
		if n := history("1", "2"); n != 0 {
			t.Errorf("%s: a history of %d days", when, n)
		}
		if own, other := history("2", "2"), history("2", "1"); own != 1 || other != 1 {
			t.Errorf("%s: the friend's own history has %d days, and that of the other %d", when, own, other)
		}
		switch when {
		case "hot":
			f.makeDue(bucket)
			f.mustArchive(f.archive, bucket)
		case "archived":
			f.env.Clock.Advance(time.Duration(f.env.Config.Friends.HistoryDays+1) * 24 * time.Hour)
		}
	}
}

// In global lists, people who are not shown are anonymous: to everybody or to one viewer,
// in Redis as in the archive, and never to themselves. Ranks have no gaps.
func TestAnonymousInGlobalLists(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 2)
		day := f.day()
		for user := models.RowID(1); user <= 6; user++ {
			f.raise(day, user, int64(user)*100, env.Clock.Now())
		}
		bucket := f.bucketOf(day)
		ctx := t.Context()
		for _, err := range []error{
			f.privacy.SetHidden(ctx, "6", true), f.privacy.Choose(ctx, "5", models.HiddenFrom, "1"),
			f.privacy.Choose(ctx, "1", models.Muted, "4"), f.privacy.Choose(ctx, "3", models.Blocked, "1"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		shown := map[models.RowID]string{0: "12345-", 1: "12----", 2: "12345-", 3: "-2345-", 4: "12345-", 5: "12345-", 6: "123456"}
		check := func(when, what string, viewer models.RowID, r *models.Ranking, err error) {
			t.Helper()
			if err != nil || len(r.Entries) != 6 {
				t.Fatalf("%s, %s: %v, %v", when, what, r, err)
			}
			for i, e := range r.Entries {
				row := models.RowID(6 - i)
				want := models.RankedEntry{Rank: int64(i + 1), Score: int64(row) * 100, ReachedAt: e.ReachedAt, Anonymous: true}
				if shown[viewer][row-1] != '-' {
					want.Anonymous, want.User, want.Plain = false, id(row), e.Plain
				}
				if e != want {
					t.Errorf("%s, %s to %v: %+v, want %+v", when, what, viewer, e, want)
				}
			}
			if viewer != 0 && (r.Me == nil || r.Me.User != id(viewer) || r.Me.Anonymous) {
				t.Errorf("%s, %s to %v: me is %+v", when, what, viewer, r.Me)
			}
		}
		for _, when := range []string{"hot", "archived"} {
			for viewer := range models.RowID(7) {
				q := query(viewer)
				q.Date = &day
				top, err := f.ranking.Top(ctx, q)
				check(when, "top", viewer, top, err)
				if viewer != 0 {
					around, err := f.ranking.Around(ctx, q, 5)
					check(when, "around", viewer, around, err)
				}
			}
			f.makeDue(bucket)
			f.mustArchive(f.archive, bucket)
		}
	})
}

// Another process shows a person who hides as anonymous once it has heard of the change.
func TestAnotherProcessHearsOfHiding(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		o := f.options()
		o.Directory = newDirectory(t, env)
		other := ranking.New(o)
		f.raise(f.day(), 2, 5, env.Clock.Now())
		for _, hidden := range []bool{false, true, false} {
			if err := f.privacy.SetHidden(t.Context(), "2", hidden); err != nil {
				t.Fatal(err)
			}
			if r, err := f.ranking.Top(t.Context(), query(1)); err != nil || r.Entries[0].Anonymous != hidden {
				t.Errorf("hidden %v: %+v, %v", hidden, r.Entries, err)
			}
			testenv.Eventually(t, "the other process has heard of it", func() bool {
				r, err := other.Top(t.Context(), query(1))
				return err == nil && r.Entries[0].Anonymous == hidden
			})
		}
	})
}
