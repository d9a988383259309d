package handlers_test

import (
	"context"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/people/friends"
)

// friendRequests is a fake handlers.FriendRequestService: 1002 has sent a
// request at noon, and one was sent to 1003 a second before.
type friendRequests struct {
	*recorder
	created bool
}

func (s friendRequests) Requests(_ context.Context, user models.UserID, after models.Cursor, limit int) ([]friends.Request, error) {
	when := "now"
	if after != (models.Cursor{}) {
		when = after.Before().Format(time.RFC3339)
	}
	if err := s.record("Requests", user, when, after.Row, limit); err != nil {
		return nil, err
	}
	list := []friends.Request{
		{Row: 88002, User: "1002", Nickname: "Ann", Incoming: true, CreatedAt: noon},
		{Row: 88001, User: "1003", CreatedAt: noon.Add(-time.Second)},
	}
	if after != (models.Cursor{}) {
		list = list[1:]
	}
	return list[:min(limit, len(list))], nil
}

func (s friendRequests) SendRequest(_ context.Context, from, to models.UserID) (friends.Status, bool, error) {
	return friends.StatusPending, s.created, s.record("SendRequest", from, to)
}

func (s friendRequests) Accept(_ context.Context, user, other models.UserID) error {
	return s.record("Accept", user, other)
}

func (s friendRequests) Decline(_ context.Context, user, other models.UserID) error {
	return s.record("Decline", user, other)
}

func TestFriendRequests(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{FriendRequests: friendRequests{recorder: r}}
	}
	const (
		list    = "GET /v1/friends/requests"
		send    = "POST /v1/friends/requests"
		accept  = "POST /v1/friends/requests/1002/accept"
		decline = "DELETE /v1/friends/requests/1002"
		to1002  = `{"user_id":"1002"}`
		both    = `200 {"requests":[{"user_id":"1002","nickname":"Ann","avatar_url":"","direction":"incoming","created_at":"2026-11-20T04:00:00.000Z"},` +
			`{"user_id":"1003","nickname":"","avatar_url":"","direction":"outgoing","created_at":"2026-11-20T03:59:59.000Z"}],"next_cursor":null}`
		forNobody = "422 validation_failed: query.user_id: a service token must name the user that it acts for"
	)
	listed, sent := []string{"Requests 1001 now 0 51"}, []string{"SendRequest 1001 1002"}
	accepted, declined := []string{"Accept 1001 1002"}, []string{"Decline 1001 1002"}
	runCases(t, config, []testCase{
		{"list", "1001", list, "", nil, listed, both},
		{"list, a service for nobody", "service", list, "", nil, nil, forNobody},
		{"list by another list's cursor", "1001", list + "?cursor=" + cursor(0, 2, "friend-list", "1001"), "", nil, nil, "400 invalid_cursor: …"},
		{"list, an unknown error", "1001", list, "", errUnknown, listed, wantInternal},

		{"send one that exists", "1001", send, to1002, nil, sent, `200 {"status":"pending"}`},
		{"send, a service for a user", "service", send + "?user_id=1001", to1002, nil, sent, `200 {"status":"pending"}`},
		{"send, a service for nobody", "service", send, to1002, nil, nil, forNobody},
		{"send to nobody", "1001", send, `{}`, nil, nil, "422 validation_failed: …"},
		{"send to an unknown user", "1001", send, to1002, models.Errorf(models.CodeUserNotFound, "unknown"), sent, "404 user_not_found: unknown"},
		{"send one too many", "1001", send, to1002, models.Errorf(models.CodeRequestLimit, "too many"), sent, "429 request_limit: too many"},
		{"send, an unknown error", "1001", send, to1002, errUnknown, sent, wantInternal},

		{"accept", "1001", accept, "", nil, accepted, `200 {"status":"friends"}`},
		{"accept, a service for nobody", "service", accept, "", nil, nil, forNobody},
		{"accept of nobody", "1001", "POST /v1/friends/requests/a%20b/accept", "", nil, nil, "422 validation_failed: path.id: …"},
		{"accept without a request", "1001", accept, "", models.Errorf(models.CodeNotFound, "none"), accepted, "404 not_found: none"},
		{"accept, an unknown error", "1001", accept, "", errUnknown, accepted, wantInternal},

		{"decline", "1001", decline, "", nil, declined, "204"},
		{"decline, a service for nobody", "service", decline, "", nil, nil, forNobody},
		{"decline of nobody", "1001", "DELETE /v1/friends/requests/a%20b", "", nil, nil, "422 validation_failed: path.id: …"},
		{"decline, the store is away", "1001", decline, "", errUnavailable, declined, wantUnavailable},
	})
	checkPages(t, config, "1001", "GET /v1/friends/requests?limit=1", []string{"Requests 1001 now 0 2", "Requests 1001 2026-11-20T04:00:00Z 88002 2"})
}

// 201 means that the call created the request.
func TestANewFriendRequest(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{FriendRequests: friendRequests{r, true}}
	}
	runCases(t, config, []testCase{
		{"send", "1001", "POST /v1/friends/requests", `{"user_id":"1002"}`, nil, []string{"SendRequest 1001 1002"}, `201 {"status":"pending"}`},
	})
}
