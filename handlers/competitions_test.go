package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/people/teams"
	"stepboard/services/rankings/competitions"
)

// walks is a fake service of competitions with the competition walk, in which user 1001 is.
type walks struct{ *recorder }

func (s walks) view(id models.CompetitionID, viewer models.UserID) competitions.View {
	code := "KX7WQ2M5A4TDZBNC"
	day := models.DateOf(noon)
	v := competitions.View{Competition: models.Competition{
		Row: 88001, ID: id, Board: "steps", Name: "Walk", First: day - 4, Last: day + 9,
		Measure: models.MeasureScore, Team: models.TeamMean, JoinCode: &code, CreatedAt: noon,
	}, State: competitions.Planned}
	if viewer != "" {
		v.State, v.AsOf, v.Cap, v.Goal = competitions.Running, &noon, 30_000, 8000
		v.Me = &competitions.Person{Rank: 3, User: viewer, Score: 900, Days: 2, Group: "family", IsMe: true}
		v.MyTeam = &competitions.TeamLine{Rank: 2, Group: "family", Name: "Family", Members: 3}
	}
	return v
}

func (s walks) List(_ context.Context, viewer models.UserID) ([]competitions.View, error) {
	return []competitions.View{s.view("walk", viewer)}, s.record("List", viewer)
}

func (s walks) Get(_ context.Context, viewer models.UserID, id models.CompetitionID) (competitions.View, error) {
	return s.view(id, viewer), s.record("Get", viewer, id)
}

func (s walks) Teams(_ context.Context, q competitions.Query) (competitions.Page[competitions.TeamLine], error) {
	score := int64(450)
	return competitions.Page[competitions.TeamLine]{AsOf: noon, Total: 3, NextCursor: new("next"), Entries: []competitions.TeamLine{
		{Rank: 1, Group: "office", Members: 4, Score: &score, NotCounting: new(int64(1))}, {Rank: 2, Group: "family", Name: "Family", Members: 2},
	}}, s.record("Teams", q)
}

func (s walks) People(_ context.Context, q competitions.Query) (competitions.Page[competitions.Person], error) {
	return competitions.Page[competitions.Person]{AsOf: noon, Final: true, Total: 3, Entries: []competitions.Person{
		{Rank: 1, Score: 1000, Days: 3, ReachedAt: models.TimestampOf(noon)},
		{Rank: 2, User: "a|b", Nickname: "Ann", AvatarURL: "https://img.example/1.png", Group: "family", Score: 900, Days: 2, ReachedAt: models.TimestampOf(noon), IsMe: true},
		{Rank: 3, User: "1002", Group: "family"},
	}}, s.record("People", q)
}

func (s walks) Recompute(_ context.Context, id models.CompetitionID) error {
	return s.record("Recompute", id)
}

func (s walks) Put(_ context.Context, d teams.Definition) (models.Competition, error) {
	groups := any("unchanged")
	if d.Groups != nil {
		groups = d.Groups
	}
	return models.Competition{}, s.record("Put", d.ID, d.Board, d.Name, d.First, d.Last, d.Cap, d.Goal, d.Measure, d.Team, d.Open, groups)
}

func (s walks) Delete(_ context.Context, id models.CompetitionID) error {
	return s.record("Delete", id)
}

func (s walks) Join(_ context.Context, user models.UserID, code string, group models.GroupID) (models.Competition, error) {
	return models.Competition{ID: "walk"}, s.record("Join", user, code, group)
}

// aboutWalk returns the walk as it is shown; code is its join code, and rest begins with its state.
func aboutWalk(bounds, code, rest string) string {
	return `{"competition_id":"walk","board":"steps","name":"Walk","from":"2026-11-16","to":"2026-11-29",` + bounds +
		`,"measure":"score","team":"mean","join_code":` + code + `,"state":` + rest + `,"created_at":"2026-11-20T04:00:00.000Z"}`
}

const noonText = `"2026-11-20T04:00:00.000Z"`

func TestCompetitions(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Competitions: walks{r}, CompetitionDefinitions: walks{r}}
	}
	const (
		one  = "GET /v1/competitions/walk"
		join = "POST /v1/competitions/join"
		body = `{"code":"abc","group_id":"family"}`
	)
	mine := aboutWalk(`"cap":30000,"goal":8000`, "null", `"running","as_of":`+noonText+
		`,"revision":0,"changed_at":null,"me":{"rank":3,"score":900,"days":2,"group_id":"family"},"my_team":{"rank":2,"group_id":"family","name":"Family","score":null,"members":3,"not_counting":null}`)
	all := aboutWalk(`"cap":null,"goal":null`, `"KX7WQ2M5A4TDZBNC"`, `"planned","as_of":null,"revision":0,"changed_at":null,"me":null,"my_team":null`)
	standing := func(of, viewer, group, cursor, limit string) []string {
		return []string{of + " {Viewer:" + viewer + " ID:walk Group:" + group + " Cursor:" + cursor + " Limit:" + limit + "}"}
	}
	ranked := `200 {"as_of":` + noonText + `,"final":`
	joined := []string{"Join 1001 abc family", "Get 1001 walk"}
	runCases(t, config, []testCase{
		{"a user's list", "1001", "GET /v1/competitions", "", nil, []string{"List 1001"}, `200 {"competitions":[` + mine + `]}`},
		{"a user's list for a backend", "service", "GET /v1/competitions?user_id=1001", "", nil, []string{"List 1001"}, `200 {"competitions":[` + mine + `]}`},
		{"all of them", "admin", "GET /v1/competitions", "", nil, []string{"List "}, `200 {"competitions":[` + all + `]}`},
		{"a user's", "1001", one, "", nil, []string{"Get 1001 walk"}, "200 " + mine},
		{"one, by a backend", "service", one, "", nil, []string{"Get  walk"}, "200 " + all},
		{"another user's", "1002", one + "?user_id=1001", "", nil, nil, "403 forbidden: a user acts only for oneself"},
		{"one that is not shown", "1001", one, "", models.Errorf(models.CodeNotFound, "none"), []string{"Get 1001 walk"}, "404 not_found: none"},
		{"a bad id", "1001", "GET /v1/competitions/a.b", "", nil, nil, "422 validation_failed: path.competition: …"},
		{"teams", "1001", one + "/teams?limit=2", "", nil, standing("Teams", "1001", "", "", "2"), ranked +
			`false,"total":3,"entries":[{"rank":1,"group_id":"office","name":"","score":450,"members":4,"not_counting":1},` +
			`{"rank":2,"group_id":"family","name":"Family","score":null,"members":2,"not_counting":null}],"next_cursor":"next"}`},
		{"teams, before there is a standing", "service", one + "/teams?cursor=next", "", errUnavailable, standing("Teams", "", "", "next", "50"), wantUnavailable},
		{"people", "a|b", one + "/people?group=family", "", nil, standing("People", "a|b", "family", "", "50"), ranked +
			`true,"total":3,"entries":[{"rank":1,"user_id":null,"nickname":"","avatar_url":"","anonymous":true,"score":1000,"reached_at":` + noonText + `,"days":3,"group_id":null,"is_me":false},` +
			`{"rank":2,"user_id":"a|b","nickname":"Ann","avatar_url":"https://img.example/1.png","score":900,"reached_at":` + noonText + `,"days":2,"group_id":"family","is_me":true},` +
			`{"rank":3,"user_id":"1002","nickname":"","avatar_url":"","score":0,"reached_at":null,"days":0,"group_id":"family","is_me":false}],"next_cursor":null}`},
		{"people of another user's", "1001", one + "/people?user_id=1", "", nil, nil, "403 forbidden: …"},
		{"entering", "1001", join, body, nil, joined, "200 " + mine},
		{"entering for a user", "service", join + "?user_id=1001", body, nil, joined, "200 " + mine},
		{"entering one that has begun", "1001", join, body, models.Errorf(models.CodeCompetitionStarted, "late"), joined[:1], "409 competition_started: late"},
		{"entering a full one", "1001", join, body, models.Errorf(models.CodeCompetitionFull, "full"), joined[:1], "409 competition_full: full"},
		{"entering a bad group", "1001", join, `{"code":"abc","group_id":"a b"}`, nil, nil, "422 validation_failed: …"},
		{"entering as an operator", "admin", join, body, nil, nil, "403 forbidden: …"},
		{"an unknown error", "1001", one, "", errUnknown, []string{"Get 1001 walk"}, wantInternal},
	})
}

// A backend and an operator define competitions; the audit log has what the operator does.
func TestDefiningCompetitions(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Competitions: walks{r}, CompetitionDefinitions: walks{r}, Audit: auditLog{r, nil}}
	}
	const (
		put       = "PUT /v1/competitions/walk"
		discard   = "DELETE /v1/competitions/walk"
		recompute = "POST /v1/admin/competitions/walk/recompute"
		least     = `{"board":"steps","name":"Walk","from":"2026-11-16","to":"2026-11-29"}`
		reason    = `{"reason":"a wrong team"}`
	)
	with := func(more string) string { return strings.TrimSuffix(least, "}") + "," + more + "}" }
	defined := "Put walk steps Walk 2026-11-16 2026-11-29 0 0 score mean false unchanged"
	begun := func(action, board, reason string) string {
		return "Begin alice " + action + " board=" + board + " bucket= target=walk reason=" + reason
	}
	many := `"groups":["` + strings.Repeat("g", 64) + `"` + strings.Repeat(`,"a"`, 200) + `]`
	runCases(t, config, []testCase{
		{"a backend defines one", "service", put, least, nil, []string{defined, "Get  walk"}, `200 {"competition_id":"walk",…`},
		{"an operator does", "admin", put, least, nil, []string{begun("putCompetition", "steps", ""), defined, "Get  walk", "finish done"}, `200 {"competition_id":"walk",…`},
		{"with everything", "service", put, with(`"cap":30000,"goal":8000,"measure":"goal_days","team":"sum","open":true,"groups":["b","a"]`), nil,
			[]string{"Put walk steps Walk 2026-11-16 2026-11-29 30000 8000 goal_days sum true [b a]", "Get  walk"}, `200 {…`},
		{"as it was answered", "service", put, with(`"cap":null,"goal":null,"groups":[]`), nil,
			[]string{strings.Replace(defined, "unchanged", "[]", 1), "Get  walk"}, `200 {…`},
		{"once it has begun", "admin", put, least, models.Errorf(models.CodeCompetitionStarted, "late"),
			[]string{begun("putCompetition", "steps", ""), defined, "finish competition_started"}, "409 competition_started: late"},
		{"a day that does not exist", "service", put, strings.Replace(least, "29", "31", 1), nil, nil, "422 validation_failed: …"},
		{"a group twice", "service", put, with(`"groups":["a","a"]`), nil, nil, "422 validation_failed: body.groups: …"},
		{"a group that is none", "service", put, with(`"groups":["a\u0000"]`), nil, nil, "422 validation_failed: body.groups[0]: …"},
		{"too many groups", "service", put, with(many), nil, nil, "422 validation_failed: body.groups: …"},
		{"a cap below nothing", "service", put, with(`"cap":-1`), nil, nil, "422 validation_failed: body.cap: …"},
		{"another rule", "service", put, with(`"team":"median"`), nil, nil, "422 validation_failed: body.team: …"},
		{"a user defines one", "1001", put, least, nil, nil, "403 forbidden: this token may not make this call"},
		{"an operator without a name does", "admin without a sub", put, least, nil, nil, "403 forbidden: this call is recorded: …"},
		{"a backend deletes one", "service", discard, "", nil, []string{"Delete walk"}, "204"},
		{"an operator deletes one", "admin", discard, "", nil, []string{begun("deleteCompetition", "", ""), "Delete walk", "finish done"}, "204"},
		{"a user deletes one", "1001", discard, "", nil, nil, "403 forbidden: …"},
		{"again", "admin", recompute, reason, nil, []string{begun("recomputeCompetition", "", "a wrong team"), "Recompute walk", "Get  walk", "finish done"}, `202 {"competition_id":"walk",…`},
		{"again, as a trial", "admin", recompute + "?dry_run=true", reason, nil, []string{"Get  walk"}, `200 {"competition_id":"walk",…`},
		{"again, without a reason", "admin", recompute, `{"reason":""}`, nil, nil, "422 validation_failed: body.reason: …"},
		{"again, by a backend", "service", recompute, reason, nil, nil, "403 forbidden: …"},
	})
}
