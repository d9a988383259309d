package handlers

import (
	"context"
	"net/http"
	"time"

	"stepboard/models"
	"stepboard/services/friends"
)

// direction says who asked.
type direction string

type requestAnswer struct {
	UserID    models.UserID    `json:"user_id" doc:"The other user"`
	Nickname  string           `json:"nickname" doc:"Empty where the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Empty where the user has set none"`
	Direction direction        `json:"direction" enum:"incoming,outgoing" doc:"incoming: the other asks; outgoing: oneself asks"`
	CreatedAt models.Timestamp `json:"created_at" format:"date-time" doc:"When it was asked"`
}

type requestsOutput struct {
	Body struct {
		Requests   []requestAnswer `json:"requests" nullable:"false" doc:"This page, newest first"`
		NextCursor *string         `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
	}
}

func (a *api) listRequests(ctx context.Context, in *listFriendsInput) (*requestsOutput, error) {
	user, after, err := in.place(ctx, "friend-requests")
	if err != nil {
		return nil, err
	}
	var before time.Time
	if after.Key != 0 {
		before = time.UnixMicro(after.Key).UTC()
	}
	list, err := a.Friends.Requests(ctx, user, before, after.User, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &requestsOutput{}
	page := list[:min(len(list), in.Limit)]
	out.Body.Requests = make([]requestAnswer, len(page))
	for i, r := range page {
		out.Body.Requests[i] = requestAnswer{
			UserID: r.UserID, Nickname: r.Nickname, AvatarURL: r.AvatarURL,
			Direction: directionOf(r), CreatedAt: models.TimestampOf(r.CreatedAt),
		}
	}
	if len(list) > len(page) {
		last := page[len(page)-1]
		cursor := models.EncodeCursor(models.Cursor{Key: last.CreatedAt.UnixMicro(), User: last.UserID}, "friend-requests", user.String())
		out.Body.NextCursor = &cursor
	}
	return out, nil
}

func directionOf(r friends.Request) direction {
	if r.Incoming {
		return "incoming"
	}
	return "outgoing"
}

type askInput struct {
	OnBehalf
	Body struct {
		UserID models.UserID `json:"user_id" doc:"Whom to ask" example:"1002"`
	}
}

type statusOutput struct {
	Status int
	Body   struct {
		Status friends.Status `json:"status" enum:"pending,friends" doc:"pending: asked; friends: the other had asked already"`
	}
}

func (a *api) askFriend(ctx context.Context, in *askInput) (*statusOutput, error) {
	user, err := in.user(ctx)
	if err != nil {
		return nil, err
	}
	status, created, err := a.Friends.Ask(ctx, user, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	out := &statusOutput{Status: http.StatusOK}
	if created {
		out.Status = http.StatusCreated
	}
	out.Body.Status = status
	return out, nil
}

func (a *api) acceptFriend(ctx context.Context, in *otherInput) (*statusOutput, error) {
	user, other, err := in.users(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.Friends.Accept(ctx, user, other); err != nil {
		return nil, err
	}
	out := &statusOutput{Status: http.StatusOK}
	out.Body.Status = friends.StatusFriends
	return out, nil
}

func (a *api) declineFriend(ctx context.Context, in *otherInput) (*struct{}, error) {
	user, other, err := in.users(ctx)
	if err != nil {
		return nil, err
	}
	return nil, a.Friends.Decline(ctx, user, other)
}
