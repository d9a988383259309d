package handlers

import (
	"context"

	"stepboard/models"
)

// ProfileService stores the profiles and ids of users.
type ProfileService interface {
	Get(ctx context.Context, user models.UserID) (models.Profile, error)
	Put(ctx context.Context, user models.UserID, p models.Profile) (models.Profile, error)
	Rename(ctx context.Context, user, to models.UserID) error
}

// profileHandlers serves users' profiles and ids.
type profileHandlers struct {
	profiles ProfileService
}

// newProfile is a whole profile; a field that is left out becomes empty.
type newProfile struct {
	Nickname  string `json:"nickname" doc:"1 to 64 characters, one or more of which show; no control or format characters, and at most 4 combining marks in a row. It is stored in Unicode's form C, without spaces at its ends and with one plain space for each other run of spaces" example:"Ann"`
	AvatarURL string `json:"avatar_url,omitempty" doc:"An http or https address without user, password and quotes; other characters than those of URLs are percent-encoded; empty for none" example:"https://example.com/ann.png"`
	CoverURL  string `json:"cover_url,omitempty" doc:"The picture that rankings show at their top while the user leads; an address as avatar_url" example:"https://example.com/hills.jpg"`
}

type profile struct {
	UserID    models.UserID `json:"user_id" doc:"The user" example:"1001"`
	Nickname  string        `json:"nickname" doc:"The name that others see" example:"Ann"`
	AvatarURL string        `json:"avatar_url" doc:"The picture that others see; empty for none"`
	CoverURL  string        `json:"cover_url" doc:"The picture that rankings show at their top while the user leads; empty for none"`
}

var getOwnProfile = operation{
	id:          "getProfile",
	summary:     "Get one's profile",
	description: "The profile that others see, as it is stored. Without a profile, the nickname, avatar_url and cover_url are empty.",
}

func (h *profileHandlers) getOwn(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[profile], error) {
	stored, err := h.profiles.Get(ctx, user)
	return outputOf(profileOf(user, stored), err)
}

var putOwnProfile = operation{
	id:      "setProfile",
	summary: "Set one's profile",
	description: "Set the whole profile, such as `{\"nickname\":\"Ann\",\"avatar_url\":\"https://example.com/ann.png\"}`. " +
		"The nickname is required and not empty; an avatar_url or cover_url that is left out becomes empty.",
}

func (h *profileHandlers) putOwn(ctx context.Context, user models.UserID, in *ownInput[newProfile]) (*output[profile], error) {
	return h.store(ctx, user, in.Body)
}

var putProfile = operation{
	id:      "setUserProfile",
	summary: "Set a user's profile",
	description: "Set a user's whole profile, such as `{\"nickname\":\"Ann\"}`. A user that does not exist yet is created. " +
		"The nickname is required and not empty; an avatar_url or cover_url that is left out becomes empty.",
}

type profileInput struct {
	ID   models.UserID `path:"id" doc:"The user" example:"1001"`
	Body newProfile
}

func (h *profileHandlers) put(ctx context.Context, in *profileInput) (*output[profile], error) {
	return h.store(ctx, in.ID, in.Body)
}

func (h *profileHandlers) store(ctx context.Context, user models.UserID, p newProfile) (*output[profile], error) {
	stored, err := h.profiles.Put(ctx, user, models.Profile(p))
	return outputOf(profileOf(user, stored), err)
}

func profileOf(user models.UserID, p models.Profile) profile {
	return profile{UserID: user, Nickname: p.Nickname, AvatarURL: p.AvatarURL, CoverURL: p.CoverURL}
}

var renameUser = operation{
	id:      "renameUser",
	summary: "Change a user's id",
	description: "Give a user another id, such as `{\"to\":\"1002\"}`, which nobody has. Everything that the user has stays: scores, friends, " +
		"groups, profile. From the answer on, the former id belongs to nobody, and other processes know that within two seconds; whoever writes " +
		"under it after that is somebody new. Sending the call again changes nothing.",
	errors: []models.Code{models.CodeUserNotFound, models.CodeUserExists},
}

type renameInput struct {
	ID   models.UserID `path:"id" doc:"The user" example:"1001"`
	Body newUserID
}

type newUserID struct {
	To models.UserID `json:"to" doc:"The user's new id" example:"1002"`
}

func (h *profileHandlers) rename(ctx context.Context, in *renameInput) (*struct{}, error) {
	return nil, h.profiles.Rename(ctx, in.ID, in.Body.To)
}
