package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/ranking"
)

// likeRecords is a fake handlers.LikeService: each score is liked by the user 1002, whose row is
// 88001.
type likeRecords struct{ *recorder }

func (s likeRecords) note(method string, q ranking.Query, user models.UserID) error {
	date := "-"
	if q.Date != nil {
		date = q.Date.String()
	}
	return s.record(method, q.Board, q.Viewer, date+q.Offset.String(), user)
}

func (s likeRecords) Give(_ context.Context, q ranking.Query, user models.UserID) error {
	return s.note("Give", q, user)
}

func (s likeRecords) Withdraw(_ context.Context, q ranking.Query, user models.UserID) error {
	return s.note("Withdraw", q, user)
}

func (s likeRecords) List(_ context.Context, q ranking.Query, user models.UserID) (likes.Page, error) {
	next := "next of " + q.Cursor
	return likes.Page{Likers: []likes.Liker{{Row: 88001, User: "1002", Nickname: "Ann", CreatedAt: noon}}, NextCursor: &next}, s.note("List", q, user)
}

func TestLikes(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Likes: likeRecords{r}} }
	const (
		path = " /v1/boards/steps/likes/1003"
		list = `200 {"likes":[{"user_id":"1002","nickname":"Ann","avatar_url":"","liked_at":"2026-11-20T04:00:00.000Z"}],"next_cursor":"next of x"}`
		nobo = "422 validation_failed: query.user_id: a service token must name the user that it acts for"
	)
	notFound := models.Errorf(models.CodeNotFound, "no score")
	runCases(t, config, []testCase{
		{"give", "1001", "PUT" + path, "", nil, []string{"Give steps 1001 - 1003"}, "204"},
		{"give on a day", "1001", "PUT" + path + "?date=2026-11-19", "", nil, []string{"Give steps 1001 2026-11-19 1003"}, "204"},
		{"give, a service", "service", "PUT" + path + "?user_id=1001", "", nil, []string{"Give steps 1001 - 1003"}, "204"},
		{"give, a service for nobody", "service", "PUT" + path, "", nil, nil, nobo},
		{"give on no day", "1001", "PUT" + path + "?date=x", "", nil, nil, "422 validation_failed: …"},
		{"give, not shown", "1001", "PUT" + path, "", notFound, []string{"Give steps 1001 - 1003"}, "404 not_found: no score"},
		{"withdraw", "1001", "DELETE" + path, "", nil, []string{"Withdraw steps 1001 - 1003"}, "204"},
		{"withdraw, the store is away", "1001", "DELETE" + path, "", errUnavailable, []string{"Withdraw steps 1001 - 1003"}, wantUnavailable},
		{"list", "1001", "GET" + path + "?cursor=x", "", nil, []string{"List steps 1001 - 1003"}, list},
		{"list, an unknown error", "1001", "GET" + path, "", errUnknown, []string{"List steps 1001 - 1003"}, wantInternal},
	})
}
