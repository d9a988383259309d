package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/people/privacy"
)

// PrivacyService keeps who hides from whom.
type PrivacyService interface {
	Hidden(ctx context.Context, user models.UserID) (bool, error)
	SetHidden(ctx context.Context, user models.UserID, hidden bool) error
	Choose(ctx context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error
	Undo(ctx context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error
	List(ctx context.Context, user models.UserID, kind models.ChoiceKind, after models.RowID, limit int) ([]privacy.Choice, error)
}

// privacyHandlers serves hiding from everybody.
type privacyHandlers struct {
	service PrivacyService
}

// Privacy says whether a user hides from everybody.
type Privacy struct {
	Hidden bool `json:"hidden" doc:"True if the user hides from everybody" example:"false"`
}

var getPrivacy = operation{
	id:          "getPrivacy",
	summary:     "Get whether one hides from everybody",
	description: "Users are shown until they hide.",
}

func (h *privacyHandlers) get(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[Privacy], error) {
	hidden, err := h.service.Hidden(ctx, user)
	return outputOf(Privacy{hidden}, err)
}

var setPrivacy = operation{
	id:      "setPrivacy",
	summary: "Hide from everybody, or be shown again",
	description: "With `{\"hidden\":true}` the user's scores are shown to nobody else: friends see the user in their lists of friends, " +
		"but in none of their rankings, and with an empty history, and global lists show the user's line without id, name and picture. " +
		"The user's own answers stay the same. A user may change it 20 times an hour (setting limits.hidings_per_hour).",
}

type newPrivacy struct {
	Hidden bool `json:"hidden" doc:"True to hide from everybody" example:"false"`
}

func (h *privacyHandlers) set(ctx context.Context, user models.UserID, in *ownInput[newPrivacy]) (*output[Privacy], error) {
	return outputOf(Privacy(in.Body), h.service.SetHidden(ctx, user, in.Body.Hidden))
}

// choiceHandlers serves one list of choices about other users.
type choiceHandlers struct {
	service PrivacyService
	cursors CursorSealer
	kind    models.ChoiceKind
}

type listedUser struct {
	UserID    models.UserID    `json:"user_id" doc:"The other user" example:"1001"`
	Nickname  string           `json:"nickname" doc:"Of friends, and of those who were friends or had asked when they were put on the list; otherwise empty"`
	AvatarURL string           `json:"avatar_url" doc:"As the nickname"`
	Since     models.Timestamp `json:"since" format:"date-time" doc:"When the user was put on the list" example:"2026-11-20T13:00:00.123Z"`
}

func listedUserOf(c privacy.Choice) listedUser {
	return listedUser{UserID: c.User, Nickname: c.Nickname, AvatarURL: c.AvatarURL, Since: models.TimestampOf(c.CreatedAt)}
}

type listedUserPage struct {
	Users      []listedUser `json:"users" nullable:"false" doc:"This page, in an order that does not change"`
	NextCursor *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *choiceHandlers) list(ctx context.Context, user models.UserID, in *ListInput) (*output[listedUserPage], error) {
	users, next, err := pageOf(ctx, h.cursors, in.Paging, listedUserOf, func(after models.Cursor, limit int) ([]privacy.Choice, error) {
		return h.service.List(ctx, user, h.kind, after.Row, limit)
	}, string(h.kind), string(user))
	return outputOf(listedUserPage{users, next}, err)
}

func (h *choiceHandlers) put(ctx context.Context, user models.UserID, in *OtherInput) (*struct{}, error) {
	return nil, h.service.Choose(ctx, user, h.kind, in.ID)
}

func (h *choiceHandlers) remove(ctx context.Context, user models.UserID, in *OtherInput) (*struct{}, error) {
	return nil, h.service.Undo(ctx, user, h.kind, in.ID)
}

// choiceOperations describes the calls of one list.
type choiceOperations struct {
	list, put, remove operation
}

var hidingFrom = choiceOperations{
	list: operation{
		id:          "listHiddenFrom",
		summary:     "List whom one hides from",
		description: "One page of the users to whom the user's scores are not shown.",
	},
	put: operation{
		id:      "hideFromUser",
		summary: "Hide from one person",
		description: "To that person the user looks like a friend without scores, and is anonymous in global lists. " +
			"That person is not told. Repeating it changes nothing.",
	},
	remove: operation{
		id:          "showToUser",
		summary:     "Be shown to a person again",
		description: "Ends hiding from that person. If the user does not hide from them, nothing changes.",
	},
}

var muting = choiceOperations{
	list: operation{
		id:          "listMuted",
		summary:     "List whom one has muted",
		description: "One page of the users whose scores the user does not want to see.",
	},
	put: operation{
		id:      "muteUser",
		summary: "Mute a person",
		description: "The user no longer sees that person's scores, as if they were a friend without scores, and sees them anonymous in global lists. " +
			"What that person sees stays the same. Repeating it changes nothing.",
	},
	remove: operation{
		id:          "unmuteUser",
		summary:     "See a person again",
		description: "Ends muting that person. If they are not muted, nothing changes.",
	},
}

var blocking = choiceOperations{
	list: operation{
		id:          "listBlocked",
		summary:     "List whom one has blocked",
		description: "One page of the users whom the user has blocked.",
	},
	put: operation{
		id:      "blockUser",
		summary: "Block a person",
		description: "Neither sees the other's scores any more, the friendship ends, and the user's own request to that person is withdrawn. " +
			"Requests of that person stay pending for them, and do not reach the user; they are not told. Repeating it changes nothing.",
	},
	remove: operation{
		id:      "unblockUser",
		summary: "Unblock a person",
		description: "Ends blocking that person. The two are not friends again, and requests that were sent meanwhile are not delivered. " +
			"If they are not blocked, nothing changes.",
	},
}
