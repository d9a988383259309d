package handlers

import (
	"context"
	"slices"

	"stepboard/models"
	"stepboard/services/people/friends"
)

// FriendService lists, ends and replaces friendships.
type FriendService interface {
	List(ctx context.Context, user models.UserID, after models.RowID, limit int) ([]friends.Friend, error)
	Remove(ctx context.Context, user, other models.UserID) error
	Replace(ctx context.Context, user models.UserID, ids []models.UserID) error
}

// friendHandlers serves friendships.
type friendHandlers struct {
	service FriendService
	cursors CursorSealer
}

var listFriends = operation{
	id:          "listFriends",
	summary:     "List one's friends",
	description: "One page of the user's friends: `?limit=50`, then `&cursor=` with the page's next_cursor.",
}

// ListInput picks a page of a list of the user that the request acts for.
type ListInput struct {
	OnBehalf
	Paging
}

type friend struct {
	UserID    models.UserID    `json:"user_id" doc:"The friend" example:"1001"`
	Nickname  string           `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Empty if the user has set none"`
	Since     models.Timestamp `json:"since" format:"date-time" doc:"When they became friends" example:"2026-11-20T13:00:00.123Z"`
}

func friendOf(f friends.Friend) friend {
	return friend{UserID: f.User, Nickname: f.Nickname, AvatarURL: f.AvatarURL, Since: models.TimestampOf(f.CreatedAt)}
}

type friendPage struct {
	Friends    []friend `json:"friends" nullable:"false" doc:"This page, in an order that does not change"`
	NextCursor *string  `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *friendHandlers) list(ctx context.Context, user models.UserID, in *ListInput) (*output[friendPage], error) {
	list, next, err := pageOf(ctx, h.cursors, in.Paging, friendOf, func(after models.Cursor, limit int) ([]friends.Friend, error) {
		return h.service.List(ctx, user, after.Row, limit)
	}, "friend-list", string(user))
	return outputOf(friendPage{list, next}, err)
}

var removeFriend = operation{
	id:          "removeFriend",
	summary:     "End a friendship",
	description: "Ends the friendship on both sides. If the two are not friends, nothing changes.",
}

// OtherInput names another user in the path.
type OtherInput struct {
	ID models.UserID `path:"id" doc:"The other user" example:"1001"`
	OnBehalf
}

func (h *friendHandlers) remove(ctx context.Context, user models.UserID, in *OtherInput) (*struct{}, error) {
	return nil, h.service.Remove(ctx, user, in.ID)
}

var replaceFriends = operation{
	id:      "replaceFriends",
	summary: "Replace a user's friends",
	description: "For apps that keep friendships elsewhere: `{\"friend_ids\":[\"1002\",\"1003\"]}` makes these the user's friends, on both sides, and nobody else. " +
		"An empty list ends all of the user's friendships.",
	bodies: []any{friendIDs{}},
	list:   true,
	errors: []models.Code{models.CodeFriendLimit},
}

// friendIDs is the body of replaceFriends.
type friendIDs struct {
	FriendIDs []models.UserID `json:"friend_ids" nullable:"false" maxItems:"5000" doc:"Exactly these become the user's friends; none of them twice" example:"[\"1002\",\"1003\"]"`
}

type replaceInput struct {
	ID      models.UserID `path:"id" doc:"The user" example:"1001"`
	RawBody []byte
}

type friendCount struct {
	UserID  models.UserID `json:"user_id" doc:"The user"`
	Friends int           `json:"friends" doc:"How many friends the user has now"`
}

func (h *friendHandlers) replace(ctx context.Context, in *replaceInput) (*output[friendCount], error) {
	var body friendIDs
	if err := decodeBody(in.RawBody, &body); err != nil {
		return nil, err
	}
	if err := checkUsers("body.friend_ids", body.FriendIDs); err != nil {
		return nil, err
	}
	if slices.Contains(body.FriendIDs, in.ID) {
		return nil, models.Invalid("body.friend_ids", "nobody can be a friend of oneself")
	}
	return outputOf(friendCount{UserID: in.ID, Friends: len(body.FriendIDs)}, h.service.Replace(ctx, in.ID, body.FriendIDs))
}

// checkUsers refuses a list of users that is missing or names one twice.
func checkUsers(location string, users []models.UserID) error {
	if users == nil {
		return models.Invalid(location, "is required")
	}
	if len(slices.Compact(slices.Sorted(slices.Values(users)))) != len(users) {
		return models.Invalid(location, "names a user twice")
	}
	return nil
}
