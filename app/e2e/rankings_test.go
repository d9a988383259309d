package e2e_test

import (
	"fmt"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// A ranking has the shape of the contract, and nicknames come unchanged,
// hostile ones too.
func TestRankingOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRankingOverHTTP)
}

func testRankingOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	hostile := "<script>alert(\"1\")</script>&\\ש🏃"
	s.want(s.as("1001", "PUT", "/v1/me", map[string]string{"nickname": hostile}), 200, nil)
	const cover = "https://example.com/hills.jpg"
	s.want(s.as("1002", "PUT", "/v1/me", map[string]string{"nickname": "Ben", "cover_url": cover}), 200, nil)
	s.want(s.service("PUT", "/v1/users/1001/friends", `{"friend_ids":["1002"]}`), 200, nil)
	s.want(s.as("1001", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":15000}`), 200, nil)
	s.want(s.as("1002", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":16000}`), 200, nil)
	a := s.as("1001", "GET", "/v1/boards/steps/friends?limit=1", nil)
	var got map[string]any
	s.want(a, 200, &got)
	me := map[string]any{
		"rank": 2.0, "user_id": "1001", "nickname": hostile, "avatar_url": "", "score": 15000.0, "reached_at": "2026-11-20T13:00:00.000Z",
	}
	first := map[string]any{
		"rank": 1.0, "user_id": "1002", "nickname": "Ben", "avatar_url": "", "score": 16000.0, "reached_at": "2026-11-20T13:00:00.000Z",
	}
	cursor, _ := got["next_cursor"].(string)
	want := map[string]any{
		"board": "steps", "date": "2026-11-20", "source": "hot", "final": false, "total": 2.0,
		"me": me, "entries": []any{first}, "next_cursor": cursor,
		"champion": map[string]any{"user_id": "1002", "nickname": "Ben", "avatar_url": "", "cover_url": cover},
	}
	if cursor == "" || !equalJSON(t, got, want) {
		t.Errorf("got %s", a.body)
	}
	s.want(s.as("1001", "GET", "/v1/boards/steps/friends?limit=1&cursor="+cursor, nil), 200, &got)
	want["entries"], want["next_cursor"] = []any{me}, nil
	if !equalJSON(t, got, want) {
		t.Errorf("got %v", got)
	}
	var position map[string]any
	s.want(s.as("1001", "GET", "/v1/boards/steps/me", nil), 200, &position)
	if !equalJSON(t, position, map[string]any{
		"score": 15000, "reached_at": "2026-11-20T13:00:00.000Z", "global_rank": 2, "global_total": 2,
		"friends_rank": 2, "friends_total": 2, "percentile": 0, "correction": nil, "held": nil,
	}) {
		t.Errorf("position %v", position)
	}
	s.want(s.as("5", "GET", "/v1/boards/steps/me", nil), 200, &position)
	if !equalJSON(t, position, map[string]any{
		"score": nil, "reached_at": nil, "global_rank": nil, "global_total": 2, "friends_rank": nil, "friends_total": 0, "percentile": nil, "correction": nil, "held": nil,
	}) {
		t.Errorf("position without a score: %v", position)
	}
}

// rankLines returns the entries of a ranking as lines.
func rankLines(r models.Ranking) []string {
	list := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		list[i] = fmt.Sprintf("%d. %s: %d at %s", e.Rank, e.User, e.Score, e.ReachedAt.Time().Format("15:04:05.000"))
	}
	return list
}
