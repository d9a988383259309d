package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
)

// friendships is a fake handlers.FriendService with the friends 1002, 1003 and
// 1004, whose rows are 88001, 88002 and 88003.
type friendships struct{ *recorder }

func (s friendships) List(_ context.Context, user models.UserID, after models.RowID, limit int) ([]friends.Friend, error) {
	if err := s.record("List", user, after, limit); err != nil {
		return nil, err
	}
	list := []friends.Friend{}
	for row := max(after+1, 88001); row <= 88003 && len(list) < limit; row++ {
		list = append(list, friends.Friend{Row: row, User: testenv.ID(row - 86999), Nickname: "Ann", AvatarURL: "a.png", CreatedAt: noon})
	}
	return list, nil
}

func (s friendships) Remove(_ context.Context, user, other models.UserID) error {
	return s.record("Remove", user, other)
}

func (s friendships) Replace(_ context.Context, user models.UserID, ids []models.UserID) error {
	return s.record("Replace", user, ids)
}

func TestFriends(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Friends: friendships{r}} }
	const (
		list    = "GET /v1/friends"
		remove  = "DELETE /v1/friends/1002"
		replace = "PUT /v1/users/1001/friends"
		two     = `{"friend_ids":["1003","1002"]}`
	)
	friend := func(id string) string {
		return `{"user_id":"` + id + `","nickname":"Ann","avatar_url":"a.png","since":"2026-11-20T04:00:00.000Z"}`
	}
	all := `200 {"friends":[` + friend("1002") + `,` + friend("1003") + `,` + friend("1004") + `],"next_cursor":null}`
	listed, removed, replaced := []string{"List 1001 0 51"}, []string{"Remove 1001 1002"}, []string{"Replace 1001 [1003 1002]"}
	runCases(t, config, []testCase{
		{"list", "1001", list, "", nil, listed, all},
		{"list, a service for a user", "service", list + "?user_id=1001", "", nil, listed, all},
		{"list exactly one page", "1001", list + "?limit=3", "", nil, []string{"List 1001 0 4"}, all},
		{"list, a service for nobody", "service", list, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"list by a broken cursor", "1001", list + "?cursor=x", "", nil, nil, "400 invalid_cursor: …"},
		{"list by another list's cursor", "1001", list + "?cursor=" + cursor(1, 2, "friend-requests", "1001"), "", nil, nil, "400 invalid_cursor: …"},
		{"list by another user's cursor", "1001", list + "?cursor=" + cursor(0, 2, "friend-list", "1002"), "", nil, nil, "400 invalid_cursor: …"},
		{"list, the store is away", "1001", list, "", errUnavailable, listed, wantUnavailable},
		{"list, an unknown error", "1001", list, "", errUnknown, listed, wantInternal},

		{"remove", "1001", remove, "", nil, removed, "204"},
		{"remove, a service for nobody", "service", remove, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"remove nobody", "1001", "DELETE /v1/friends/a%20b", "", nil, nil, "422 validation_failed: path.id: …"},
		{"remove, the store is away", "1001", remove, "", errUnavailable, removed, wantUnavailable},

		{"replace", "service", replace, two, nil, replaced, `200 {"user_id":"1001","friends":2}`},
		{"replace by nobody", "service", replace, `{"friend_ids":[]}`, nil, []string{"Replace 1001 []"}, `200 {"user_id":"1001","friends":0}`},
		{"replace a broken user's", "service", "PUT /v1/users/a%20b/friends", two, nil, nil, "422 validation_failed: path.id: …"},
		{"replace by one friend twice", "service", replace, `{"friend_ids":["1003","1003"]}`, nil, nil,
			"422 validation_failed: body.friend_ids: names a user twice"},
		{"replace by oneself", "service", replace, `{"friend_ids":["1003","1001"]}`, nil, nil,
			"422 validation_failed: body.friend_ids: nobody can be a friend of oneself"},
		{"replace without a list", "service", replace, `{}`, nil, nil, "422 validation_failed: …"},
		{"replace with a user's token", "1001", replace, two, nil, nil, "403 forbidden: this token may not make this call"},
		{"replace by too many", "service", replace, two, models.Errorf(models.CodeFriendLimit, "too many"), replaced, "409 friend_limit: too many"},
		{"replace, an unknown error", "service", replace, two, errUnknown, replaced, wantInternal},
	})
	checkPages(t, config, "1001", "GET /v1/friends?limit=1", []string{"List 1001 0 2", "List 1001 88001 2", "List 1001 88002 2"})
}
