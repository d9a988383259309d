package handlers

import (
	"context"
	"net/http"

	"stepboard/models"
	"stepboard/services/people/friends"
)

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
	return friendRequest{
		UserID: r.User, Nickname: r.Nickname, AvatarURL: r.AvatarURL,
		Direction: directionOf(r), CreatedAt: models.TimestampOf(r.CreatedAt),
	}
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

func directionOf(r friends.Request) direction {
	if r.Incoming {
		return "incoming"
	}
	return "outgoing"
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
