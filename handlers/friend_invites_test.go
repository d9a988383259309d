package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/people/friends"
)

// invitations is a fake service of invite codes.
type invitations struct{ *recorder }

func (s invitations) Invite(_ context.Context, user models.UserID) (string, error) {
	return "KX7WQ2M5A4TDZBNC", s.record("Invite", user)
}

func (s invitations) RenewInvite(_ context.Context, user models.UserID) (string, error) {
	return "KX7WQ2M5A4TDZBND", s.record("RenewInvite", user)
}

func (s invitations) Inviter(_ context.Context, user models.UserID, code string) (friends.Inviter, error) {
	return friends.Inviter{Row: 7, User: "1002", Nickname: "Ann"}, s.record("Inviter", user, code)
}

func (s invitations) Join(_ context.Context, user models.UserID, code string) (friends.Inviter, error) {
	return friends.Inviter{Row: 7, User: "1002", Nickname: "Ann", Friends: true}, s.record("Join", user, code)
}

func TestFriendInvites(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Invites: invitations{r}} }
	const (
		look = "GET /v1/friends/invites/abc"
		join = "POST /v1/friends/join"
		code = `{"invite_code":"abc"}`
	)
	errLimit := models.Errorf(models.CodeFriendLimit, "full")
	runCases(t, config, []testCase{
		{"the code", "1001", "GET /v1/me/invite", "", nil, []string{"Invite 1001"}, `200 {"invite_code":"KX7WQ2M5A4TDZBNC"}`},
		{"the code of a user", "service", "GET /v1/me/invite?user_id=1001", "", nil, []string{"Invite 1001"}, `200 {"invite_code":"KX7WQ2M5A4TDZBNC"}`},
		{"another code", "1001", "POST /v1/me/invite", "", nil, []string{"RenewInvite 1001"}, `200 {"invite_code":"KX7WQ2M5A4TDZBND"}`},
		{"who invites", "1001", look, "", nil, []string{"Inviter 1001 abc"}, `200 {"user_id":"1002","nickname":"Ann","avatar_url":"","friends":false}`},
		{"who invites with a NUL", "1001", "GET /v1/friends/invites/a%00", "", nil, nil, "422 validation_failed: …"},
		{"joining", "1001", join, code, nil, []string{"Join 1001 abc"}, `200 {"user_id":"1002","nickname":"Ann","avatar_url":"","friends":true}`},
		{"joining somebody with too many", "1001", join, code, errLimit, []string{"Join 1001 abc"}, "409 friend_limit: full"},
		{"joining without a code", "1001", join, `{}`, nil, nil, "422 validation_failed: …"},
	})
}
