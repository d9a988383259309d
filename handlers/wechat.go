package handlers

import (
	"context"
	"net/http"

	"stepboard/models"
	"stepboard/services/operations/wechat"
)

// WeChatService logs people of mini programs in and takes their steps.
type WeChatService interface {
	LogIn(ctx context.Context, appid, code string) (wechat.Session, error)
	Upload(ctx context.Context, user models.UserID, appid, encryptedData, iv string) (wechat.Steps, error)
}

// LoginLimiter limits logins of each address.
type LoginLimiter interface {
	TakeLogin(ctx context.Context, address string) error
}

// wechatHandlers serves mini programs of WeChat.
type wechatHandlers struct {
	wechat WeChatService
	limits LoginLimiter
	scores *scoreHandlers
}

var logInByWeChat = operation{
	id:      "logInByWeChat",
	summary: "Log in by WeChat",
	description: "A mini program sends the code of `wx.login`, and gets a token of this service. The user is created by the first login. " +
		"People are the same in all mini programs of the settings that give a unionid. " +
		"A code works once: after `wechat_code_invalid` call `wx.login` again.",
	errors: []models.Code{models.CodeWeChatCode},
}

type logInInput struct {
	Body wechatLogin
}

type wechatLogin struct {
	AppID string `json:"appid" maxLength:"64" doc:"The AppID of the mini program" example:"wx0123456789abcdef"`
	Code  string `json:"code" minLength:"1" maxLength:"512" doc:"What wx.login has given" example:"0a1b2c3d4e5f"`
}

// wechatSession is what a login gives.
type wechatSession struct {
	Token   string           `json:"token" doc:"A token of the user for Authorization: Bearer"`
	Expires models.Timestamp `json:"expires_at" format:"date-time" doc:"When it ends (setting wechat.token_ttl)"`
	User    models.UserID    `json:"user_id" doc:"The user"`
}

func (h *wechatHandlers) logIn(ctx context.Context, in *logInInput) (*output[wechatSession], error) {
	if err := h.limits.TakeLogin(ctx, callerFrom(ctx).address); err != nil {
		return nil, err
	}
	session, err := h.wechat.LogIn(ctx, in.Body.AppID, in.Body.Code)
	return outputOf(wechatSession{session.Token, models.TimestampOf(session.Expires), session.User}, err)
}

var uploadFromWeChat = operation{
	id:      "uploadFromWeChat",
	summary: "Upload steps of WeChat",
	description: "A mini program sends what `wx.getWeRunData` has given. Of each day in China the largest total is uploaded to the board of the mini program, " +
		"as a list by POST /v1/boards/{board}/scores, and answered as one; `index` counts the days, oldest first. " +
		"Whatever can't be read is 409 `wechat_session_expired`, nearly always because WeChat has replaced the session key: " +
		"log in again, call `wx.getWeRunData` again and repeat this once.",
	otherStatus: http.StatusAccepted,
	errors: []models.Code{
		models.CodeWeChatSession, models.CodeBoardNotFound, models.CodeBoardKind, models.CodeScoreOutOfRange, models.CodeDateInFuture, models.CodeDateClosed,
	},
}

type wechatDocument struct {
	AppID         string `json:"appid" maxLength:"64" doc:"The AppID of the mini program" example:"wx0123456789abcdef"`
	EncryptedData string `json:"encrypted_data" doc:"encryptedData of wx.getWeRunData" example:"CiyLU1Aw2KjvrjMdj8YKliAjtP4gsMZM"`
	IV            string `json:"iv" doc:"iv of wx.getWeRunData" example:"r7BXXKkLb8qrSNn05n0qiA=="`
}

func (h *wechatHandlers) upload(ctx context.Context, user models.UserID, in *ownInput[wechatDocument]) (*statusOutput[acceptedTotals], error) {
	steps, err := h.wechat.Upload(ctx, user, in.Body.AppID, in.Body.EncryptedData, in.Body.IV)
	if err != nil {
		return nil, err
	}
	answer, err := h.scores.answer(steps.Board, &uploadList{steps.Uploads, true}, steps.Accepted, steps.Rejected)
	return statusOutputOf(h.scores.status(), answer, err)
}
