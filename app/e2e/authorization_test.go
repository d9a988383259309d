package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// Every operation of /openapi.json, called by every role, answers as its entry in the
// matrix says. Calls that are refused change nothing.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := newAuthorization(t, testenv.Real(t))
	s.signSomeIn()
	api, entries := readDescription(t, s.server), matrix()
	refused := s.newPeople()
	for path, methods := range api.Paths {
		for method, call := range methods {
			operation := strings.ToUpper(method) + " " + path
			entry, ok := entries[operation]
			if !ok {
				t.Errorf("%s has no entry in the matrix", operation)
				continue
			}
			delete(entries, operation)
			if _, by, _ := strings.Cut(call.Description, "\n\n"); audience(by) != entry.by {
				t.Errorf("%s is described with %q, want %q", operation, by, entry.by)
			}
			s.checkOperation(operation, entry, refused)
		}
	}
	for operation := range entries {
		t.Errorf("%s is in the matrix, but not in /openapi.json", operation)
	}
}

// testOperations makes the call of each entry of the matrix in one role that may make it.
func testOperations(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newAuthorization(t, env)
	for operation, entry := range matrix() {
		s.checkCall(operation, entry, s.newPeople(), permissions(entry)[0])
	}
}

// authorization is a server whose users are made for the calls of the matrix.
type authorization struct {
	*server

	made int // how many people
	// operator began by the first code, and device by an invitation. former is one of somebody who was an operator.
	operator, device, former signedIn
}

func newAuthorization(t *testing.T, env *testenv.Env) *authorization {
	t.Helper()
	return &authorization{server: newServer(t, env, withEvents, func(c *config.Config) { c.SignIn.Join = "invited" })}
}

// signedIn is what a device that is signed in has: the cookie with its key, and a token.
type signedIn struct{ cookie, token string }

// key returns the key of the session.
func (d signedIn) key() string { _, key, _ := strings.Cut(d.cookie, "="); return key }

// signSomeIn signs people in by the first code and by an invitation, and makes one of them an operator for a moment.
func (s *authorization) signSomeIn() {
	s.t.Helper()
	s.operator, _ = s.open(testenv.Must(s.app.Sessions.First(s.t.Context())))
	code := testenv.Must(s.app.Friends.Invite(s.t.Context(), testenv.Must(s.app.Sessions.Operators(s.t.Context()))[0].User))
	s.device, _ = s.open(code)
	s.adminToken(s.device, 403)
	s.operator.token = s.adminToken(s.operator, 200)
	former, user := s.open(code)
	path := "/v1/admin/operators/" + string(user)
	s.want(s.call(s.operator.token, "PUT", path, nil), 204, nil)
	former.token = s.adminToken(former, 200)
	s.want(s.call(former.token, "GET", "/v1/admin/operators", nil), 200, nil)
	s.want(s.call(s.operator.token, "DELETE", path, nil), 204, nil)
	s.former = former
}

// open opens a session by a code.
func (s *authorization) open(code string) (signedIn, models.UserID) {
	s.t.Helper()
	w := s.ask("POST", "/v1/session", fmt.Sprintf(`{"code":%q,"nickname":"Guest","anyway":true}`, code), signedIn{})
	var opened struct {
		Token string
		User  models.UserID `json:"user_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &opened); err != nil || w.Code != 201 {
		s.t.Fatalf("a code opens no session: %d %s", w.Code, w.Body)
	}
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return signedIn{cookie, opened.Token}, opened.User
}

// adminToken asks for a token of scope admin, which is answered with a status, and returns it.
func (s *authorization) adminToken(d signedIn, status int) string {
	s.t.Helper()
	w := s.ask("POST", "/v1/session/token", `{"scope":"admin"}`, d)
	var answer struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != status {
		s.t.Fatalf("a token of scope admin: %d, want %d: %s", w.Code, status, w.Body)
	}
	return answer.Token
}

// signIn opens a session of a user, who becomes an operator if the scope is admin.
func (s *authorization) signIn(user models.UserID, scope string) signedIn {
	s.t.Helper()
	d, _ := s.open(testenv.Must(s.app.Sessions.MakeCode(s.t.Context(), user, time.Hour)).Text)
	if scope == auth.ScopeAdmin {
		if err := s.app.Sessions.AddOperator(s.t.Context(), user, "a test", false); err != nil {
			s.t.Fatal(err)
		}
		d.token = s.adminToken(d, 200)
	}
	return d
}

// ask makes a call with what a device has. It uses no network, so that a stream ends at once.
func (s *authorization) ask(method, path, body string, d signedIn) *httptest.ResponseRecorder {
	s.t.Helper()
	request := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	if d.cookie != "" {
		request.Header.Set("Cookie", d.cookie)
	}
	w := httptest.NewRecorder() // it has no deadlines
	s.app.Handler.ServeHTTP(w, request)
	checkDocumented(s.t, method, path, answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()})
	return w
}

// checkOperation makes the call of an entry in every role: first in those that are refused, with people for whom
// nothing changes, then in the others, each of these with people of its own.
func (s *authorization) checkOperation(operation string, entry access, refused people) {
	s.t.Helper()
	before := s.export(refused)
	for _, r := range refusals(operation, entry.by) {
		s.checkCall(operation, entry, refused, r)
	}
	if after := s.export(refused); after != before {
		s.t.Errorf("refused calls of %s have changed\n%s\nto\n%s", operation, before, after)
	}
	for _, r := range testenv.Forms(s.t, 1, permissions(entry)) {
		s.checkCall(operation, entry, s.newPeople(), r)
	}
}

// role is a caller of the matrix.
type role struct {
	who string
	// sub and scope are those of the token.
	sub, scope string
	// status is that of the answer.
	status int
	// behalf means that user_id names the owner.
	behalf bool
	// noToken means that there is no token, secret is the key of a forged one, and age is
	// how long ago the token was signed, for an hour.
	noToken bool
	secret  string
	age     time.Duration
	// bySession means that the token is that of a session, whose cookie is sent, too. has is what is sent instead of
	// a token that was signed here.
	bySession bool
	has       signedIn
}

// refusals returns the roles that may not make the calls of an audience about the owner.
func refusals(operation string, by audience) []role {
	const all = "admin service"
	if by == phone {
		return []role{ // a token is no key
			{who: "nobody", noToken: true, status: 401}, {who: "a user", sub: "<owner>", status: 401}, {who: "everything", sub: "<owner>", scope: all, status: 401},
			{who: "the key of a session", has: signedIn{token: "<key>"}, status: 401},
		}
	}
	if open(by) {
		return nil
	}
	list := []role{
		{who: "nobody", noToken: true, status: 401},
		{who: "a forged token", sub: "<owner>", scope: all, secret: "another secret of 32 bytes or more", status: 401},
		{who: "an expired token", sub: "<owner>", scope: all, age: 2 * time.Hour, status: 401},
		{who: "a token without a user", status: 401},
		{who: "an invitation", has: signedIn{token: "<invite>"}, status: 401},
		{who: "the key of a session", has: signedIn{token: "<key>"}, status: 401},
		{who: "an operator's cookie", has: signedIn{cookie: "<cookie>"}, status: 401},
		{who: "the session of a former operator", has: signedIn{token: "<former>"}, status: 401},
	}
	forAnother := []role{
		{who: "a user for another one", sub: "<friend>", behalf: true, status: 403},
		{who: "an operator for a user", sub: "<owner>", scope: auth.ScopeAdmin, behalf: true, status: 403},
	}
	user := role{who: "a user", sub: "<owner>", scope: "Admin services service,admin", status: 403}
	backend := role{who: "a backend", sub: "<owner>", scope: auth.ScopeService, status: 403}
	operator := role{who: "an operator", sub: "<owner>", scope: auth.ScopeAdmin, status: 403}
	device := role{who: "a user's session", has: signedIn{token: "<device>"}, status: 403}
	operated := role{who: "an operator's session", has: signedIn{token: "<operator>"}, status: 403}
	switch by {
	case users:
		list = append(append(list, forAnother...), operator, operated)
		list = append(list, role{who: "a backend that names no user", sub: "<owner>", scope: auth.ScopeService, status: 422})
	case backends:
		list = append(list, user, operator, device, operated)
	case managers:
		list = append(list, user, device, role{who: "an operator without a name", scope: auth.ScopeAdmin, status: 403}) // changes are recorded
	case operators:
		list = append(list, user, backend, device)
		if !strings.HasPrefix(operation, "GET ") { // changes are recorded
			list = append(list, role{who: "an operator without a name", scope: auth.ScopeAdmin, status: 403})
		}
	case everybody:
		list = append(list, forAnother...)
	}
	return list
}

// permissions returns the roles that may make the call of an entry.
func permissions(entry access) []role {
	backend := role{who: "a backend", sub: "<owner>", scope: auth.ScopeService, status: entry.own}
	operator := role{who: "an operator", sub: "<owner>", scope: auth.ScopeAdmin, status: entry.own}
	both := role{who: "an operator who is a backend", sub: "<owner>", scope: "admin service", status: entry.own}
	device := role{who: "the user's session", sub: "<owner>", bySession: true, status: entry.own}
	operated := role{who: "an operator's session", sub: "<owner>", scope: auth.ScopeAdmin, bySession: true, status: entry.own}
	list := []role{
		{who: "the user", sub: "<owner>", status: entry.own},
		{who: "a friend", sub: "<friend>", scope: "friends", status: cmp.Or(entry.friend, entry.own)},
		{who: "a stranger", sub: "<stranger>", status: cmp.Or(entry.stranger, entry.own)},
		{who: "a backend for the user", sub: "<stranger>", scope: auth.ScopeService, behalf: true, status: entry.own},
		device,
	}
	switch entry.by {
	case phone:
		return []role{{who: "a phone with an unknown key", noToken: true, status: entry.own}} // TestPhones has those that are known
	case nobody, ownPage:
		device.status = cmp.Or(entry.device, entry.own)
		return append(list[:3], backend, operator, role{who: "somebody without a token", noToken: true, status: entry.own}, device)
	case backends:
		return []role{backend, both}
	case managers:
		return []role{backend, operator, both, operated}
	case operators:
		return []role{operator, both, operated}
	case everybody:
		return append(list, backend, operator, both, operated)
	default:
		return list
	}
}

// checkCall makes the call of an entry in a role.
func (s *authorization) checkCall(operation string, entry access, p people, r role) {
	s.t.Helper()
	values := strings.NewReplacer(append(p.values(), "<key>", s.device.key(), "<cookie>", s.operator.cookie,
		"<device>", s.device.token, "<operator>", s.operator.token, "<former>", s.former.token)...)
	method, path := s.target(operation, entry, p)
	switch {
	case r.behalf:
		path += "?user_id=" + string(p.owner)
	case entry.query != "":
		path += "?" + entry.query
	}
	has := signedIn{values.Replace(r.has.cookie), values.Replace(r.has.token)}
	switch sub := models.UserID(values.Replace(r.sub)); {
	case r.noToken, r.has != signedIn{}:
	case r.bySession:
		has = s.signIn(sub, r.scope)
	default:
		token, err := auth.SignToken([]byte(cmp.Or(r.secret, harness.Secret)), sub, r.scope, "", "", time.Now().Add(-r.age), time.Hour)
		if err != nil {
			s.t.Fatal(err)
		}
		has.token = token
	}
	w := s.ask(method, path, values.Replace(entry.body), has)
	if w.Code != r.status {
		s.t.Errorf("%s by %s: %d, want %d: %s", operation, r.who, w.Code, r.status, w.Body)
	}
}

// target returns the method and the path of the call of an entry.
func (s *authorization) target(operation string, entry access, p people) (method, path string) {
	method, path, _ = strings.Cut(operation, " ")
	id := strings.NewReplacer(p.values()...).Replace(cmp.Or(entry.id, "<friend>"))
	return method, strings.NewReplacer(
		"{board}", cmp.Or(entry.board, "steps"), "{group}", cmp.Or(entry.group, p.group),
		"{competition}", cmp.Or(entry.competition, p.competition),
		"{id}", id, "{code}", id, "{address}", unknownID, "{session}", unknownID, "{key}", "sb_",
	).Replace(path)
}

// newPeople makes an owner with a friend, a group that both are in, with which it enters a
// competition, and a friend request; and a stranger. The friend has a score.
func (s *authorization) newPeople() people {
	s.t.Helper()
	s.made++
	name := func(what string) models.UserID { return models.UserID(fmt.Sprintf("%s-%d", what, s.made)) }
	p := people{owner: name("owner"), friend: name("friend"), stranger: name("stranger"), asker: name("asker")}
	for _, user := range []models.UserID{p.owner, p.friend, p.stranger, p.asker} {
		s.want(s.as(user, "PUT", "/v1/me", newProfile), 200, nil)
	}
	friends := fmt.Sprintf(`{"friend_ids":[%q]}`, p.friend)
	s.want(s.service("PUT", "/v1/users/"+string(p.owner)+"/friends", friends), 200, nil)
	var family group
	s.want(s.as(p.owner, "POST", "/v1/groups", `{"name":"Family"}`), 201, &family)
	p.group, p.code = family.ID, *family.Code
	var invite struct {
		Code string `json:"invite_code"`
	}
	s.want(s.as(p.asker, "GET", "/v1/me/invite", nil), 200, &invite)
	p.invite = invite.Code
	s.want(s.as(p.friend, "POST", "/v1/groups/join", fmt.Sprintf(`{"invite_code":%q}`, p.code)), 200, nil)
	p.competition = fmt.Sprintf("walk-%d", s.made)
	var walk competition
	definition := strings.Replace(newCompetition, "}", fmt.Sprintf(`,"open":true,"groups":[%q]}`, p.group), 1)
	s.want(s.service("PUT", "/v1/competitions/"+p.competition, definition), 200, &walk)
	p.entry = *walk.Code
	s.want(s.as(p.asker, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, p.owner)), 201, nil)
	s.want(s.as(p.friend, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":5}`), 200, nil)
	return p
}

// export returns everything that is stored about the owner and the friend.
func (s *authorization) export(p people) string {
	s.t.Helper()
	text := ""
	for _, user := range []models.UserID{p.owner, p.friend} {
		a := s.as(user, "GET", "/v1/me/export", nil)
		s.want(a, 200, nil)
		text += string(a.body)
	}
	return text
}

// The token of a session makes nobody anew who was erased, also of those whose ids an app's tokens make.
func TestErasedUsersToken(t *testing.T) {
	t.Parallel()
	s := newAuthorization(t, testenv.Local(t))
	s.want(s.as("ann", "PUT", "/v1/me", newProfile), 200, nil)
	d := s.signIn("ann", "")
	s.want(s.call(d.token, "PUT", "/v1/me", newProfile), 200, nil)
	s.want(s.call(d.token, "DELETE", "/v1/me", `{"confirm":"erase"}`), 202, nil)
	s.refuse(s.call(d.token, "PUT", "/v1/me", newProfile), 401, models.CodeUnauthenticated)
	s.refuse(s.call(d.token, "GET", "/v1/me", nil), 401, models.CodeUnauthenticated)
	s.want(s.as("ann", "PUT", "/v1/me", newProfile), 200, nil)
}

// A board may be closed to users, and user_id must be a user's id.
func TestAuthorizationOfBoards(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	user, service := harness.Token(t, "1", ""), harness.Token(t, "1", auth.ScopeService)
	for _, tt := range []struct {
		token, path string
		status      int
	}{
		{user, "private/top", 403},
		{user, "private/around", 403},
		{user, "private/friends", 200},
		{user, "private/me", 200},
		{service, "private/top", 200},
		{service, "private/around?user_id=1", 200},
		{service, "steps/friends?user_id=0%202", 422},
		{service, "steps/friends?user_id=..", 422},
	} {
		if a := s.call(tt.token, "GET", "/v1/boards/"+tt.path, nil); a.status != tt.status {
			t.Errorf("%s: %d, want %d: %s", tt.path, a.status, tt.status, a.body)
		}
	}
}
