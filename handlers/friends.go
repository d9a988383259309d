package handlers

import (
	"context"
	"net/http"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/friends"
)

type friendAnswer struct {
	UserID    models.UserID    `json:"user_id" doc:"The friend"`
	Nickname  string           `json:"nickname" doc:"Empty where the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Empty where the user has set none"`
	Since     models.Timestamp `json:"since" format:"date-time" doc:"When they became friends"`
}

type listFriendsInput struct {
	OnBehalf
	Paging
}

type friendsOutput struct {
	Body struct {
		Friends    []friendAnswer `json:"friends" nullable:"false" doc:"This page, by id"`
		NextCursor *string        `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
	}
}

func (a *api) listFriends(ctx context.Context, in *listFriendsInput) (*friendsOutput, error) {
	user, after, err := in.place(ctx, "friend-list")
	if err != nil {
		return nil, err
	}
	// One more than the page tells whether another follows.
	list, err := a.Friends.List(ctx, user, after.User, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &friendsOutput{}
	page := list[:min(len(list), in.Limit)]
	out.Body.Friends = make([]friendAnswer, len(page))
	for i, f := range page {
		out.Body.Friends[i] = friendAnswer{
			UserID: f.UserID, Nickname: f.Nickname, AvatarURL: f.AvatarURL, Since: models.TimestampOf(f.CreatedAt),
		}
	}
	if len(list) > len(page) {
		cursor := models.EncodeCursor(models.Cursor{User: page[len(page)-1].UserID}, "friend-list", user.String())
		out.Body.NextCursor = &cursor
	}
	return out, nil
}

// place resolves the caller and the cursor of a list.
func (in *listFriendsInput) place(ctx context.Context, call string) (models.UserID, models.Cursor, error) {
	user, err := in.user(ctx)
	if err != nil || in.Cursor == "" {
		return user, models.Cursor{}, err
	}
	place, err := models.DecodeCursor(in.Cursor, call, user.String())
	return user, place, err
}

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

type otherInput struct {
	ID string `path:"id" doc:"The other user" example:"1002"`
	OnBehalf
}

// users resolves the caller and the other user.
func (in *otherInput) users(ctx context.Context) (user, other models.UserID, err error) {
	if user, err = in.user(ctx); err != nil {
		return 0, 0, err
	}
	other, err = pathUser(in.ID)
	return user, other, err
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

func (a *api) removeFriend(ctx context.Context, in *otherInput) (*struct{}, error) {
	user, other, err := in.users(ctx)
	if err != nil {
		return nil, err
	}
	return nil, a.Friends.Remove(ctx, user, other)
}

type replaceInput struct {
	ID   string `path:"id" doc:"The user" example:"1001"`
	Body struct {
		FriendIDs []models.UserID `json:"friend_ids" nullable:"false" doc:"Exactly these become the user's friends; at most 5,000, none of them twice" example:"[\"1002\",\"1003\"]"`
	}
}

type replaceOutput struct {
	Body struct {
		UserID  models.UserID `json:"user_id" doc:"The user"`
		Friends int           `json:"friends" doc:"How many friends the user has now"`
	}
}

func (a *api) replaceFriends(ctx context.Context, in *replaceInput) (*replaceOutput, error) {
	user, err := pathUser(in.ID)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(in.Body.FriendIDs)
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(in.Body.FriendIDs) {
		return nil, models.Invalid("body.friend_ids", "names a user twice")
	}
	if slices.Contains(ids, user) {
		return nil, models.Invalid("body.friend_ids", "nobody can be a friend of oneself")
	}
	if err := a.Friends.Replace(ctx, user, in.Body.FriendIDs); err != nil {
		return nil, err
	}
	out := &replaceOutput{}
	out.Body.UserID, out.Body.Friends = user, len(in.Body.FriendIDs)
	return out, nil
}
