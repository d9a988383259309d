package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
)

// profiles is a fake handlers.ProfileService.
type profiles struct{ *recorder }

func (s profiles) Put(_ context.Context, user models.UserID, p models.Profile) (models.Profile, error) {
	err := s.record("Put", user, p.Nickname, p.AvatarURL, p.CoverURL)
	p.Nickname = strings.ReplaceAll(p.Nickname, "e\u0301", "é")
	return p, err
}

func (s profiles) Get(_ context.Context, user models.UserID) (models.Profile, error) {
	return models.Profile{Nickname: "Ann", AvatarURL: "https://example.com/a.png", CoverURL: "https://example.com/c.png"}, s.record("Get", user)
}

func (s profiles) Rename(_ context.Context, user, to models.UserID) error {
	return s.record("Rename", user, to)
}

func TestRename(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Profiles: profiles{r}} }
	const rename = "POST /v1/users/1001/rename"
	both := []string{"Rename 1001 a/b"}
	runCases(t, config, []testCase{
		{"a user", "service", rename, `{"to":"a/b"}`, nil, both, "204"},
		{"to an id that is none", "service", rename, `{"to":"a b"}`, nil, nil, "422 validation_failed: body.to: …"},
		{"to nothing", "service", rename, `{}`, nil, nil, "422 validation_failed: …"},
		{"a user whose id is none", "service", "POST /v1/users/a%20b/rename", `{"to":"a/b"}`, nil, nil, "422 validation_failed: path.id: …"},
		{"to an id that somebody has", "service", rename, `{"to":"a/b"}`, models.Errorf(models.CodeUserExists, "taken"), both, "409 user_exists: taken"},
		{"nobody", "service", rename, `{"to":"a/b"}`, models.Errorf(models.CodeUserNotFound, "nobody"), both, "404 user_not_found: nobody"},
		{"with the user's token", "1001", rename, `{"to":"a/b"}`, nil, nil, "403 forbidden: this token may not make this call"},
		{"with an operator's token", "admin", rename, `{"to":"a/b"}`, nil, nil, "403 forbidden: this token may not make this call"},
		{"the store is away", "service", rename, `{"to":"a/b"}`, errUnavailable, both, wantUnavailable},
	})
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Profiles: profiles{r}} }
	const (
		own  = "PUT /v1/me"
		of   = "PUT /v1/users/1001"
		ann  = `{"nickname":"Ann","avatar_url":"https://example.com/a.png","cover_url":"https://example.com/c.png"}`
		want = `200 {"user_id":"1001","nickname":"Ann","avatar_url":"https://example.com/a.png","cover_url":"https://example.com/c.png"}`
	)
	put := []string{"Put 1001 Ann https://example.com/a.png https://example.com/c.png"}
	get := []string{"Get 1001"}
	runCases(t, config, []testCase{
		{"looking at one's own", "1001", "GET /v1/me", "", nil, get, want},
		{"a service looks for a user", "service", "GET /v1/me?user_id=1001", "", nil, get, want},
		{"a service looks for nobody", "service", "GET /v1/me", "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"looking at one's own, the store is away", "1001", "GET /v1/me", "", errUnavailable, get, wantUnavailable},
		{"one's own", "1001", own, ann, nil, put, want},
		{"one's own, a service for a user", "service", own + "?user_id=1001", ann, nil, put, want},
		{"one's own, a service for nobody", "service", own, ann, nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"one's own without a picture", "1001", own, `{"nickname":"Ann"}`, nil, []string{"Put 1001 Ann  "},
			`200 {"user_id":"1001","nickname":"Ann","avatar_url":"","cover_url":""}`},
		{"one's own, as it is stored", "1001", own, `{"nickname":"Re\u0301mi"}`, nil, []string{"Put 1001 Re\u0301mi  "},
			`200 {"user_id":"1001","nickname":"Rémi","avatar_url":"","cover_url":""}`},
		{"one's own without a name", "1001", own, `{"avatar_url":"x"}`, nil, nil, "422 validation_failed: …"},
		{"one's own with an unknown field", "1001", own, `{"nickname":"Ann","steps":1}`, nil, nil, "422 validation_failed: …"},
		{"one's own, refused by the service", "1001", own, ann, models.Invalid("body.nickname", "too long"), put,
			"422 validation_failed: body.nickname: too long"},
		{"one's own, an unknown error", "1001", own, ann, errUnknown, put, wantInternal},
		{"a user's", "service", of, ann, nil, put, want},
		{"a broken user's", "service", "PUT /v1/users/a%20b", ann, nil, nil, "422 validation_failed: path.id: …"},
		{"a user's, with a user's token", "1001", of, ann, nil, nil, "403 forbidden: this token may not make this call"},
		{"a user's, the store is away", "service", of, ann, errUnavailable, put, wantUnavailable},
	})
}
