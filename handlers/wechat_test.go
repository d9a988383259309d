package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/wechat"
)

type wechatService struct{ *recorder }

func (s wechatService) LogIn(_ context.Context, appid, code string) (wechat.Session, error) {
	return wechat.Session{Token: "a.b.c", Expires: noon.Add(time.Hour), User: "u-ann"}, s.record("LogIn", appid, code)
}

func (s wechatService) Upload(_ context.Context, user models.UserID, appid, data, iv string) (wechat.Steps, error) {
	today := models.DateOf(noon)
	steps := wechat.Steps{
		Board: "steps", Uploads: []ingest.Upload{{Date: today - 9, Score: 1}, {Date: today, Score: 7961}},
		Accepted: []ingest.Accepted{{Index: 1, Date: today, Score: 7961, ReachedAt: models.TimestampOf(noon)}},
		Rejected: []*ingest.ItemError{{Index: 0, Err: models.Errorf(models.CodeDateClosed, "closed")}},
	}
	if data == "old" {
		steps.Uploads, steps.Accepted = steps.Uploads[:1], nil
	}
	return steps, s.record("Upload", user, appid, data, iv)
}

// noLogins refuses every login.
type noLogins struct{}

func (noLogins) TakeLogin(context.Context, string) error {
	return models.Errorf(models.CodeRateLimited, "too often")
}

// A mini program logs in without a token, and uploads what WeChat has given with that of its user.
func TestWeChat(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{WeChat: wechatService{r}, Logins: everyLogin{}, Scores: scores{recorder: &recorder{}}}
	}
	const (
		login = `{"appid":"wx1","code":"c"}`
		steps = `{"appid":"wx1","encrypted_data":"data","iv":"start"}`
		took  = `200 {"accepted":[{"date":"2026-11-20","score":7961,"reached_at":"2026-11-20T04:00:00.000Z","held":false}],` +
			`"rejected":[{"index":0,"date":"2026-11-11","code":"date_closed","detail":"closed"}]}`
		in, up = "POST /v1/wechat/sessions", "POST /v1/wechat/steps"
	)
	loggedIn, uploaded := []string{"LogIn wx1 c"}, []string{"Upload 1001 wx1 data start"}
	const session = `200 {"token":"a.b.c","expires_at":"2026-11-20T05:00:00.000Z","user_id":"u-ann"}`
	runCases(t, config, []testCase{
		{"log in", "", in, login, nil, loggedIn, session},
		{"log in with a token, which is not looked at", "1001", in, login, nil, loggedIn, session},
		{"a bad code", "", in, login, models.Errorf(models.CodeWeChatCode, "bad"), loggedIn, "401 wechat_code_invalid: bad"},
		{"WeChat is away", "", in, login, errUnavailable, loggedIn, wantUnavailable},
		{"no code", "", in, `{"appid":"wx1","code":""}`, nil, nil, "422 validation_failed: body.code: …"},
		{"a code that is too long", "", in, `{"appid":"wx1","code":"` + strings.Repeat("c", 513) + `"}`, nil, nil, "422 validation_failed: body.code: …"},
		{"upload", "1001", up, steps, nil, uploaded, took},
		{"upload without a token", "", up, steps, nil, nil, "401 unauthenticated: send a token: Authorization: Bearer …"},
		{"the session has expired", "1001", up, steps, models.Errorf(models.CodeWeChatSession, "again"), uploaded, "409 wechat_session_expired: again"},
		{"nothing counts", "1001", up, `{"appid":"wx1","encrypted_data":"old","iv":"start"}`, nil, []string{"Upload 1001 wx1 old start"}, "422 date_closed: closed"},
	})
	runCases(t, func(r *recorder) handlers.Config {
		return handlers.Config{WeChat: wechatService{r}, Logins: noLogins{}, Scores: scores{recorder: &recorder{}}}
	}, []testCase{{"too many logins", "", in, login, nil, nil, "429 rate_limited: too often"}})
}

// everyLogin permits every login.
type everyLogin struct{}

func (everyLogin) TakeLogin(context.Context, string) error { return nil }
