package handlers

import (
	"context"
	"net/http"
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

// FriendRequestService lists, sends and settles friend requests.
type FriendRequestService interface {
	Requests(ctx context.Context, user models.UserID, after models.Cursor, limit int) ([]friends.Request, error)
	SendRequest(ctx context.Context, from, to models.UserID) (status friends.Status, created bool, err error)
	Accept(ctx context.Context, user, other models.UserID) error
	Decline(ctx context.Context, user, other models.UserID) error
}

// friendRequestHandlers serves friend requests.
type friendRequestHandlers struct {
	service FriendRequestService
	cursors CursorSealer
}

var listFriendRequests = operation{
	id:          "listFriendRequests",
	summary:     "List one's friend requests",
	description: "One page of the pending requests, incoming and outgoing, newest first. Outgoing ones show no nickname and no avatar.",
}

// direction says which of two users has sent a request.
type direction string

type friendRequest struct {
	UserID    models.UserID    `json:"user_id" doc:"The other user" example:"1001"`
	Nickname  string           `json:"nickname" doc:"Of incoming requests; empty if the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Of incoming requests; empty if the user has set none"`
	Direction direction        `json:"direction" enum:"incoming,outgoing" doc:"incoming: the other user has sent it; outgoing: the user has sent it"`
	CreatedAt models.Timestamp `json:"created_at" format:"date-time" doc:"When it was sent" example:"2026-11-20T13:00:00.123Z"`
}

func friendRequestOf(r friends.Request) friendRequest {
	shown := friendRequest{
		UserID: r.User, Nickname: r.Nickname, AvatarURL: r.AvatarURL, Direction: "outgoing", CreatedAt: models.TimestampOf(r.CreatedAt),
	}
	if r.Incoming {
		shown.Direction = "incoming"
	}
	return shown
}

type friendRequestPage struct {
	Requests   []friendRequest `json:"requests" nullable:"false" doc:"This page, newest first"`
	NextCursor *string         `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *friendRequestHandlers) list(ctx context.Context, user models.UserID, in *ListInput) (*output[friendRequestPage], error) {
	requests, next, err := pageOf(ctx, h.cursors, in.Paging, friendRequestOf, func(after models.Cursor, limit int) ([]friends.Request, error) {
		return h.service.Requests(ctx, user, after, limit)
	}, "friend-requests", string(user))
	return outputOf(friendRequestPage{requests, next}, err)
}

var sendFriendRequest = operation{
	id:      "sendFriendRequest",
	summary: "Ask somebody to be friends",
	description: "Send a request to a user, such as `{\"user_id\":\"1002\"}`. If that user has sent one to the caller before, the two are friends at once. " +
		"201 means that this call created the request or the friendship, 200 that it existed before. " +
		"429 `request_limit` means that the caller has too many requests that wait for an answer, or has sent too many within a day.",
	otherStatus: http.StatusCreated,
	errors:      []models.Code{models.CodeUserNotFound, models.CodeFriendLimit, models.CodeRequestLimit},
}

type newFriendRequest struct {
	UserID models.UserID `json:"user_id" doc:"The user that the request is sent to" example:"701"`
}

// friendStatus says where two users stand after a call.
type friendStatus struct {
	Status friends.Status `json:"status" enum:"pending,friends" doc:"pending: the request waits for an answer; friends: the two are friends"`
}

func (h *friendRequestHandlers) send(ctx context.Context, user models.UserID, in *ownInput[newFriendRequest]) (*statusOutput[friendStatus], error) {
	relation, created, err := h.service.SendRequest(ctx, user, in.Body.UserID)
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return statusOutputOf(status, friendStatus{relation}, err)
}

var acceptFriendRequest = operation{
	id:          "acceptFriendRequest",
	summary:     "Accept a request",
	description: "Accept the request that the user {id} has sent: /v1/friends/requests/1002/accept makes 1002 a friend.",
	errors:      []models.Code{models.CodeNotFound, models.CodeFriendLimit},
}

func (h *friendRequestHandlers) accept(ctx context.Context, user models.UserID, in *OtherInput) (*output[friendStatus], error) {
	return outputOf(friendStatus{friends.StatusFriends}, h.service.Accept(ctx, user, in.ID))
}

var declineFriendRequest = operation{
	id:      "declineFriendRequest",
	summary: "Decline or withdraw a request",
	description: "Decline the request that the user {id} has sent, or withdraw the one sent to that user. If there is no request, nothing changes. " +
		"A declined request stays pending for its sender, whose further requests do not reach the caller for seven days.",
}

func (h *friendRequestHandlers) decline(ctx context.Context, user models.UserID, in *OtherInput) (*struct{}, error) {
	return nil, h.service.Decline(ctx, user, in.ID)
}

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
