package e2e_test

import (
	"strconv"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

func TestFriendsOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testFriendsOverHTTP)
}

func testFriendsOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for i, name := range []string{"Ann", "Ben", "Cho"} { // friends are listed in the order of their rows
		id := strconv.Itoa(i + 1)
		s.want(s.service("PUT", "/v1/users/"+id, map[string]string{"nickname": name, "avatar_url": "https://example.com/" + id}), 200, nil)
	}
	type status struct {
		Status string `json:"status"`
	}
	var got status
	ask := func(from models.UserID, to string, code int, want string) {
		t.Helper()
		s.want(s.as(from, "POST", "/v1/friends/requests", map[string]string{"user_id": to}), code, &got)
		if got.Status != want {
			t.Errorf("%s asks %s: %s, want %s", from, to, got.Status, want)
		}
	}
	ask("1", "2", 201, "pending")
	ask("1", "2", 200, "pending")
	s.refuse(s.as("1", "POST", "/v1/friends/requests", `{"user_id":"1"}`), 422, models.CodeValidationFailed)
	s.refuse(s.as("1", "POST", "/v1/friends/requests", `{"user_id":"99"}`), 404, models.CodeUserNotFound)
	s.refuse(s.as("1", "POST", "/v1/friends/requests/2/accept", nil), 404, models.CodeNotFound)

	type request struct {
		UserID    string `json:"user_id"`
		Nickname  string `json:"nickname"`
		AvatarURL string `json:"avatar_url"`
		Direction string `json:"direction"`
		CreatedAt string `json:"created_at"`
	}
	var requests struct {
		Requests   []request `json:"requests"`
		NextCursor *string   `json:"next_cursor"`
	}
	s.want(s.as("2", "GET", "/v1/friends/requests", nil), 200, &requests)
	want := request{"1", "Ann", "https://example.com/1", "incoming", "2026-11-20T13:00:00.000Z"}
	if len(requests.Requests) != 1 || requests.Requests[0] != want {
		t.Errorf("requests %+v", requests)
	}
	s.want(s.as("2", "POST", "/v1/friends/requests/1/accept", nil), 200, &got)
	if got.Status != "friends" {
		t.Errorf("accepting: %s", got.Status)
	}
	ask("3", "1", 201, "pending")
	ask("1", "3", 201, "friends")
	ask("1", "3", 200, "friends")

	type friend struct {
		UserID    string `json:"user_id"`
		Nickname  string `json:"nickname"`
		AvatarURL string `json:"avatar_url"`
		Since     string `json:"since"`
	}
	var list struct {
		Friends    []friend `json:"friends"`
		NextCursor *string  `json:"next_cursor"`
	}
	s.want(s.as("1", "GET", "/v1/friends?limit=1", nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0] != (friend{"2", "Ben", "https://example.com/2", "2026-11-20T13:00:00.000Z"}) || list.NextCursor == nil {
		t.Fatalf("friends %+v", list)
	}
	cursor := *list.NextCursor
	s.want(s.as("1", "GET", "/v1/friends?limit=1&cursor="+cursor, nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0].UserID != "3" || list.NextCursor != nil {
		t.Errorf("the second page: %+v", list)
	}
	s.refuse(s.as("2", "GET", "/v1/friends?cursor="+cursor, nil), 400, models.CodeInvalidCursor)
	s.refuse(s.as("1", "GET", "/v1/friends/requests?cursor="+cursor, nil), 400, models.CodeInvalidCursor)

	for range 2 { // deleting again succeeds
		s.want(s.as("1", "DELETE", "/v1/friends/2", nil), 204, nil)
		s.want(s.as("1", "DELETE", "/v1/friends/requests/2", nil), 204, nil)
	}
	var replaced struct {
		UserID  string `json:"user_id"`
		Friends int    `json:"friends"`
	}
	s.want(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["3","1001"]}`), 200, &replaced)
	if replaced.UserID != "2" || replaced.Friends != 2 {
		t.Errorf("replaced %+v", replaced)
	}
	s.want(s.as("1001", "GET", "/v1/friends", nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0].UserID != "2" {
		t.Errorf("the other side of a replacement: %+v", list)
	}
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["3","3"]}`), 422, models.CodeValidationFailed)
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["2"]}`), 422, models.CodeValidationFailed)
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{}`), 422, models.CodeValidationFailed)
	many := make([]string, models.MaxFriends+1)
	for i := range many {
		many[i] = strconv.Itoa(i + 10)
	}
	s.refuse(s.service("PUT", "/v1/users/2/friends", map[string]any{"friend_ids": many}), 409, models.CodeFriendLimit)
	full := env.Gorm.Exec("UPDATE users SET friend_count = ? WHERE external_id = '2'", models.MaxFriends)
	if full.Error != nil || full.RowsAffected != 1 {
		t.Fatalf("setting the number of friends: %d rows, %v", full.RowsAffected, full.Error)
	}
	ask2 := s.as("1", "POST", "/v1/friends/requests", `{"user_id":"2"}`)
	s.refuse(ask2, 409, models.CodeFriendLimit)
}
