package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
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

// A refused increment answers with the status of its error; in a list, the
// error is that of the item.
func TestRefusedIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRefusedIncrements)
}

func testRefusedIncrements(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	const path = "/v1/boards/sprint/increments"
	long := strings.Repeat("x", 65)
	s.want(s.service("POST", path, harness.IncrementJSON(1, 900, "first")), 200, nil)
	s.want(s.service("POST", path, harness.IncrementJSON(2, 1, strings.Repeat("x", 64))), 200, nil)
	items := []struct {
		item   string
		status int
		code   models.Code
	}{
		{`{"user_id":"1","score":5,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","score":5,"delta":5,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":5,"event_id":"b","occurred_at":"2026-11-20T12:30:00Z"}`, 422, models.CodeOccurredAtInvalid},
		{`{"user_id":"1","delta":5,"event_id":"b","occurred_at":"12:30"}`, 422, models.CodeValidationFailed},
		{harness.IncrementJSON(1, -5, "b"), 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1.5,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1e2,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":"5","event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":99999999999999999999,"event_id":"b"}`, 422, models.CodeScoreOutOfRange},
		{harness.IncrementJSON(1, 101, "b"), 422, models.CodeScoreOutOfRange},
		{harness.IncrementJSON(3, 1001, "b"), 422, models.CodeScoreOutOfRange},
		{harness.IncrementJSON(1, 1, long), 422, models.CodeValidationFailed},
		{harness.IncrementJSON(1, 1, ""), 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"a\u0007b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"a b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"é"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":7}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"0 1","delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":1,"delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"b","date":"2026-11-20"}`, 422, models.CodeValidationFailed},
		{harness.IncrementJSON(1, 899, "first"), 409, models.CodeEventIDConflict},
		{harness.IncrementJSON(2, 900, "first"), 409, models.CodeEventIDConflict},
	}
	list := make([]string, 0, len(items)+1)
	for _, tt := range items {
		s.refuse(s.service("POST", path, tt.item), tt.status, tt.code)
		list = append(list, tt.item)
	}
	list = append(list, harness.IncrementJSON(1, 100, "last"))
	var got harness.IncrementResults
	s.want(s.service("POST", path, harness.IncrementsJSON(list...)), 200, &got)
	if len(got.Results) != len(list) {
		t.Fatalf("%d results", len(got.Results))
	}
	for i, tt := range items {
		if r := got.Results[i]; r.Status != "rejected" || r.Code != tt.code || r.Detail == "" || r.Score != nil {
			t.Errorf("%s: %+v, want %s", tt.item, r, tt.code)
		}
	}
	if diff := cmp.Diff("last applied 1000 13:00:00.000", got.Results[len(items)].Brief()); diff != "" {
		t.Error(diff)
	}

	many := make([]string, 1001)
	for i := range many {
		many[i] = harness.IncrementJSON(5, 1, fmt.Sprint("m-", i))
	}
	for body, want := range map[string]models.Code{
		`{"increments":[]}`:   models.CodeValidationFailed,
		`{}`:                  models.CodeValidationFailed,
		`[]`:                  models.CodeValidationFailed,
		`{"increments":null}`: models.CodeValidationFailed,
		harness.IncrementsJSON(harness.IncrementJSON(1, 1, "c"))[:20]:     models.CodeInvalidRequest,
		`{"user_id":"1","user_id":"1","delta":1}`:                         models.CodeInvalidRequest,
		harness.IncrementsJSON(many...):                                   models.CodeValidationFailed,
		`{"increments":[],"user_id":"1","delta":1}`:                       models.CodeValidationFailed,
		`{"increments":[` + harness.IncrementJSON(1, 1, "c") + `],"a":1}`: models.CodeValidationFailed,
	} {
		if a := s.service("POST", path, body); a.code() != want {
			t.Errorf("%.50s: %d %s", body, a.status, a.body)
		}
	}
	s.want(s.service("POST", path, harness.IncrementsJSON(many[:1000]...)), 200, &got)
	if last := got.Results[999]; last.Status != "applied" || *last.Score != 1000 {
		t.Errorf("the last of 1,000: %+v", last)
	}

	s.refuse(s.as("1", "POST", path, harness.IncrementJSON(1, 1, "d")), 403, models.CodeForbidden)
	s.refuse(s.service("POST", "/v1/boards/nix/increments", harness.IncrementJSON(1, 1, "d")), 404, models.CodeBoardNotFound)
	s.refuse(s.service("POST", "/v1/boards/steps/increments", harness.IncrementJSON(1, 1, "d")), 409, models.CodeBoardKind)
	s.refuse(s.service("POST", "/v1/boards/steps/increments", harness.IncrementsJSON(harness.IncrementJSON(1, 1, "d"))), 409, models.CodeBoardKind)
}
