package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/people/friends"
)

// InviteService keeps the codes by which users invite friends.
type InviteService interface {
	Invite(ctx context.Context, user models.UserID) (code string, err error)
	RenewInvite(ctx context.Context, user models.UserID) (code string, err error)
	Inviter(ctx context.Context, user models.UserID, code string) (friends.Inviter, error)
	Join(ctx context.Context, user models.UserID, code string) (friends.Inviter, error)
}

// inviteHandlers serves invitations of friends.
type inviteHandlers struct {
	service InviteService
}

var getInvite = operation{
	id:      "getInvite",
	summary: "Show one's invite code",
	description: "Whoever has the code may become the user's friend without a request; put it into a link, or a QR code. " +
		"It is the same each time, until it is renewed.",
}

type invitation struct {
	InviteCode string `json:"invite_code" doc:"The user's invite code" example:"HX3PQ7N5B6RDZBNC"`
}

func (h *inviteHandlers) get(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[invitation], error) {
	code, err := h.service.Invite(ctx, user)
	return outputOf(invitation{code}, err)
}

var renewOwnInvite = operation{
	id:          "renewOwnInvite",
	summary:     "Renew one's invite code",
	description: "Nobody can become the user's friend by the old code any more.",
}

func (h *inviteHandlers) renew(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[invitation], error) {
	code, err := h.service.RenewInvite(ctx, user)
	return outputOf(invitation{code}, err)
}

var getInviter = operation{
	id:      "getInviter",
	summary: "Show who invites",
	description: "Show whose invite code it is, before anything changes: one's own id for one's own code. " +
		"404 if nobody has the code, or if one of the two blocks the other. Tries are limited as in POST /v1/friends/join.",
	errors: []models.Code{models.CodeNotFound},
}

// FriendCodeInput names an invite code of a user in the path.
type FriendCodeInput struct {
	Code string `path:"code" minLength:"1" maxLength:"64" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"The invite code" example:"HX3PQ7N5B6RDZBNC"`
	OnBehalf
}

type inviter struct {
	UserID    models.UserID `json:"user_id" doc:"Who invites" example:"1001"`
	Nickname  string        `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL string        `json:"avatar_url" doc:"Empty if the user has set none"`
	Friends   bool          `json:"friends" doc:"Whether the two are friends"`
}

func inviterOutput(i friends.Inviter, err error) (*output[inviter], error) {
	return outputOf(inviter{i.User, i.Nickname, i.AvatarURL, i.Friends}, err)
}

func (h *inviteHandlers) inviter(ctx context.Context, user models.UserID, in *FriendCodeInput) (*output[inviter], error) {
	return inviterOutput(h.service.Inviter(ctx, user, in.Code))
}

var joinFriend = operation{
	id:      "joinFriend",
	summary: "Become friends by an invite code",
	description: "Become a friend of the user who has the invite code, such as `{\"invite_code\":\"HX3PQ7N5B6RDZBNC\"}`. Lower case and spaces around it are accepted. " +
		"Who does so again gets the same answer. A user may try ten codes a minute, those of groups included (setting limits.joins_per_minute).",
	errors: []models.Code{models.CodeNotFound, models.CodeFriendLimit},
}

type friendCode struct {
	InviteCode string `json:"invite_code" minLength:"1" maxLength:"64" doc:"The invite code" example:"HX3PQ7N5B6RDZBNC"`
}

func (h *inviteHandlers) join(ctx context.Context, user models.UserID, in *ownInput[friendCode]) (*output[inviter], error) {
	return inviterOutput(h.service.Join(ctx, user, in.Body.InviteCode))
}
