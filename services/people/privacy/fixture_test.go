package privacy_test

import (
	"context"
	"slices"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/servicetest"
)

// process holds the services of one process. Users' ids are the decimal texts of their
// rows.
type process struct {
	*privacy.Service

	friends *friends.Service
}

func newProcess(env *testenv.Env) process { return newProcessWith(env, 0) }

// newProcessWith is newProcess with a limit of changes of hidden in an hour.
func newProcessWith(env *testenv.Env, perHour int) process {
	sets, users := servicetest.Sets(env), testenv.Numbers{DB: env.Gorm}
	graph := friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{Pending: 1000, PerDay: 1000}, env.Log)
	return process{privacy.New(privacy.NewStore(env.Gorm), sets, graph, users, perHour, env.Log), graph}
}

// befriend makes friends of users.
func (p process) befriend(ctx context.Context, edges ...models.Edge) error {
	_, _, err := p.friends.Import(ctx, edges)
	return err
}

// shown returns the friends whose scores a user is shown, ascending.
func (p process) shown(t testing.TB, user models.RowID) []models.RowID {
	t.Helper()
	ids, err := p.friends.IDs(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// exist creates users.
func exist(t testing.TB, env *testenv.Env, rows ...models.RowID) {
	t.Helper()
	testenv.Must(testenv.Numbers{DB: env.Gorm}.Ensure(t.Context(), testenv.IDs(rows...)...))
}
