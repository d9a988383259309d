package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/people/groups"
)

// GroupInviteService lets users join groups by invite codes.
type GroupInviteService interface {
	Invitation(ctx context.Context, user models.UserID, code string) (groups.Invitation, error)
	Join(ctx context.Context, user models.UserID, code string) (groups.Group, error)
}

var getGroupInvitation = operation{
	id:          "getGroupInvitation",
	summary:     "Show which group invites",
	description: "Show what an invite code of a group is for, before anything changes. Tries are limited as in POST /v1/groups/join.",
	errors:      []models.Code{models.CodeNotFound},
}

// GroupCodeInput names an invite code of a group in the path.
type GroupCodeInput struct {
	Code string `path:"code" minLength:"1" maxLength:"64" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"The invite code" example:"KX7WQ2M5A4TDZBNC"`
	OnBehalf
}

type groupInvitation struct {
	GroupID   models.GroupID `json:"group_id" doc:"The group" example:"mfrggzdfmztwq2lk"`
	Name      string         `json:"name" doc:"Its name" example:"Family"`
	Members   int            `json:"members" doc:"How many members it has"`
	Member    bool           `json:"member" doc:"Whether the user is one of them"`
	OwnerID   models.UserID  `json:"owner_id" doc:"Its owner" example:"1001"`
	Nickname  string         `json:"nickname" doc:"The owner's; empty if the owner has set none"`
	AvatarURL string         `json:"avatar_url" doc:"The owner's; empty if the owner has set none"`
}

func (h *groupHandlers) invitation(ctx context.Context, user models.UserID, in *GroupCodeInput) (*output[groupInvitation], error) {
	i, err := h.service.Invitation(ctx, user, in.Code)
	return outputOf(groupInvitation(i), err)
}

var joinGroup = operation{
	id:      "joinGroup",
	summary: "Join a group",
	description: "Join the group with an invite code, such as `{\"invite_code\":\"KX7WQ2M5A4TDZBNC\"}`. Lower case and spaces around it are accepted. " +
		"A member who joins again gets the same answer. A group has at most 500 members, and a user is in at most 50 groups. " +
		"A user may try ten codes a minute (setting limits.joins_per_minute).",
	errors: []models.Code{models.CodeNotFound, models.CodeGroupFull, models.CodeGroupLimit},
}

type inviteCode struct {
	InviteCode string `json:"invite_code" minLength:"1" maxLength:"64" doc:"The invite code" example:"KX7WQ2M5A4TDZBNC"`
}

func (h *groupHandlers) join(ctx context.Context, user models.UserID, in *ownInput[inviteCode]) (*output[Group], error) {
	return groupOutput(h.service.Join(ctx, user, in.Body.InviteCode))
}
