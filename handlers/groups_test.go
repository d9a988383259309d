package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/groups"
)

// family is a fake service of groups and members with one group. Its members are 1002, 1003 and
// 1004 with the rows 88001, 88002 and 88003.
type family struct{ *recorder }

func (s family) group(method string, args ...any) (groups.Group, error) {
	code := "KX7WQ2M5A4TDZBNC"
	owner := models.RowID(88001)
	group := models.Group{Row: 7, ID: "family", Name: "Family", OwnerID: &owner, InviteCode: &code, CreatedAt: noon}
	return groups.Group{Group: group, Owner: "1002", Members: 3}, s.record(method, args...)
}

func (s family) List(_ context.Context, user models.UserID) ([]groups.Group, error) {
	group, err := s.group("List", user)
	backends := groups.Group{Group: models.Group{Row: 8, ID: "office", CreatedAt: noon}, Members: 1}
	return []groups.Group{group, backends}, err
}

func (s family) Get(_ context.Context, user models.UserID, id models.GroupID) (groups.Group, error) {
	return s.group("Get", user, id)
}

func (s family) Members(_ context.Context, group models.GroupRow, after models.RowID, limit int) ([]groups.Member, error) {
	list := []groups.Member{}
	for row := max(after+1, 88001); row <= 88003 && len(list) < limit; row++ {
		list = append(list, groups.Member{Row: row, User: testenv.ID(row - 86999), Nickname: "Ann", JoinedAt: noon})
	}
	return list, s.record("Members", group, after, limit)
}

func (s family) Create(_ context.Context, owner models.UserID, settings groups.Settings) (groups.Group, error) {
	return s.group("Create", owner, settings.Name)
}

func (s family) Join(_ context.Context, user models.UserID, code string) (groups.Group, error) {
	return s.group("Join", user, code)
}

func (s family) Invitation(_ context.Context, user models.UserID, code string) (groups.Invitation, error) {
	return groups.Invitation{GroupID: "family", Name: "Family", Members: 3, OwnerID: "1002", Nickname: "Ann"}, s.record("Invitation", user, code)
}

func (s family) Change(_ context.Context, user models.UserID, id models.GroupID, settings groups.Settings) (groups.Group, error) {
	group, err := s.group("Change", user, id, settings.Name, settings.Challenge != nil)
	if c := settings.Challenge; c != nil {
		group.ChallengeFrom, group.ChallengeTo = &c.From, &c.To
	}
	return group, err
}

func (s family) Renew(_ context.Context, user models.UserID, id models.GroupID) (groups.Group, error) {
	return s.group("Renew", user, id)
}

func (s family) Delete(_ context.Context, user models.UserID, id models.GroupID) error {
	return s.record("Delete", user, id)
}

func (s family) Remove(_ context.Context, user models.UserID, id models.GroupID, member models.UserID) error {
	return s.record("Remove", user, id, member)
}

func (s family) Replace(_ context.Context, id models.GroupID, r groups.Replacement) error {
	name := "unchanged"
	if r.Name != nil {
		name = *r.Name
	}
	return s.record("Replace", id, r.Members, name)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Groups: family{r}} }
	const (
		about  = `{"group_id":"family","name":"Family","owner_id":"1002","invite_code":"KX7WQ2M5A4TDZBNC","members":3,"challenge":null,"created_at":"2026-11-20T04:00:00.000Z"}`
		office = `{"group_id":"office","name":"","owner_id":null,"invite_code":null,"members":1,"challenge":null,"created_at":"2026-11-20T04:00:00.000Z"}`
		one    = "/v1/groups/family"
		name   = `{"name":"Family"}`
		full   = `{"member_ids":["1003","1002"]}`
		days   = `{"from":"2026-11-16","to":"2026-11-29"}`
	)
	named := func(challenge string) string { return `{"name":"Family","challenge":` + challenge + `}` }
	errFull := models.Errorf(models.CodeGroupFull, "full")
	runCases(t, config, []testCase{
		{"the list", "1001", "GET /v1/groups", "", nil, []string{"List 1001"}, `200 {"groups":[` + about + `,` + office + `]}`},
		{"making one", "1001", "POST /v1/groups", name, nil, []string{"Create 1001 Family"}, "201 " + about},
		{"making one for a user", "service", "POST /v1/groups?user_id=1001", name, nil, []string{"Create 1001 Family"}, "201 " + about},
		{"making one without a name", "1001", "POST /v1/groups", `{}`, nil, nil, "422 validation_failed: …"},
		{"an invitation", "1001", "GET /v1/group-invites/abc", "", nil, []string{"Invitation 1001 abc"},
			`200 {"group_id":"family","name":"Family","members":3,"member":false,"owner_id":"1002","nickname":"Ann","avatar_url":""}`},
		{"an invitation with a NUL", "1001", "GET /v1/group-invites/a%00", "", nil, nil, "422 validation_failed: …"},
		{"joining", "1001", "POST /v1/groups/join", `{"invite_code":"abc"}`, nil, []string{"Join 1001 abc"}, "200 " + about},
		{"joining a full one", "1001", "POST /v1/groups/join", `{"invite_code":"abc"}`, errFull, []string{"Join 1001 abc"}, "409 group_full: full"},
		{"joining without a code", "1001", "POST /v1/groups/join", `{"invite_code":""}`, nil, nil, "422 validation_failed: …"},
		{"renaming", "1001", "PUT " + one, name, nil, []string{"Change 1001 family Family false"}, "200 " + about},
		{"a challenge", "1001", "PUT " + one, named(days), nil, []string{"Change 1001 family Family true"}, "200 " + strings.Replace(about, "null", days, 1)},
		{"without a last day", "1001", "PUT " + one, named(`{"from":"2026-11-16"}`), nil, nil, "422 validation_failed: …"},
		{"a day that does not exist", "1001", "PUT " + one, named(`{"from":"2026-11-16","to":"2026-11-31"}`), nil, nil, "422 validation_failed: …"},
		{"renewing the code", "1001", "POST " + one + "/invite", "", nil, []string{"Renew 1001 family"}, "200 " + about},
		{"ending", "1001", "DELETE " + one, "", nil, []string{"Delete 1001 family"}, "204"},
		{"leaving", "1001", "DELETE " + one + "/members/1001", "", nil, []string{"Remove 1001 family 1001"}, "204"},
		{"a bad id of a group", "1001", "GET /v1/groups/a.b", "", nil, nil, "422 validation_failed: …"},
		{"an unknown error", "1001", "GET /v1/groups", "", errUnknown, []string{"List 1001"}, wantInternal},
		{"a backend's list", "service", "PUT " + one + "/members", full, nil, []string{"Replace family [1003 1002] unchanged"}, `200 {"group_id":"family","members":2}`},
		{"with a name", "service", "PUT " + one + "/members", `{"member_ids":[],"name":"X"}`, nil, []string{"Replace family [] X"}, `200 {"group_id":"family","members":0}`},
		{"with a user twice", "service", "PUT " + one + "/members", `{"member_ids":["1","1"]}`, nil, nil, "422 validation_failed: body.member_ids: names a user twice"},
		{"a user's list", "1001", "PUT " + one + "/members", full, nil, nil, "403 forbidden: …"},
	})
	checkPages(t, config, "1001", "GET "+one+"?limit=2", []string{"Get 1001 family", "Members 7 0 3", "Get 1001 family", "Members 7 88002 3"})
}
