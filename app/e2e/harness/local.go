package harness

import (
	"testing"

	"stepboard/internal/testenv"
	"stepboard/services/boards/board"
)

// Local opens local stores for the test, and returns the boards of a service on them for
// app.Options.LocalEntries. The boards are in an embedded Redis, which nothing else uses.
func Local(t testing.TB) (env *testenv.Env, entries func(board.Routes) *board.Store) {
	t.Helper()
	env = testenv.Embedded(t)
	rdb := env.Redis
	env.Redis = nil
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return env, func(routes board.Routes) *board.Store { return board.NewStore(rdb, env.Keys, env.Clock.Now, routes) }
}
