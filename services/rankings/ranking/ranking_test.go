package ranking_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// The higher score ranks first; of equal scores the one reached earlier; in the
// same millisecond the id that is greater as text.
func TestTheRankingRule(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, shards := range []int{1, 3} {
			f := newFixture(t, env, shards)
			env.Clock.Advance(24 * time.Hour) // each number of shards has its own bucket
			day := testenv.Must(f.catalog.Definitions.Board("steps")).Today(env.Clock.Now())
			now := env.Clock.Now()
			f.befriend(1, 2, 9, 10, 100, 77)
			f.raise(day, 1, 500, now)
			f.raise(day, 2, 500, now.Add(-time.Millisecond))
			f.raise(day, 9, 900, now)
			f.raise(day, 10, 900, now)
			f.raise(day, 100, 900, now)
			f.raise(day, 5000, 10_000, now) // a stranger
			f.raise(day, 2, 0, now)         // less than the score stored already
			want := []string{"1. 9 900", "2. 100 900", "3. 10 900", "4. 2 500", "5. 1 500"}

			r, err := f.ranking.Friends(t.Context(), query(1))
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(r); !slices.Equal(got, want) {
				t.Errorf("%d shards, friends: %v, want %v", shards, got, want)
			}
			if r.Total != 5 || r.Me == nil || r.Me.Rank != 5 || r.NextCursor != nil || r.Source != models.SourceHot || r.Final || *r.Date != day.String() {
				t.Errorf("%d shards, friends: %+v, me %+v", shards, r, r.Me)
			}

			top, err := f.ranking.Top(t.Context(), query(1))
			if err != nil {
				t.Fatal(err)
			}
			if got := lines(top); got[0] != "1. 5000 10000" || got[5] != "6. 1 500" || top.Total != 6 || top.Me.Rank != 6 {
				t.Errorf("%d shards, top: %v, me %+v", shards, got, top.Me)
			}
		}
	})
}

func TestWithoutFriendsOrScores(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		r, err := f.ranking.Friends(t.Context(), query(1))
		if err != nil || r.Total != 0 || r.Me != nil || len(r.Entries) != 0 || r.Entries == nil {
			t.Errorf("no scores: %+v, %v", r, err)
		}
		f.raise(today, 1, 0, env.Clock.Now()) // a score of 0 is a score
		r, err = f.ranking.Friends(t.Context(), query(1))
		if err != nil || r.Total != 1 || r.Me == nil || r.Me.Rank != 1 || r.Me.Score != 0 {
			t.Errorf("oneself alone: %+v, %v", r, err)
		}
		f.befriend(2, 1)
		r, err = f.ranking.Friends(t.Context(), query(2))
		if err != nil || r.Total != 1 || r.Me != nil || r.Entries[0].User != "1" {
			t.Errorf("only a friend has a score: %+v, %v", r, err)
		}
		old := today - 400
		q := query(1)
		q.Date = &old
		r, err = f.ranking.Friends(t.Context(), q)
		if err != nil || r.Total != 0 || !r.Final || *r.Date != old.String() {
			t.Errorf("a day without data: %+v, %v", r, err)
		}
		future := today + 1
		q.Date = &future
		if _, err := f.ranking.Friends(t.Context(), q); models.CodeOf(err) != models.CodeDateInFuture {
			t.Errorf("tomorrow: %v", err)
		}
		q.Board = "nix"
		if _, err := f.ranking.Friends(t.Context(), q); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("an unknown board: %v", err)
		}
	})
}

// The pages of a list make up the whole list, for any page size and with ties.
func TestPagesOfFriendsAndTop(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		var others []models.RowID
		for id := models.RowID(1); id <= 60; id++ {
			f.raise(today, id, int64(id%4), env.Clock.Now())
			if id > 1 {
				others = append(others, id)
			}
		}
		f.befriend(1, others...)
		for _, call := range []func(q ranking.Query) (*models.Ranking, error){
			func(q ranking.Query) (*models.Ranking, error) { return f.ranking.Friends(t.Context(), q) },
			func(q ranking.Query) (*models.Ranking, error) { return f.ranking.Top(t.Context(), q) },
		} {
			whole, err := call(query(1))
			if err != nil {
				t.Fatal(err)
			}
			all := lines(whole)
			q := query(1)
			q.Limit, q.Cursor = 50, *whole.NextCursor
			rest, err := call(q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, lines(rest)...)
			if len(all) != 60 || rest.NextCursor != nil || *rest.Me != *whole.Me {
				t.Fatalf("%d lines in two pages", len(all))
			}
			for _, limit := range []int{1, 7, 60, 200} {
				var got []string
				q := query(1)
				q.Limit = limit
				for {
					page, err := call(q)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, lines(page)...)
					if page.NextCursor == nil {
						break
					}
					q.Cursor = *page.NextCursor
				}
				if !slices.Equal(got, all) {
					t.Errorf("in pages of %d: %v, want %v", limit, got, all)
				}
			}
		}
	})
}

// A cursor is valid for its own list only.
func TestForeignCursors(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		for id := models.RowID(1); id <= 3; id++ {
			f.raise(today, id, int64(id), env.Clock.Now())
			f.raise(today-1, id, int64(id), env.Clock.Now())
		}
		f.befriend(1, 2, 3)
		f.befriend(2, 1, 3)
		q := query(1)
		q.Limit = 1
		page, err := f.ranking.Friends(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.Cursor = *page.NextCursor
		if _, err := f.ranking.Friends(t.Context(), q); err != nil {
			t.Errorf("its own list: %v", err)
		}
		if _, err := f.ranking.Top(t.Context(), q); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Errorf("another call: %v", err)
		}
		other := q
		other.Viewer = "2"
		if _, err := f.ranking.Friends(t.Context(), other); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Errorf("another user: %v", err)
		}
		yesterday := today - 1
		other = q
		other.Date = &yesterday
		if _, err := f.ranking.Friends(t.Context(), other); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Errorf("another day: %v", err)
		}
	})
}

func TestAround(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		for id := models.RowID(1); id <= 20; id++ {
			f.raise(today, id, 1000-int64(id), env.Clock.Now()) // user n has rank n
		}
		tests := []struct {
			user     models.RowID
			radius   int
			from, to int64
		}{
			{10, 2, 8, 12}, {1, 2, 1, 5}, {2, 2, 1, 5}, {20, 2, 16, 20}, {19, 2, 16, 20}, {10, 50, 1, 20}, {1, 1, 1, 3},
		}
		for _, tt := range tests {
			r, err := f.ranking.Around(t.Context(), query(tt.user), tt.radius)
			if err != nil {
				t.Fatal(err)
			}
			var ranks []int64
			for _, e := range r.Entries {
				ranks = append(ranks, e.Rank)
				if e.User != testenv.ID(e.Rank) {
					t.Errorf("user %v has rank %d", e.User, e.Rank)
				}
			}
			if ranks[0] != tt.from || ranks[len(ranks)-1] != tt.to || len(ranks) != int(tt.to-tt.from+1) {
				t.Errorf("%d around user %v: ranks %v, want %d to %d", tt.radius, tt.user, ranks, tt.from, tt.to)
			}
			if r.Me == nil || r.Me.Rank != int64(tt.user) || r.Total != 20 || r.NextCursor != nil {
				t.Errorf("around user %v: me %+v, total %d", tt.user, r.Me, r.Total)
			}
		}
		r, err := f.ranking.Around(t.Context(), query(99), 5)
		if err != nil || len(r.Entries) != 0 || r.Entries == nil || r.Me != nil {
			t.Errorf("around nobody: %+v, %v", r, err)
		}
	})
}

func TestMe(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		for id := models.RowID(1); id <= 10; id++ {
			f.raise(today, id, 1000-int64(id), env.Clock.Now())
		}
		f.befriend(4, 1, 9, 77)
		s, err := f.ranking.Me(t.Context(), query(4))
		if err != nil {
			t.Fatal(err)
		}
		if *s.Score != 996 || *s.GlobalRank != 4 || s.GlobalTotal != 10 || *s.FriendsRank != 2 || s.FriendsTotal != 3 ||
			*s.Percentile != 66.6 || *s.ReachedAt != models.TimestampOf(env.Clock.Now()) {
			t.Errorf("summary %+v", s)
		}
		f.befriend(88, 1)
		s, err = f.ranking.Me(t.Context(), query(88))
		if err != nil || s.Score != nil || s.GlobalRank != nil || s.FriendsRank != nil || s.Percentile != nil || s.ReachedAt != nil ||
			s.GlobalTotal != 10 || s.FriendsTotal != 1 {
			t.Errorf("without a score: %+v, %v", s, err)
		}
	})
}

// A ranking of friends or of a group makes two round trips to Redis, for 3 friends and for
// 3,000 alike. It makes a third one if the process lacks names of the page, which it reads in one, and
// one before if the user calls this process for the first time. It asks Postgres for
// nobody who was shown before. Friends who are not shown cost nothing more.
func TestRoundTripsOfAFriendRanking(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	counter := &testenv.RoundTrips{}
	env.Redis.AddHook(counter) // before the directory follows changes, as hooks can't be added meanwhile
	f := newFixture(t, env, 1)
	for _, n := range []int{3, 3000} {
		user := models.RowID(n)
		others := make([]models.RowID, n)
		for i := range others {
			others[i] = models.RowID(n + 1 + i)
		}
		f.befriend(user, others...)
		f.group(circleOf(user), append(slices.Clone(others[:min(n, models.MaxGroupMembers-1)]), user)...)
		for _, scorer := range append(others[:3], user) {
			f.raise(today, scorer, 7, env.Clock.Now())
		}
		if err := f.privacy.SetHidden(t.Context(), id(others[1]), true); err != nil {
			t.Fatal(err)
		}
		if err := f.privacy.Choose(t.Context(), id(user), models.Muted, id(others[2])); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ranking.Friends(t.Context(), query(user)); err != nil { // loads the set and the names
			t.Fatal(err)
		}
		fresh := newDirectory(t, env)
		o := f.options()
		o.Directory = fresh
		other := ranking.New(o)
		for _, tt := range []struct {
			name            string
			service         *ranking.Service
			trips, commands int
		}{
			{"names in the process", f.ranking, 2, 3},
			{"the first call in a process", other, 4, 6}, // the user's row; two names in one pipeline
			{"the second call", other, 2, 3},
		} {
			counter.Reset()
			r, err := tt.service.Friends(counter.In(t.Context()), query(user))
			if err != nil || r.Total != 2 {
				t.Fatalf("%+v, %v", r, err)
			}
			if counter.Trips() != tt.trips || counter.Commands() != tt.commands {
				t.Errorf("%s, %d friends: %d round trips and %d commands, want %d and %d",
					tt.name, n, counter.Trips(), counter.Commands(), tt.trips, tt.commands)
			}
		}
		counter.Reset()
		me, err := f.ranking.Me(counter.In(t.Context()), query(user))
		if err != nil || me.FriendsTotal != 2 || me.GlobalTotal < 4 || counter.Trips() != 2 || counter.Commands() != 4 {
			t.Errorf("me: %+v, %v, %d round trips and %d commands", me, err, counter.Trips(), counter.Commands())
		}
		for _, first := range []bool{true, false} { // the first call stores the sets
			counter.Reset()
			r, err := f.ranking.Group(counter.In(t.Context()), query(user), circleOf(user))
			if err != nil || r.Total != 2 || !first && (counter.Trips() != 2 || counter.Commands() != 5) {
				t.Errorf("group: %+v, %v, %d round trips and %d commands", r, err, counter.Trips(), counter.Commands())
			}
		}
		if n := fresh.Stats().Queries.Load(); n != 0 {
			t.Errorf("%d statements for users that were shown before", n)
		}
	}
}

// Without Postgres, rankings of hot buckets work for users whose friends are in
// Redis, with names. With a name that neither the process nor Redis has, a ranking is
// 503: its line could not say whose it is.
func TestHotRankingsWithoutPostgres(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		f.befriend(1, 2)
		f.raise(today, 1, 5, env.Clock.Now())
		f.raise(today, 2, 6, env.Clock.Now())
		if _, err := f.users.Put(t.Context(), "1", models.Profile{Nickname: "Ann"}); err != nil {
			t.Fatal(err)
		}
		testenv.Must(f.users.Records(t.Context(), []models.RowID{2, 3}))
		if _, err := f.friends.IDs(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if env.Pool != nil {
			env.Pool.Close()
		}
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := f.ranking.Friends(t.Context(), query(1))
		if err != nil || len(r.Entries) != 2 || r.Me.Nickname != "Ann" || r.Entries[0].Nickname != "" || r.Entries[0].User != "2" {
			t.Errorf("%+v, %v", r, err)
		}
		f.raise(today, 4, 8, env.Clock.Now())
		if _, err := f.ranking.Top(t.Context(), query(1)); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a ranking with a user that nobody has shown: %v", err)
		}
		if _, err := f.ranking.Friends(t.Context(), query(2)); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("friends that are not in Redis: %v", err)
		}
	})
}
