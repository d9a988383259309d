package handlers

import (
	"context"
	"slices"

	"stepboard/models"
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
