package e2e_test

import (
	"net/http"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/services/auth"
)

// Every role, and a caller without a token, is allowed the calls of the
// contract and no others.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testAuthorization)
}

func testAuthorization(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for _, id := range []string{"1", "2"} {
		s.want(s.service("PUT", "/v1/users/"+id, `{"nickname":"n"}`), http.StatusOK, nil)
	}
	user, admin := harness.Token(t, "1", ""), harness.Token(t, "1", auth.ScopeAdmin)
	service, both := harness.Token(t, "1", auth.ScopeService), harness.Token(t, "1", "admin service")
	tests := []struct {
		token, method, path, body string
		status                    int
	}{
		{user, "GET", "/v1/boards", "", 200},
		{service, "GET", "/v1/boards", "", 200},
		{admin, "GET", "/v1/boards", "", 200},
		{user, "GET", "/v1/boards/steps/top", "", 200},
		{admin, "GET", "/v1/boards/steps/top", "", 200},
		{user, "GET", "/v1/boards/private/top", "", 403},
		{user, "GET", "/v1/boards/private/around", "", 403},
		{user, "GET", "/v1/boards/private/friends", "", 200},
		{user, "GET", "/v1/boards/private/me", "", 200},
		{service, "GET", "/v1/boards/private/top", "", 200},
		{service, "GET", "/v1/boards/private/around?user_id=1", "", 200},
		// The id of another user.
		{user, "GET", "/v1/boards/steps/friends?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/top?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/around?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/me?user_id=2", "", 403},
		{user, "POST", "/v1/boards/steps/scores?user_id=2", `{"date":"2026-11-20","score":1}`, 403},
		{user, "GET", "/v1/friends?user_id=2", "", 403},
		{user, "GET", "/v1/friends/requests?user_id=2", "", 403},
		{user, "GET", "/v1/me/privacy?user_id=2", "", 403},
		{user, "PUT", "/v1/blocked/3?user_id=2", "", 403},
		{user, "PUT", "/v1/boards/steps/likes/3?user_id=2", "", 403},
		{user, "DELETE", "/v1/boards/steps/likes/3?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/likes/2?user_id=2", "", 403},
		{service, "PUT", "/v1/boards/steps/likes/2?user_id=1", "", 404},
		{user, "POST", "/v1/friends/requests?user_id=2", `{"user_id":"1"}`, 403},
		{user, "POST", "/v1/friends/requests/1/accept?user_id=2", "", 403},
		{user, "DELETE", "/v1/friends/requests/1?user_id=2", "", 403},
		{user, "DELETE", "/v1/friends/1?user_id=2", "", 403},
		{user, "GET", "/v1/me", "", 200},
		{user, "GET", "/v1/me?user_id=2", "", 403},
		{user, "PUT", "/v1/me?user_id=2", `{"nickname":"x"}`, 403},
		{user, "PUT", "/v1/users/1", `{"nickname":"x"}`, 403},
		{user, "PUT", "/v1/users/1/friends", `{"friend_ids":[]}`, 403},
		{user, "GET", "/v1/boards/steps/me?user_id=1", "", 200},
		{user, "GET", "/v1/boards/steps/summary", "", 200},
		{user, "GET", "/v1/boards/steps/summary?user_id=2", "", 403},
		{service, "GET", "/v1/boards/steps/summary?user_id=2&for=1", "", 404},
		{user, "GET", "/v1/groups", "", 200},
		{user, "GET", "/v1/groups?user_id=2", "", 403},
		{user, "POST", "/v1/groups?user_id=2", `{"name":"x"}`, 403},
		{user, "POST", "/v1/groups/join?user_id=2", `{"invite_code":"x"}`, 403},
		{user, "GET", "/v1/groups/x?user_id=2", "", 403},
		{user, "PUT", "/v1/groups/x?user_id=2", `{"name":"x"}`, 403},
		{user, "DELETE", "/v1/groups/x?user_id=2", "", 403},
		{user, "POST", "/v1/groups/x/invite?user_id=2", "", 403},
		{user, "DELETE", "/v1/groups/x/members/2?user_id=2", "", 403},
		{user, "PUT", "/v1/groups/x/members", `{"member_ids":[]}`, 403},
		{user, "GET", "/v1/boards/steps/groups/x?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/groups/x/stream?user_id=2", "", 403},
		{admin, "PUT", "/v1/groups/x/members", `{"member_ids":[]}`, 403},
		{admin, "GET", "/v1/groups", "", 403},
		{service, "GET", "/v1/groups", "", 422},
		{service, "GET", "/v1/groups?user_id=2", "", 200},
		{service, "PUT", "/v1/groups/x/members", `{"member_ids":["2"]}`, 200},
		// A backend names the user it acts for; an administrator may not act for users.
		{service, "GET", "/v1/boards/steps/friends", "", 422},
		{service, "GET", "/v1/boards/steps/friends?user_id=2", "", 200},
		{service, "GET", "/v1/me", "", 422},
		{service, "GET", "/v1/me?user_id=2", "", 200},
		{service, "PUT", "/v1/me?user_id=2", `{"nickname":"x"}`, 200},
		{service, "GET", "/v1/boards/steps/friends?user_id=0%202", "", 422},
		{service, "GET", "/v1/boards/steps/friends?user_id=..", "", 422},
		{admin, "GET", "/v1/boards/steps/friends", "", 403},
		{admin, "GET", "/v1/me", "", 403},
		{admin, "PUT", "/v1/users/1", `{"nickname":"x"}`, 403},
		{both, "PUT", "/v1/users/1", `{"nickname":"x"}`, 200},
		{user, "POST", "/v1/boards/gifts/increments", `{"user_id":"1","delta":1,"event_id":"a"}`, 403},
		{admin, "POST", "/v1/boards/gifts/increments", `{"user_id":"1","delta":1,"event_id":"a"}`, 403},
		{user, "GET", "/v1/admin/boards/steps", "", 403},
		{service, "GET", "/v1/admin/boards/steps", "", 403},
		{admin, "GET", "/v1/admin/boards/steps", "", 200},
		{user, "DELETE", "/v1/me?user_id=2", "", 403},
		{user, "GET", "/v1/me/export?user_id=2", "", 403},
		{service, "GET", "/v1/admin/users/1/export", "", 403},
		{admin, "GET", "/v1/admin/users/unknown/export", "", 404},
		{service, "DELETE", "/v1/me", "", 422},
		{admin, "DELETE", "/v1/me", "", 403},
		{user, "DELETE", "/v1/users/1", "", 403},
		{admin, "DELETE", "/v1/users/1", "", 403},
		{service, "DELETE", "/v1/users/unknown", "", 404},
		{user, "DELETE", "/v1/admin/users/1", `{"reason":"x"}`, 403},
		{service, "DELETE", "/v1/admin/users/1", `{"reason":"x"}`, 403},
		{admin, "DELETE", "/v1/admin/users/unknown", `{"reason":"x"}`, 404},
		{service, "GET", "/v1/admin/erasures", "", 403},
		{admin, "GET", "/v1/admin/erasures", "", 200},
		{user, "GET", "/v1/admin/users/1", "", 403},
		{service, "GET", "/v1/admin/users/1", "", 403},
		{admin, "GET", "/v1/admin/users/unknown", "", 404},
		{service, "GET", "/v1/admin/boards/steps/buckets", "", 403},
		{admin, "GET", "/v1/admin/boards/steps/buckets", "", 200},
		{user, "GET", "/v1/admin/reviews", "", 403},
		{service, "GET", "/v1/admin/reviews", "", 403},
		{admin, "GET", "/v1/admin/reviews", "", 200},
		{user, "POST", "/v1/admin/reviews/1/dismiss", "", 403},
		{service, "POST", "/v1/admin/reviews/1/dismiss", "", 403},
		{admin, "POST", "/v1/admin/reviews/1/dismiss", "", 404},
		{"", "GET", "/v1/boards", "", 401},
	}
	for _, tt := range tests {
		var body any
		if tt.body != "" {
			body = tt.body
		}
		if a := s.call(tt.token, tt.method, tt.path, body); a.status != tt.status {
			t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, a.status, tt.status, a.body)
		}
	}
}
