package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/people/privacy"
)

// hiding is a fake handlers.PrivacyService: everybody hides, and each list has the users
// 1002 and 1003, whose rows are 88001 and 88002.
type hiding struct{ *recorder }

func (s hiding) Hidden(_ context.Context, user models.UserID) (bool, error) {
	return true, s.record("Hidden", user)
}

func (s hiding) SetHidden(_ context.Context, user models.UserID, hidden bool) error {
	return s.record("SetHidden", user, hidden)
}

func (s hiding) Choose(_ context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error {
	return s.record("Choose", user, kind, other)
}

func (s hiding) Undo(_ context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error {
	return s.record("Undo", user, kind, other)
}

func (s hiding) List(
	_ context.Context, user models.UserID, kind models.ChoiceKind, after models.RowID, limit int,
) ([]privacy.Choice, error) {
	list := []privacy.Choice{
		{Row: 88001, User: "1002", Nickname: "Ann", AvatarURL: "a.png", CreatedAt: noon}, {Row: 88002, User: "1003", CreatedAt: noon},
	}
	return list[:min(limit, len(list))], s.record("List", user, kind, after, limit)
}

func TestPrivacy(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Privacy: hiding{r}} }
	const (
		get  = "GET /v1/me/privacy"
		set  = "PUT /v1/me/privacy"
		nobo = "422 validation_failed: query.user_id: a service token must name the user that it acts for"
	)
	runCases(t, config, []testCase{
		{"get", "1001", get, "", nil, []string{"Hidden 1001"}, `200 {"hidden":true}`},
		{"get, a service for a user", "service", get + "?user_id=1001", "", nil, []string{"Hidden 1001"}, `200 {"hidden":true}`},
		{"get, a service for nobody", "service", get, "", nil, nil, nobo},
		{"get, the store is away", "1001", get, "", errUnavailable, []string{"Hidden 1001"}, wantUnavailable},
		{"hide", "1001", set, `{"hidden":true}`, nil, []string{"SetHidden 1001 true"}, `200 {"hidden":true}`},
		{"show", "1001", set, `{"hidden":false}`, nil, []string{"SetHidden 1001 false"}, `200 {"hidden":false}`},
		{"hide, a service for nobody", "service", set, `{"hidden":true}`, nil, nil, nobo},
		{"set nothing", "1001", set, `{}`, nil, nil, "422 validation_failed: …"},
		{"hide, an unknown error", "1001", set, `{"hidden":true}`, errUnknown, []string{"SetHidden 1001 true"}, wantInternal},
	})
}

func TestPrivacyLists(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Privacy: hiding{r}} }
	const (
		ann  = `{"user_id":"1002","nickname":"Ann","avatar_url":"a.png","since":"2026-11-20T04:00:00.000Z"}`
		next = `{"user_id":"1003","nickname":"","avatar_url":"","since":"2026-11-20T04:00:00.000Z"}`
	)
	for path, kind := range map[string]string{"/v1/hidden-from": "hidden_from", "/v1/muted": "muted", "/v1/blocked": "blocked"} {
		listed, chosen, undone := "List 1001 "+kind+" 0 51", "Choose 1001 "+kind+" 1002", "Undo 1001 "+kind+" 1002"
		runCases(t, config, []testCase{
			{kind, "1001", "GET " + path, "", nil, []string{listed}, `200 {"users":[` + ann + `,` + next + `],"next_cursor":null}`},
			{kind + ", a page", "1001", "GET " + path + "?limit=1", "", nil, []string{"List 1001 " + kind + " 0 2"}, `200 {"users":[` + ann + `],"next_cursor":"…`},
			{kind + ", the next page", "1001", "GET " + path + "?cursor=" + cursor(0, 88001, kind, "1001"), "", nil,
				[]string{"List 1001 " + kind + " 88001 51"}, `200 …`},
			{kind + ", another list's cursor", "1001", "GET " + path + "?cursor=" + cursor(0, 88001, "friend-list", "1001"), "", nil, nil, "400 invalid_cursor: …"},
			{kind + ", the store is away", "1001", "GET " + path, "", errUnavailable, []string{listed}, wantUnavailable},
			{kind + ", choose", "1001", "PUT " + path + "/1002", "", nil, []string{chosen}, "204"},
			{kind + ", choose for a user", "service", "PUT " + path + "/1002?user_id=1001", "", nil, []string{chosen}, "204"},
			{kind + ", choose one too many", "1001", "PUT " + path + "/1002", "", models.Errorf(models.CodeChoiceLimit, "too many"), []string{chosen},
				"409 choice_limit: too many"},
			{kind + ", undo", "1001", "DELETE " + path + "/1002", "", nil, []string{undone}, "204"},
			{kind + ", undo, an unknown error", "1001", "DELETE " + path + "/1002", "", errUnknown, []string{undone}, wantInternal},
		})
	}
}
