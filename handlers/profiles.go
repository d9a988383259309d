package handlers

import (
	"context"

	"stepboard/models"
)

// profileBody is a whole profile; what it leaves out becomes empty.
type profileBody struct {
	Nickname  string `json:"nickname" doc:"1 to 64 characters, none of them a control character" example:"Ann"`
	AvatarURL string `json:"avatar_url,omitempty" doc:"An http or https address; empty for none" example:"https://example.com/ann.png"`
}

type ownProfileInput struct {
	OnBehalf
	Body profileBody
}

type profileInput struct {
	ID   string `path:"id" doc:"The user" example:"1001"`
	Body profileBody
}

type profileOutput struct {
	Body struct {
		UserID    models.UserID `json:"user_id" doc:"The user"`
		Nickname  string        `json:"nickname" doc:"What others see"`
		AvatarURL string        `json:"avatar_url" doc:"What others see; empty for none"`
	}
}

func (a *api) putOwnProfile(ctx context.Context, in *ownProfileInput) (*profileOutput, error) {
	user, err := in.user(ctx)
	if err != nil {
		return nil, err
	}
	return a.setProfile(ctx, user, in.Body)
}

func (a *api) putProfile(ctx context.Context, in *profileInput) (*profileOutput, error) {
	user, err := pathUser(in.ID)
	if err != nil {
		return nil, err
	}
	return a.setProfile(ctx, user, in.Body)
}

func (a *api) setProfile(ctx context.Context, user models.UserID, p profileBody) (*profileOutput, error) {
	if err := a.Users.Put(ctx, user, models.Profile{Nickname: p.Nickname, AvatarURL: p.AvatarURL}); err != nil {
		return nil, err
	}
	out := &profileOutput{}
	out.Body.UserID, out.Body.Nickname, out.Body.AvatarURL = user, p.Nickname, p.AvatarURL
	return out, nil
}
