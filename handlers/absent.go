package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// AbsentService lists those of whom a user is shown no score.
type AbsentService interface {
	AbsentFriends(ctx context.Context, q ranking.Query) (*ranking.Absent, error)
	AbsentMembers(ctx context.Context, q ranking.Query, group models.GroupID) (*ranking.Absent, error)
}

// absentHandlers serves these lists.
type absentHandlers struct {
	service AbsentService
}

var listAbsentFriends = operation{
	id:      "listAbsentFriends",
	summary: "List one's friends without a score",
	description: "One page of those friends who are not in the ranking of the same day: `?limit=50`, then `&cursor=` with the page's next_cursor. " +
		"It does not tell why: they have no score, they hide, or their score does not count. A score of 0 is ranked. " +
		"Muted friends are left out, and so is everybody whom an archived day does not list (setting friends.history_days).",
	errors: dayErrors(),
}

type absentPerson struct {
	UserID    models.UserID `json:"user_id" doc:"The user" example:"1001"`
	Nickname  string        `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL models.URL    `json:"avatar_url" doc:"Empty if the user has set none"`
}

func absentPersonOf(r models.PublicRecord) absentPerson {
	return absentPerson{UserID: r.User, Nickname: r.Nickname, AvatarURL: r.AvatarURL}
}

type absentPage struct {
	Board      string         `json:"board" doc:"The board's name" example:"steps"`
	Date       *string        `json:"date" nullable:"true" format:"date" example:"2026-11-20" doc:"The day, in the board's zone; null where the board has no days"`
	Total      int            `json:"total" doc:"How many people are absent, on all pages together" example:"3"`
	Entries    []absentPerson `json:"entries" nullable:"false" doc:"This page, in an order that does not change"`
	NextCursor *string        `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func absentOutput(a *ranking.Absent, err error) (*output[absentPage], error) {
	if err != nil {
		return nil, err
	}
	return &output[absentPage]{absentPage{a.Board, a.Date, a.Total, answersOf(a.People, absentPersonOf), a.NextCursor}}, nil
}

func (h *absentHandlers) friends(ctx context.Context, q ranking.Query, _ *PageInput) (*output[absentPage], error) {
	return absentOutput(h.service.AbsentFriends(ctx, q))
}

var listAbsentMembers = operation{
	id:      "listAbsentMembers",
	summary: "List the members of a group without a score",
	description: "One page of the other members of a group that the user is in, as GET /v1/boards/{board}/friends/absent answers it. " +
		"Members whom the user has muted or blocked are left out. Past days have those who are members now.",
	errors: dayErrors(models.CodeNotFound),
}

type absentMembersInput struct {
	GroupPath
	PageInput
}

func (h *absentHandlers) members(ctx context.Context, q ranking.Query, in *absentMembersInput) (*output[absentPage], error) {
	return absentOutput(h.service.AbsentMembers(ctx, q, in.Group))
}
