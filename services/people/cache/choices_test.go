package cache_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
)

// choices are the friendships and choices of a process, over its sets.
type choices struct {
	*privacy.Service

	friends *friends.Service
}

func newChoices(env *testenv.Env, sets *cache.Store) choices {
	users := testenv.Numbers{DB: env.Gorm}
	graph := friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{}, env.Log)
	return choices{privacy.New(privacy.NewStore(env.Gorm), sets, graph, users, 0, env.Log), graph}
}

// A friend set from the memory of another process that is complete as of a moment after a
// choice has the choice, and so has the set of those who are not shown, in the end.
func TestCopiesInOtherProcessesFollowChoices(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	ctx := t.Context()
	circles := cache.NewCircles(env.Redis, env.Keys, time.Second, func() int64 { return 1 << 20 }, time.Now, env.Log)
	sets := cache.NewStore(env.Redis, env.Keys, 0, circles)
	testenv.Background(t, circles.Run)
	chooser, other := newChoices(env, cache.NewStore(env.Redis, env.Keys, 0, nil)), newChoices(env, sets)
	testenv.Must(testenv.Numbers{DB: env.Gorm}.Ensure(ctx, testenv.IDs(1, 2)...))
	if _, _, err := chooser.friends.Import(ctx, []models.Edge{{A: 1, B: 2}}); err != nil {
		t.Fatal(err)
	}
	follow := func(what string, shown bool) {
		t.Helper()
		changed := time.Now()
		testenv.Eventually(t, what+" is in the copy", func() bool {
			ids, asOf, err := other.friends.Circle(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			if (asOf.IsZero() || asOf.After(changed)) && slices.Contains(ids, 2) != shown {
				t.Fatalf("%s: as of %v after the change, 1 is shown %v", what, asOf.Sub(changed), ids)
			}
			return asOf.After(changed)
		})
	}
	follow("the friendship", true)
	for _, hidden := range []bool{true, false} {
		if err := chooser.SetHidden(ctx, "2", hidden); err != nil {
			t.Fatal(err)
		}
		follow("hiding", !hidden)
	}
	notShown := func() []models.RowID {
		ids, _, err := other.NotShown(ctx, 1)
		return testenv.Must(ids, err)
	}
	notShown()
	for _, kind := range []models.ChoiceKind{models.HiddenFrom, models.Muted} {
		from, to := models.UserID("2"), models.UserID("1")
		if kind == models.Muted {
			from, to = to, from
		}
		if err := chooser.Choose(ctx, from, kind, to); err != nil {
			t.Fatal(err)
		}
		follow(string(kind), false)
		testenv.Eventually(t, "the copy says who is not shown", func() bool {
			return slices.Equal(notShown(), []models.RowID{2})
		})
		if err := chooser.Undo(ctx, from, kind, to); err != nil {
			t.Fatal(err)
		}
		follow("no "+string(kind), true)
	}
}
