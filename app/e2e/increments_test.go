package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// Increments add up, each event id once, and every read shows the sums.
func TestIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testIncrements)
}

func testIncrements(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	for _, board := range []string{"gifts", "active"} {
		env.Clock.Set(testenv.Noon)
		path := "/v1/boards/" + board + "/increments"
		var got harness.IncrementResults
		s.want(s.service("POST", path, harness.IncrementJSON(1001, 5, "a-1")), http.StatusOK, &got)
		env.Clock.Advance(3 * time.Second)
		var more harness.IncrementResults
		s.want(s.service("POST", path, harness.IncrementsJSON(
			harness.IncrementJSON(1002, 7, "a-2"), harness.IncrementJSON(1001, 2, "a-3"), harness.IncrementJSON(1001, 5, "a-1"), harness.IncrementJSON(1003, 7, "a-4"), harness.IncrementJSON(1001, 6, "a-1"),
			harness.IncrementJSON(1002, 7, "a-2"), harness.IncrementJSON(1002, 8, "a-2"))), http.StatusOK, &more)
		want := []string{
			"a-1 applied 5 13:00:00.000",
			"a-2 applied 7 13:00:03.000", "a-3 applied 7 13:00:03.000", "a-1 duplicate 5 13:00:00.000", "a-4 applied 7 13:00:03.000",
			"a-1 rejected event_id_conflict", "a-2 duplicate 7 13:00:03.000", "a-2 rejected event_id_conflict",
		}
		if diff := cmp.Diff(want, append(got.Brief(), more.Brief()...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", board, diff)
		}
		env.Clock.Advance(time.Second)
		s.want(s.service("POST", path, harness.IncrementJSON(1003, 1, "a-5")), http.StatusOK, &got)

		s.want(s.service("PUT", "/v1/users/1001/friends", `{"friend_ids":["1003","1004"]}`), 200, nil)
		all := []string{"1. 1003: 8 at 13:00:04.000", "2. 1002: 7 at 13:00:03.000", "3. 1001: 7 at 13:00:03.000"}
		for query, want := range map[string][]string{
			"top": all, "around": all, "top?limit=1": all[:1],
			"friends": {"1. 1003: 8 at 13:00:04.000", "2. 1001: 7 at 13:00:03.000"},
		} {
			var r models.Ranking
			s.want(s.as("1001", "GET", "/v1/boards/"+board+"/"+query, nil), 200, &r)
			if diff := cmp.Diff(want, rankLines(r)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", board, query, diff)
			}
			if r.Date != nil || r.Final || r.Source != models.SourceHot || (r.Settling != nil) != (board == "active") {
				t.Errorf("%s %s: %+v", board, query, r)
			}
		}
		var standing map[string]any
		s.want(s.as("1001", "GET", "/v1/boards/"+board+"/me", nil), 200, &standing)
		if !equalJSON(t, standing, map[string]any{
			"score": 7, "reached_at": "2026-11-20T13:00:03.000Z", "global_rank": 3, "global_total": 3,
			"friends_rank": 2, "friends_total": 2, "percentile": 0, "correction": nil, "held": nil,
		}) {
			t.Errorf("standing %v", standing)
		}
	}
}
