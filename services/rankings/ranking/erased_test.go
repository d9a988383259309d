package ranking_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/rankings/ranking"
)

// erasing is a directory that learns of an erasure when a ranking asks for records.
type erasing struct {
	ranking.Directory
	user   models.RowID
	erased bool
}

// FindOne is part of ranking.Directory.
func (e *erasing) FindOne(ctx context.Context, user models.UserID) (models.RowID, error) {
	row, err := e.Directory.FindOne(ctx, user)
	if e.erased && row == e.user {
		row = 0
	}
	return row, err
}

// Describe is part of ranking.Directory.
func (e *erasing) Describe(ctx context.Context, rows []models.RowID, records []models.PublicRecord) error {
	err := e.Directory.Describe(ctx, rows, records)
	e.erased = true
	for i, row := range rows {
		if row == e.user {
			records[i] = models.PublicRecord{}
		}
	}
	return err
}

// A user who was erased is not counted among the friends, although the lists of friends and the
// board still have the user.
func TestSummaryWithoutErased(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 2)
		f.befriend(1, 2, 3)
		for user, points := range map[models.RowID]int64{1: 500, 2: 900, 3: 300} {
			f.raise(today, user, points, env.Clock.Now())
		}
		o := f.options()
		var erased models.RowSet
		erased.Add(2)
		o.Rules = corrections.NewRules(&erased)
		me, err := ranking.New(o).Me(t.Context(), query(1))
		if err != nil || me.FriendsTotal != 2 || me.FriendsRank == nil || *me.FriendsRank != 1 {
			t.Errorf("%+v, %v", me, err)
		}
	})
}

// A user is erased after a ranking has read the scores and before it reads the names. The
// friends and members are ranked without the user. A global list has the rank that it has
// read, but of nobody.
func TestErasedWhileARankingIsMade(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 2)
		f.befriend(1, 2, 3)
		f.group("team", 1, 2, 3)
		for user, points := range map[models.RowID]int64{1: 500, 2: 900, 3: 300} {
			f.raise(today, user, points, env.Clock.Now())
		}
		span := query(1)
		span.Span = &ranking.Span{From: today - 1}
		rankings := map[string]func(*ranking.Service) (*models.Ranking, error){
			"friends":           func(s *ranking.Service) (*models.Ranking, error) { return s.Friends(t.Context(), query(1)) },
			"group":             func(s *ranking.Service) (*models.Ranking, error) { return s.Group(t.Context(), query(1), "team") },
			"span of friends":   func(s *ranking.Service) (*models.Ranking, error) { return s.Friends(t.Context(), span) },
			"span of the group": func(s *ranking.Service) (*models.Ranking, error) { return s.Group(t.Context(), span, "team") },
			"top":               func(s *ranking.Service) (*models.Ranking, error) { return s.Top(t.Context(), query(1)) },
			"around":            func(s *ranking.Service) (*models.Ranking, error) { return s.Around(t.Context(), query(1), 5) },
		}
		without := func(user models.RowID) *ranking.Service {
			o := f.options()
			o.Directory = &erasing{Directory: f.users, user: user}
			return ranking.New(o)
		}
		for name, rank := range rankings {
			for user, want := range map[models.RowID]struct{ circle, global []string }{
				2: {[]string{"1. 1 500", "2. 3 300"}, []string{"1.  900", "2. 1 500", "3. 3 300"}},
				3: {[]string{"1. 2 900", "2. 1 500"}, []string{"1. 2 900", "2. 1 500", "3.  300"}},
			} {
				got, err := rank(without(user))
				if err != nil {
					t.Fatal(err)
				}
				expected := want.circle
				if got.Champion == nil {
					expected = want.global
				}
				if diff := cmp.Diff(expected, lines(got)); diff != "" {
					t.Errorf("%s without %d (-want +got)\n%s", name, user, diff)
				}
				if got.Champion != nil && (got.Champion.User == "" || got.Total != 2) {
					t.Errorf("%s without %d: champion %+v of %d", name, user, got.Champion, got.Total)
				}
			}
			got, err := rank(without(1))
			nobody := func(e models.RankedEntry) bool { return e.User == "" && !e.Anonymous || e.User == "1" }
			if models.CodeOf(err) == models.CodeNotFound { // a stranger to the group
				continue
			}
			if err != nil || got.Me != nil || slices.ContainsFunc(got.Entries, nobody) {
				t.Errorf("%s without the viewer: %+v, %v", name, got, err)
			}
		}
	})
}
