package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/ranking"
)

// LikeService gives, withdraws and lists likes.
type LikeService interface {
	Give(ctx context.Context, q ranking.Query, user models.UserID) error
	Withdraw(ctx context.Context, q ranking.Query, user models.UserID) error
	List(ctx context.Context, q ranking.Query, user models.UserID) (likes.Page, error)
}

// likeHandlers serves likes.
type likeHandlers struct {
	service LikeService
}

// LikedUser names the user whose score is liked.
type LikedUser struct {
	ID models.UserID `path:"id" doc:"The user whose score it is" example:"1001"`
}

var giveLike = operation{
	id:      "likeScore",
	summary: "Like a score",
	description: "Like the score of a friend, or of a fellow member of a group, on one day of a daily board, such as `?date=2026-11-19`. " +
		"404 `not_found` if no ranking of these shows the user such a score. Repeating it changes nothing.",
	errors: dayErrors(models.CodeNotFound),
}

type likeInput struct {
	LikedUser
	DayInput
}

func (h *likeHandlers) give(ctx context.Context, q ranking.Query, in *likeInput) (*struct{}, error) {
	return nil, h.service.Give(ctx, q, in.ID)
}

var withdrawLike = operation{
	id:          "withdrawLike",
	summary:     "Withdraw a like",
	description: "Take back a like, also of a score that the user is no longer shown. If there is none, nothing changes.",
	errors:      dayErrors(),
}

func (h *likeHandlers) withdraw(ctx context.Context, q ranking.Query, in *likeInput) (*struct{}, error) {
	return nil, h.service.Withdraw(ctx, q, in.ID)
}

var listLikes = operation{
	id:      "listLikes",
	summary: "List who likes a score",
	description: "One page of those who like a score of one's own or one that a ranking of friends or of a group shows, newest first. " +
		"Those who are not shown to the user are left out.",
	errors: dayErrors(models.CodeNotFound),
}

type likesInput struct {
	LikedUser
	PageInput
}

type liker struct {
	UserID    models.UserID    `json:"user_id" doc:"Who likes the score" example:"1002"`
	Nickname  string           `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL string           `json:"avatar_url" doc:"Empty if the user has set none"`
	LikedAt   models.Timestamp `json:"liked_at" format:"date-time" doc:"When it was liked first" example:"2026-11-20T13:00:00.123Z"`
}

func likerOf(l likes.Liker) liker {
	return liker{UserID: l.User, Nickname: l.Nickname, AvatarURL: l.AvatarURL, LikedAt: models.TimestampOf(l.CreatedAt)}
}

type likerPage struct {
	Likes      []liker `json:"likes" nullable:"false" doc:"This page, newest first"`
	NextCursor *string `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *likeHandlers) list(ctx context.Context, q ranking.Query, in *likesInput) (*output[likerPage], error) {
	page, err := h.service.List(ctx, q, in.ID)
	return outputOf(likerPage{answersOf(page.Likers, likerOf), page.NextCursor}, err)
}
