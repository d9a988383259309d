package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/operations/support"
	"stepboard/services/people/groups"
	"stepboard/services/rankings/ranking"
)

// SupportService gathers what is known about one user.
type SupportService interface {
	User(ctx context.Context, user models.UserID, board string) (support.User, error)
	Find(ctx context.Context, name string, after models.RowID, limit int) ([]support.Found, error)
}

// supportHandlers serves what is known about users to operators.
type supportHandlers struct {
	support SupportService
	cursors CursorSealer
}

var getUser = operation{
	id:      "getUser",
	summary: "Show a user",
	description: "What operators need to answer a user's question: the profile, how many friends, requests and choices of privacy " +
		"there are, the groups, the newest corrections and scores to look at, and whether an erasure is under way. " +
		"`?board=steps` adds the user's last 31 days on a board. GET /v1/admin/users/{id}/export has everything that is stored.",
	errors: []models.Code{models.CodeUserNotFound, models.CodeBoardNotFound, models.CodeBoardKind},
}

type getUserInput struct {
	ID    models.UserID `path:"id" doc:"The user" example:"1001"`
	Board string        `query:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"The board of which days are shown; none if it is left out"`
}

// User is a user as operators see them.
type User struct {
	UserID      models.UserID     `json:"user_id" doc:"The user"`
	Exists      bool              `json:"exists" doc:"False while a user of this id is being erased and nobody else has come under it; all but erasure is empty then"`
	Nickname    string            `json:"nickname" doc:"Empty while unset"`
	AvatarURL   string            `json:"avatar_url" doc:"Empty while unset"`
	CoverURL    string            `json:"cover_url" doc:"Empty while unset"`
	CreatedAt   *models.Timestamp `json:"created_at" nullable:"true" format:"date-time" doc:"When the user came into being"`
	Friends     int               `json:"friends" doc:"How many friends"`
	Requests    requestCounts     `json:"requests" doc:"How many friend requests wait"`
	Privacy     privacyState      `json:"privacy" doc:"What the user has chosen"`
	Groups      []userGroup       `json:"groups" nullable:"false" doc:"The one joined last first"`
	Days        []historyEntry    `json:"days" nullable:"false" doc:"The last 31 days on the board, newest first, as the user sees them; none without board"`
	Partial     bool              `json:"partial" doc:"True if the most recent days are missing because they can't be read right now"`
	Corrections []correction      `json:"corrections" nullable:"false" doc:"The newest 50 corrections, lifted ones included"`
	Reviews     []review          `json:"reviews" nullable:"false" doc:"The newest 50 scores that nobody has looked at"`
	Erasure     *erasure          `json:"erasure" doc:"The erasure that is under way; null for none"`
}

type requestCounts struct {
	Received int `json:"received" doc:"Those that wait for the user's answer"`
	Sent     int `json:"sent" doc:"Those that the user has sent, declined ones included"`
}

type privacyState struct {
	Hidden     bool `json:"hidden" doc:"Whether the user hides from everybody"`
	HiddenFrom int  `json:"hidden_from" doc:"From how many people the user hides"`
	Muted      int  `json:"muted" doc:"How many people the user has muted"`
	Blocked    int  `json:"blocked" doc:"How many people the user has blocked"`
}

type userGroup struct {
	GroupID models.GroupID `json:"group_id" doc:"The group"`
	Name    string         `json:"name" doc:"Empty if a backend has made the group without a name"`
	Members int            `json:"members" doc:"How many members it has"`
	Owner   bool           `json:"owner" doc:"Whether the user is its owner"`
}

func userOf(id models.UserID, u support.User) User {
	answer := User{UserID: id, Exists: u.Facts != nil}
	if f := u.Facts; f != nil {
		answer.Nickname, answer.AvatarURL, answer.CoverURL, answer.CreatedAt = f.Nickname, f.AvatarURL, f.CoverURL, timestampIfAny(&f.CreatedAt)
		answer.Friends, answer.Requests = f.Friends, requestCounts{f.RequestsReceived, f.RequestsSent}
		answer.Privacy = privacyState{f.Hidden, f.HiddenFrom, f.Muted, f.Blocked}
	}
	answer.Groups = answersOf(u.Groups, func(g groups.Group) userGroup {
		return userGroup{GroupID: g.ID, Name: g.Name, Members: g.Members, Owner: g.Owner == id}
	})
	var days []ranking.Day
	if u.Days != nil {
		days, answer.Partial = u.Days.Days, u.Days.Partial
	}
	answer.Days = answersOf(days, historyEntryOf)
	answer.Corrections = answersOf(u.Corrections, correctionOf)
	answer.Reviews = answersOf(u.Reviews, reviewOf)
	if u.Erasure != nil {
		answer.Erasure = new(erasureOf(*u.Erasure))
	}
	return answer
}

func (h *supportHandlers) show(ctx context.Context, in *getUserInput) (*output[User], error) {
	u, err := h.support.User(ctx, in.ID, in.Board)
	return outputOf(userOf(in.ID, u), err)
}

var findUsers = operation{
	id:          "findUsers",
	summary:     "Find users by name",
	description: "Users whose nicknames begin with a text, whatever the case, by their nicknames.",
}

type findUsersInput struct {
	Name   string `query:"name" required:"true" minLength:"1" maxLength:"64" pattern:"^[^\\x00-\\x1f]*$" doc:"The beginning of the nickname" example:"mei"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"20" doc:"Most entries of a page"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
}

type foundUser struct {
	UserID    models.UserID    `json:"user_id" doc:"The user"`
	Nickname  string           `json:"nickname" doc:"The nickname"`
	AvatarURL string           `json:"avatar_url" doc:"Empty while unset"`
	Friends   int              `json:"friends" doc:"How many friends"`
	CreatedAt models.Timestamp `json:"created_at" format:"date-time" doc:"When the user came into being"`
}

func foundUserOf(f support.Found) foundUser {
	return foundUser{f.User, f.Nickname, f.AvatarURL, f.Friends, models.TimestampOf(f.CreatedAt)}
}

type userPage struct {
	Users      []foundUser `json:"users" nullable:"false" doc:"This page, by nickname"`
	NextCursor *string     `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *supportHandlers) find(ctx context.Context, in *findUsersInput) (*output[userPage], error) {
	list, next, err := pageOf(ctx, h.cursors, Paging{in.Limit, in.Cursor}, foundUserOf, func(after models.Cursor, limit int) ([]support.Found, error) {
		return h.support.Find(ctx, in.Name, after.Row, limit)
	}, "users", in.Name)
	return outputOf(userPage{list, next}, err)
}
