package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// After Postgres was restored to an earlier moment, `rebuild` makes boards show what it
// has.
func TestRebuildLowersBoards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRebuildLowersBoards)
}

func testRebuildLowersBoards(t *testing.T, env *testenv.Env) {
	t.Helper()
	testenv.NumberUsers(t, env, 60)
	s := newServer(t, env, withEvents)
	boards := []string{"gifts", "active"}
	give := func(from, to int) {
		var items []string
		for user := from; user <= to; user++ {
			items = append(items, harness.IncrementJSON(user, 1+user%3, fmt.Sprintf("to-%d-%d", to, user)))
		}
		for _, board := range boards {
			s.want(s.service("POST", "/v1/boards/"+board+"/increments", harness.IncrementsJSON(items...)), 200, nil)
		}
	}
	top := func(board string) (r models.Ranking) {
		s.want(s.as("1", "GET", "/v1/boards/"+board+"/top", nil), 200, &r)
		return r
	}
	give(1, 17)
	before := map[string]models.Ranking{}
	for _, board := range boards {
		before[board] = top(board)
	}
	env.Clock.Advance(time.Minute)
	give(11, 60)
	// The later gifts were never counted.
	for _, statement := range []string{
		`DELETE FROM score_events WHERE event_id LIKE 'to-60-%'`,
		`DELETE FROM score_totals WHERE user_id > 17`,
		`UPDATE score_totals SET score = 1 + user_id % 3, reached_at = (SELECT reached_at FROM score_totals WHERE user_id = 1 LIMIT 1) WHERE user_id > 10`,
	} {
		if err := env.Gorm.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	if total := top("gifts").Total; total != 60 {
		t.Errorf("before the rebuild %d users are on the board", total)
	}
	s.rebuild("100 entries were more than the ledger has, and were lowered or removed")
	for _, board := range boards {
		if got := top(board); !equalJSON(t, got, before[board]) {
			t.Errorf("%s shows\n%+v, want\n%+v", board, got, before[board])
		}
	}
}

// After Postgres was restored to an earlier moment, `rebuild` makes rankings show the
// friends that it has.
func TestRebuildLoadsFriendsAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Real(t))
	testenv.NumberUsers(t, s.env, 2)
	if err := s.app.Friends.Replace(t.Context(), "1", testenv.IDs(2)); err != nil {
		t.Fatal(err)
	}
	friends := func() int {
		return len(testenv.Must(s.app.Friends.IDs(t.Context(), 1)))
	}
	friends() // stores the set
	if err := s.env.Gorm.Exec(`DELETE FROM friendships`).Error; err != nil || friends() != 1 {
		t.Fatalf("before the rebuild there are %d friends, %v", friends(), err)
	}
	s.rebuild("")
	if friends() != 0 {
		t.Errorf("after the rebuild there are %d friends", friends())
	}
}

// rebuild rebuilds the boards; on real stores with the command, which prints a line.
func (s *server) rebuild(want string) {
	s.t.Helper()
	if s.env.Pool == nil {
		if _, err := s.app.Reconciler.Rebuild(s.t.Context(), func(int64) {}); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	cfg := s.env.Config
	cfg.Clock.Offset = time.Until(s.env.Clock.Now())
	if stdout := mustRun(s.t, append([]string{"rebuild"}, testenv.Flags(cfg)...)...); !strings.Contains(stdout, want) {
		s.t.Errorf("printed %q, want %q", stdout, want)
	}
}
