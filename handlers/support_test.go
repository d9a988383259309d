package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/operations/support"
	"stepboard/services/people/groups"
	"stepboard/services/rankings/ranking"
)

// supported is a fake handlers.SupportService. User 2 is being erased; any other exists.
type supported struct{ *recorder }

func (s supported) User(_ context.Context, user models.UserID, board string) (support.User, error) {
	err := s.record("User", user, board)
	if user == "2" {
		return support.User{Erasure: &models.Erasure{ID: 7, Row: 660066, User: &user, BegunAt: noon, Sweeps: 1}}, err
	}
	return support.User{
		Facts: &support.Facts{
			Row: 660066, User: user, Nickname: "Ann", AvatarURL: "a", CoverURL: "c", Hidden: true, Friends: 3,
			RequestsReceived: 4, RequestsSent: 5, HiddenFrom: 6, Muted: 7, Blocked: 8, CreatedAt: noon,
		},
		Groups: []groups.Group{{Group: models.Group{Row: 660066, ID: "g", Name: "Family"}, Owner: user, Members: 2}, {Group: models.Group{ID: "h"}, Members: 1}},
		Days: &ranking.History{
			Days:    []ranking.Day{{Date: models.DateOf(noon), Score: 9, ReachedAt: models.TimestampOf(noon), Rank: 1, Total: 2, Source: models.SourceHot}},
			Partial: true,
		},
		Corrections: []corrections.Entry{correctionOf(2)},
		Reviews:     []models.Review{{ID: 1, Board: "gifts", User: user, Score: 7, ReachedAt: noon, FirstSeenAt: noon}},
	}, err
}

func (s supported) Find(_ context.Context, name string, after models.RowID, limit int) ([]support.Found, error) {
	err := s.record("Find", name, after, limit)
	found := []support.Found{
		{Row: 41, User: "a", Nickname: "Ann", Friends: 3, CreatedAt: noon}, {Row: 42, User: "b", Nickname: "Anna", AvatarURL: "p", CreatedAt: noon},
	}
	if after != 0 {
		found = found[1:]
	}
	return found[:min(limit, len(found))], err
}

func TestFindUsers(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Users: supported{r}} }
	const find = "GET /v1/admin/users?name="
	ann := `{"user_id":"a","nickname":"Ann","avatar_url":"","friends":3,"created_at":"2026-11-20T04:00:00.000Z"}`
	anna := `{"user_id":"b","nickname":"Anna","avatar_url":"p","friends":0,"created_at":"2026-11-20T04:00:00.000Z"}`
	runCases(t, config, []testCase{
		{"a page", "admin", find + "An", "", nil, []string{"Find An 0 21"}, `200 {"users":[` + ann + "," + anna + `],"next_cursor":null}`},
		{"more follow", "admin", find + "An&limit=1", "", nil, []string{"Find An 0 2"}, `200 {"users":[` + ann + `],"next_cursor":"…`},
		{"no name", "admin", find, "", nil, nil, "422 validation_failed: query.name: …"},
		{"with a service's token", "service", find + "An", "", nil, nil, "403 forbidden: this token may not make this call"},
		{"an unknown error", "admin", find + "An", "", errUnknown, []string{"Find An 0 21"}, wantInternal},
	})
	checkPages(t, config, "admin", find+"An&limit=1", []string{"Find An 0 2", "Find An 41 2"})
}

func TestSupport(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Users: supported{r}} }
	const get = "GET /v1/admin/users/"
	none := models.Errorf(models.CodeUserNotFound, "there is no user x")
	runCases(t, config, []testCase{
		{"a user", "admin", get + "a%7Cb?board=steps", "", nil, []string{"User a|b steps"},
			`200 {"user_id":"a|b","exists":true,"nickname":"Ann","avatar_url":"a","cover_url":"c","created_at":"2026-11-20T04:00:00.000Z",` +
				`"friends":3,"requests":{"received":4,"sent":5},"privacy":{"hidden":true,"hidden_from":6,"muted":7,"blocked":8},` +
				`"groups":[{"group_id":"g","name":"Family","members":2,"owner":true},{"group_id":"h","name":"","members":1,"owner":false}],` +
				`"days":[{"date":"2026-11-20","score":9,"reached_at":"2026-11-20T04:00:00.000Z","global_rank":1,"global_total":2,"source":"hot"}],` +
				`"partial":true,"corrections":[{"id":"2",…`},
		{"a user who is being erased", "admin", get + "2", "", nil, []string{"User 2 "},
			`200 {"user_id":"2","exists":false,"nickname":"","avatar_url":"","cover_url":"","created_at":null,` +
				`"friends":0,"requests":{"received":0,"sent":0},"privacy":{"hidden":false,"hidden_from":0,"muted":0,"blocked":0},` +
				`"groups":[],"days":[],"partial":false,"corrections":[],"reviews":[],` +
				`"erasure":{"id":"7","user_id":"2","begun_at":"2026-11-20T04:00:00.000Z","sweeps":1,"swept_at":null,"removed":0,"finished_at":null}}`},
		{"nobody", "admin", get + "x", "", none, []string{"User x "}, "404 user_not_found: there is no user x"},
		{"no user id", "admin", get + "a%20b", "", nil, nil, "422 validation_failed: path.id: …"},
		{"no board", "admin", get + "x?board=A", "", nil, nil, "422 validation_failed: query.board: …"},
		{"with a service's token", "service", get + "x", "", nil, nil, "403 forbidden: this token may not make this call"},
		{"an unknown error", "admin", get + "x", "", errUnknown, []string{"User x "}, wantInternal},
	})
	if got := send(t, newAPI(t, config(&recorder{})), "admin", get+"x", ""); strings.Contains(got.Body.String(), "660066") {
		t.Errorf("a row id is shown: %s", got.Body)
	}
}
