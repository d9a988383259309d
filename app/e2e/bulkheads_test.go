package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// While a table of the friends is locked, everything else goes on: gifts, uploads,
// histories, and the readiness of the service, which names what is affected. Callers
// who ask for friends are refused in time.
func TestALockedTableAffectsOnlyItsOwnWork(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	testenv.NumberUsers(t, env, 20)
	cfg := env.Config
	cfg.Postgres.MaxConns = 5 // the fewest
	small := *env
	small.Stores = testenv.Must(stores.Open(t.Context(), cfg, env.Clock.Now, nil))
	s := newServer(t, &small, withEvents)
	s.waitForStartJobs()
	unlock := lockTable(t, env, "friendships")

	const callers = 12
	answers := make(chan answer, callers)
	askForFriends := func() {
		for user := range callers {
			go func() { answers <- s.as(testenv.ID(user+1), "GET", "/v1/friends", nil) }()
		}
	}
	refuseThem := func() {
		for range callers {
			s.refuse(testenv.Receive(t, "an answer", answers), http.StatusServiceUnavailable, models.CodeUnavailable)
		}
	}
	askForFriends()
	testenv.Eventually(t, "a call waits for the lock", func() bool {
		var waiting bool
		err := env.Pool.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'friendships'::regclass AND NOT granted)`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		return waiting
	})
	for number := range 20 {
		user := testenv.ID(number + 1)
		gift := fmt.Sprintf(`{"user_id":"%[1]s","delta":5,"event_id":"gift-%[1]s"}`, user)
		for _, a := range []answer{
			s.service("POST", "/v1/boards/gifts/increments", gift),
			s.as(user, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":7}`),
			s.as(user, "GET", "/v1/boards/steps/history", nil),
			s.call("", "GET", "/readyz", nil),
		} {
			s.want(a, http.StatusOK, nil)
		}
	}
	refuseThem()
	// It does so for ten seconds, which may be over.
	testenv.Eventually(t, "/readyz names what is affected", func() bool {
		askForFriends()
		refuseThem()
		ready := s.call("", "GET", "/readyz", nil)
		return ready.status == http.StatusOK && strings.Contains(string(ready.body), `"degraded":["friends"]`)
	})
	unlock()
	s.want(s.as("1", "GET", "/v1/friends", nil), http.StatusOK, nil)
}

// lockTable lets another session lock a table until unlock is called, or until the
// test ends.
func lockTable(t *testing.T, env *testenv.Env, table string) (unlock func()) {
	t.Helper()
	conn := testenv.Must(pgx.Connect(t.Context(), env.Config.Postgres.DSN))
	for _, statement := range []string{"BEGIN", "LOCK TABLE " + table} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	unlock = sync.OnceFunc(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unlock)
	return unlock
}
