package e2e_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	s := newServer(t, env, func(c *config.Config) { c.Auth.Issuer, c.Auth.Audience = "https://issuer.example", "stepboard" })
	good := func() jwt.MapClaims {
		return jwt.MapClaims{
			"sub": "1001", "iss": "https://issuer.example", "aud": "stepboard", "exp": time.Now().Add(time.Hour).Unix(),
		}
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := good()
		change(c)
		return c
	}
	tests := []struct {
		name   string
		method jwt.SigningMethod
		key    any
		claims jwt.MapClaims
		ok     bool
	}{
		{"a good one", jwt.SigningMethodHS256, []byte(secret), good(), true},
		{"one with scopes of others", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["scope"] = "profile email" }), true},
		{"expired", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Second).Unix() }), false},
		{"without exp", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { delete(c, "exp") }), false},
		{"not valid yet", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() }), false},
		{"another secret", jwt.SigningMethodHS256, []byte("another secret, long enough for it"), good(), false},
		{"algorithm none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(), false},
		{"HS384", jwt.SigningMethodHS384, []byte(secret), good(), false},
		{"ES256 without a JWKS", jwt.SigningMethodES256, ecKey, good(), false},
		{"another issuer", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["iss"] = "https://evil.example" }), false},
		{"no issuer", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { delete(c, "iss") }), false},
		{"another audience", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["aud"] = "other" }), false},
		{"no sub", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { delete(c, "sub") }), false},
		{"a sub with a leading zero", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["sub"] = "01001" }), false},
		{"a sub of 2^53", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["sub"] = "9007199254740992" }), false},
		{"a sub with a sign", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["sub"] = "+1001" }), false},
		{"a sub in words", jwt.SigningMethodHS256, []byte(secret), with(func(c jwt.MapClaims) { c["sub"] = "ann" }), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			text, err := jwt.NewWithClaims(tt.method, tt.claims).SignedString(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time it may be remembered
				a := s.call(text, "GET", "/v1/boards/steps/me", nil)
				if tt.ok {
					s.want(a, http.StatusOK, nil)
				} else {
					s.refuse(a, http.StatusUnauthorized, models.CodeUnauthenticated)
				}
			}
		})
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic abc", "Bearer not.a.token", "Bearer " + strings.Repeat("a", 5000)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/boards", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%.20q: status %d", header, res.StatusCode)
		}
	}
}

// A token that expires stops being taken, though it is remembered.
func TestARememberedTokenExpires(t *testing.T) {
	t.Parallel()
	v := auth.NewVerifier(auth.VerifierConfig{Secret: []byte(secret)})
	defer v.Close()
	text, err := auth.SignToken([]byte(secret), 1, "", "", "", time.Now(), 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(text); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the token expires", func() bool {
		_, err := v.Verify(text)
		return models.CodeOf(err) == models.CodeUnauthenticated
	})
}

// Who may make which call: a user, a backend, an administrator, a stranger.
func TestWhoMayCallWhat(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testWhoMayCallWhat)
}

func testWhoMayCallWhat(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for _, id := range []string{"1", "2"} {
		s.want(s.service("PUT", "/v1/users/"+id, `{"nickname":"n"}`), http.StatusOK, nil)
	}
	user, admin := token(t, 1, ""), token(t, 1, auth.ScopeAdmin)
	service, both := token(t, 1, auth.ScopeService), token(t, 1, "admin service")
	tests := []struct {
		token, method, path, body string
		status                    int
	}{
		{user, "GET", "/v1/boards", "", 200},
		{service, "GET", "/v1/boards", "", 200},
		{admin, "GET", "/v1/boards", "", 200},
		{user, "GET", "/v1/boards/steps/top", "", 200},
		{admin, "GET", "/v1/boards/steps/top", "", 200},
		{user, "GET", "/v1/boards/private/top", "", 403},
		{user, "GET", "/v1/boards/private/around", "", 403},
		{user, "GET", "/v1/boards/private/friends", "", 200},
		{user, "GET", "/v1/boards/private/me", "", 200},
		{service, "GET", "/v1/boards/private/top", "", 200},
		{service, "GET", "/v1/boards/private/around?user_id=1", "", 200},
		// Someone else's id.
		{user, "GET", "/v1/boards/steps/friends?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/top?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/around?user_id=2", "", 403},
		{user, "GET", "/v1/boards/steps/me?user_id=2", "", 403},
		{user, "POST", "/v1/boards/steps/scores?user_id=2", `{"date":"2026-11-20","score":1}`, 403},
		{user, "GET", "/v1/friends?user_id=2", "", 403},
		{user, "GET", "/v1/friends/requests?user_id=2", "", 403},
		{user, "POST", "/v1/friends/requests?user_id=2", `{"user_id":"1"}`, 403},
		{user, "POST", "/v1/friends/requests/1/accept?user_id=2", "", 403},
		{user, "DELETE", "/v1/friends/requests/1?user_id=2", "", 403},
		{user, "DELETE", "/v1/friends/1?user_id=2", "", 403},
		{user, "PUT", "/v1/me?user_id=2", `{"nickname":"x"}`, 403},
		{user, "PUT", "/v1/users/1", `{"nickname":"x"}`, 403},
		{user, "PUT", "/v1/users/1/friends", `{"friend_ids":[]}`, 403},
		{user, "GET", "/v1/boards/steps/me?user_id=1", "", 200},
		// A backend says for whom; an administrator is neither.
		{service, "GET", "/v1/boards/steps/friends", "", 422},
		{service, "GET", "/v1/boards/steps/friends?user_id=2", "", 200},
		{service, "PUT", "/v1/me?user_id=2", `{"nickname":"x"}`, 200},
		{service, "GET", "/v1/boards/steps/friends?user_id=02", "", 422},
		{service, "GET", "/v1/boards/steps/friends?user_id=9007199254740992", "", 422},
		{admin, "GET", "/v1/boards/steps/friends", "", 403},
		{admin, "PUT", "/v1/users/1", `{"nickname":"x"}`, 403},
		{both, "PUT", "/v1/users/1", `{"nickname":"x"}`, 200},
		{user, "POST", "/v1/boards/gifts/increments", `{"user_id":"1","delta":1,"event_id":"a"}`, 403},
		{admin, "POST", "/v1/boards/gifts/increments", `{"user_id":"1","delta":1,"event_id":"a"}`, 403},
		{user, "GET", "/v1/admin/boards/steps", "", 403},
		{service, "GET", "/v1/admin/boards/steps", "", 403},
		{admin, "GET", "/v1/admin/boards/steps", "", 200},
		{"", "GET", "/v1/boards", "", 401},
	}
	for _, tt := range tests {
		var body any
		if tt.body != "" {
			body = tt.body
		}
		if a := s.call(tt.token, tt.method, tt.path, body); a.status != tt.status {
			t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, a.status, tt.status, a.body)
		}
	}
}

func TestParametersThatAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testParametersThatAreRefused)
}

func testParametersThatAreRefused(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	tests := []struct {
		path   string
		status int
		code   models.Code
	}{
		{"/v1/boards/steps/friends?limit=0", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=-1", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=201", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=1000000000", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=99999999999999999999", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=ten", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limit=1.5", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?limti=5", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?date=2026-11-21", 422, models.CodeDateInFuture},
		{"/v1/boards/steps/friends?date=9999-12-31", 422, models.CodeDateInFuture},
		{"/v1/boards/steps/friends?date=2026-02-30", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?date=today", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?date=-1-01-01", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/friends?cursor=nix", 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/friends?cursor=" + strings.Repeat("A", 64), 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/friends?cursor=" + strings.Repeat("A", 65), 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/top?cursor=AAAA", 400, models.CodeInvalidCursor},
		{"/v1/friends?cursor=AAAA", 400, models.CodeInvalidCursor},
		{"/v1/friends/requests?cursor=%00", 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/top?date=2026-11-1%", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/top?limit=1;date=2026-11-19", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/me?user_id=1&nix=%zz", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/top?date=2026-11-19&date=2026-11-18", 422, models.CodeValidationFailed},
		{"/v1/boards?user_id=ann", 422, models.CodeValidationFailed},
		{"/v1/boards?user_id=2", 403, models.CodeForbidden},
		{"/v1/boards/steps/around?radius=0", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/around?radius=51", 422, models.CodeValidationFailed},
		{"/v1/boards/nix/friends", 404, models.CodeBoardNotFound},
		{"/v1/boards/nix/top", 404, models.CodeBoardNotFound},
		{"/v1/boards/nix/around", 404, models.CodeBoardNotFound},
		{"/v1/boards/nix/me", 404, models.CodeBoardNotFound},
		{"/v1/boards/steps", 404, models.CodeNotFound},
		{"/v1/nothing", 404, models.CodeNotFound},
		{"/nothing", 404, models.CodeNotFound},
		{"/docs/nope", 404, models.CodeNotFound},
		{"/docs/swagger-ui", 404, models.CodeNotFound},
		{"/docs/swagger-ui/", 404, models.CodeNotFound},
		{"/docs/..%2fpage/index.html", 404, models.CodeNotFound},
		{"/assets/nope", 404, models.CodeNotFound},
		{"/assets/", 404, models.CodeNotFound},
		{"/assets", 404, models.CodeNotFound},
		{"/v1/boards/steps/scores", 405, models.CodeMethodNotAllowed},
		{"/v1/me", 405, models.CodeMethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			s := *s
			s.t = t
			s.refuse(s.as(1, "GET", tt.path, nil), tt.status, tt.code)
		})
	}
	// A day without data is no error, however long ago.
	var r models.Ranking
	for _, path := range []string{"friends", "top", "around"} {
		s.want(s.as(1, "GET", "/v1/boards/steps/"+path+"?date=0001-01-01", nil), http.StatusOK, &r)
		if r.Total != 0 || len(r.Entries) != 0 || !r.Final {
			t.Errorf("%s: %+v", path, r)
		}
	}
	s.want(s.as(1, "GET", "/v1/boards/steps/me?date=0001-01-01", nil), http.StatusOK, nil)
}

// Ids that only look like ids are refused wherever one can be put.
func TestIDsThatAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testIDsThatAreRefused)
}

func testIDsThatAreRefused(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for _, id := range []string{"0", "-1", "+1", "01", "1.0", "1e3", " 1", "9007199254740992", "99999999999999999999", "1\x00", "{1}", "ann", "१"} {
		in := url.PathEscape(id)
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		s.refuse(s.as(1, "DELETE", "/v1/friends/"+in, nil), 422, models.CodeValidationFailed)
		s.refuse(s.as(1, "DELETE", "/v1/friends/requests/"+in, nil), 422, models.CodeValidationFailed)
		s.refuse(s.as(1, "POST", "/v1/friends/requests/"+in+"/accept", nil), 422, models.CodeValidationFailed)
		s.refuse(s.as(1, "POST", "/v1/friends/requests", `{"user_id":`+string(quoted)+`}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/"+in, `{"nickname":"x"}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/"+in+"/friends", `{"friend_ids":[]}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":[`+string(quoted)+`]}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("GET", "/v1/boards/steps/me?user_id="+url.QueryEscape(id), nil), 422, models.CodeValidationFailed)
	}
	for _, body := range []string{`{"user_id":5}`, `{"user_id":null}`, `{}`, `{"user_id":"5","x":1}`, `[]`} {
		s.refuse(s.as(1, "POST", "/v1/friends/requests", body), 422, models.CodeValidationFailed)
	}
	for _, body := range []string{`{"user_id":"5","user_id":"6"}`, `{`, ``} {
		s.refuse(s.as(1, "POST", "/v1/friends/requests", body), 400, models.CodeInvalidRequest)
	}
}

// A key in other letters is another key: it is refused, and nothing changes.
func TestMistypedKeys(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testMistypedKeys)
}

func testMistypedKeys(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	s.want(s.service("PUT", "/v1/users/1", `{"nickname":"Ann","avatar_url":"https://example.com/1"}`), 200, nil)
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2"]}`), 200, nil)
	before := [][]byte{
		s.as(1, "GET", "/v1/friends", nil).body, s.as(2, "GET", "/v1/friends", nil).body, s.as(1, "GET", "/v1/friends/requests", nil).body,
	}
	for _, tt := range []struct{ method, path, body, location string }{
		{"POST", "/v1/friends/requests", `{"User_ID":"3"}`, "body.User_ID"},
		{"POST", "/v1/friends/requests", `{"user_id":"3","USER_ID":"4"}`, "body.USER_ID"},
		{"PUT", "/v1/me", `{"Nickname":"Eve"}`, "body.Nickname"},
		{"PUT", "/v1/me", `{"nickname":"Eve","Avatar_URL":"https://example.com/2"}`, "body.Avatar_URL"},
		{"PUT", "/v1/users/1", `{"NICKNAME":"Eve"}`, "body.NICKNAME"},
		{"PUT", "/v1/users/1", `{"nickname":"Eve","avatar_Url":""}`, "body.avatar_Url"},
		{"PUT", "/v1/users/1/friends", `{"Friend_IDs":["2"]}`, "body.Friend_IDs"},
		{"PUT", "/v1/users/1/friends", `{"friend_ids":["2"],"friend_Ids":[]}`, "body.friend_Ids"},
	} {
		call := s.as
		if strings.HasPrefix(tt.path, "/v1/users/") {
			call = func(_ models.UserID, method, path string, body any) answer { return s.service(method, path, body) }
		}
		a := call(1, tt.method, tt.path, tt.body)
		s.refuse(a, 422, models.CodeValidationFailed)
		if !strings.Contains(string(a.body), `"location":"`+tt.location+`"`) {
			t.Errorf("%s: %s does not name %s", tt.body, a.body, tt.location)
		}
	}
	for i, call := range []struct {
		user models.UserID
		path string
	}{{1, "/v1/friends"}, {2, "/v1/friends"}, {1, "/v1/friends/requests"}} {
		if after := s.as(call.user, "GET", call.path, nil).body; string(after) != string(before[i]) {
			t.Errorf("%s of %v was %s, is %s", call.path, call.user, before[i], after)
		}
	}
}

// What is wrong with a body is said in the API's own words, at its place.
func TestFaultsOfBodies(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	s := newServer(t, env)
	const badID = "a user id is a whole number from 1 to 9007199254740991, without sign, spaces or leading zeros"
	const notJSON = "the body is not JSON, or names a key twice"
	for _, tt := range []struct {
		path, body string
		status     int
		code       models.Code
		location   string
		message    string
	}{
		{"/v1/friends/requests", `{"user_id":"01002"}`, 422, models.CodeValidationFailed, "body.user_id", badID},
		{"/v1/friends/requests", `{"user_id":"5","user_id":"6"}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", `{"user_id":"5"`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", `{"user_id":1e999}`, 422, models.CodeValidationFailed, "body.user_id", "has the wrong type"},
		{"/v1/friends/requests", `{"user_id":"5"}{}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", ``, 400, models.CodeInvalidRequest, "", "the request can't be read: request body is required"},
		{"/v1/users/1/friends", `{"friend_ids":["2","x"]}`, 422, models.CodeValidationFailed, "body.friend_ids[1]", badID},
		{"/v1/users/1/friends", `{"friend_ids":["2"],"friend_ids":[]}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/users/1", `{"nickname":"a","nickname":"b"}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/me?user_id=1", "{\"nickname\":\"\xff\"}", 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/boards/steps/scores?user_id=1", `{"date":"2026-11-20","score":1,"score":2}`, 400, models.CodeInvalidRequest, "", notJSON},
	} {
		method := "PUT"
		if strings.HasSuffix(tt.path, "/requests") {
			method, tt.path = "POST", tt.path+"?user_id=1"
		} else if strings.Contains(tt.path, "/scores") {
			method = "POST"
		}
		a := s.service(method, tt.path, tt.body)
		s.refuse(a, tt.status, tt.code)
		var p struct {
			Detail string
			Errors []models.FieldError
		}
		if err := json.Unmarshal(a.body, &p); err != nil {
			t.Fatal(err)
		}
		want := tt.message
		if tt.location != "" {
			want = tt.location + ": " + tt.message
			if len(p.Errors) != 1 || p.Errors[0] != (models.FieldError{Location: tt.location, Message: tt.message}) {
				t.Errorf("%s: errors %+v", tt.body, p.Errors)
			}
		}
		if p.Detail != want {
			t.Errorf("%s: %q, want %q", tt.body, p.Detail, want)
		}
	}
}

// A body that breaks off is the client's fault, not the service's.
func TestABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	s := newServer(t, env)
	for name, rest := range map[string]string{
		"shorter than it said": "Content-Length: 100\r\n\r\n{",
		"a chunk that is none": "Transfer-Encoding: chunked\r\n\r\nnone\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		head := "PUT /v1/me HTTP/1.1\r\nHost: stepboard\r\nAuthorization: Bearer " + token(t, 1, "") + "\r\n"
		if _, err := conn.Write([]byte(head + rest)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close(), conn.Close()); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		s.refuse(answer{status: res.StatusCode, header: res.Header, body: body}, 400, models.CodeInvalidRequest)
	}
}

func TestFriendsOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testFriendsOverHTTP)
}

func testFriendsOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for id, name := range map[string]string{"1": "Ann", "2": "Ben", "3": "Cho"} {
		s.want(s.service("PUT", "/v1/users/"+id, map[string]string{"nickname": name, "avatar_url": "https://example.com/" + id}), 200, nil)
	}
	type status struct {
		Status string `json:"status"`
	}
	var got status
	ask := func(from models.UserID, to string, code int, want string) {
		t.Helper()
		s.want(s.as(from, "POST", "/v1/friends/requests", map[string]string{"user_id": to}), code, &got)
		if got.Status != want {
			t.Errorf("%v asks %s: %s, want %s", from, to, got.Status, want)
		}
	}
	ask(1, "2", 201, "pending")
	ask(1, "2", 200, "pending")
	s.refuse(s.as(1, "POST", "/v1/friends/requests", `{"user_id":"1"}`), 422, models.CodeValidationFailed)
	s.refuse(s.as(1, "POST", "/v1/friends/requests", `{"user_id":"99"}`), 404, models.CodeUserNotFound)
	s.refuse(s.as(1, "POST", "/v1/friends/requests/2/accept", nil), 404, models.CodeNotFound)

	type request struct {
		UserID    string `json:"user_id"`
		Nickname  string `json:"nickname"`
		AvatarURL string `json:"avatar_url"`
		Direction string `json:"direction"`
		CreatedAt string `json:"created_at"`
	}
	var requests struct {
		Requests   []request `json:"requests"`
		NextCursor *string   `json:"next_cursor"`
	}
	s.want(s.as(2, "GET", "/v1/friends/requests", nil), 200, &requests)
	want := request{"1", "Ann", "https://example.com/1", "incoming", "2026-11-20T13:00:00.000Z"}
	if len(requests.Requests) != 1 || requests.Requests[0] != want {
		t.Errorf("requests %+v", requests)
	}
	s.want(s.as(2, "POST", "/v1/friends/requests/1/accept", nil), 200, &got)
	if got.Status != "friends" {
		t.Errorf("accepting: %s", got.Status)
	}
	ask(3, "1", 201, "pending")
	ask(1, "3", 201, "friends")
	ask(1, "3", 200, "friends")

	type friend struct {
		UserID    string `json:"user_id"`
		Nickname  string `json:"nickname"`
		AvatarURL string `json:"avatar_url"`
		Since     string `json:"since"`
	}
	var list struct {
		Friends    []friend `json:"friends"`
		NextCursor *string  `json:"next_cursor"`
	}
	s.want(s.as(1, "GET", "/v1/friends?limit=1", nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0] != (friend{"2", "Ben", "https://example.com/2", "2026-11-20T13:00:00.000Z"}) || list.NextCursor == nil {
		t.Fatalf("friends %+v", list)
	}
	cursor := *list.NextCursor
	s.want(s.as(1, "GET", "/v1/friends?limit=1&cursor="+cursor, nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0].UserID != "3" || list.NextCursor != nil {
		t.Errorf("the second page: %+v", list)
	}
	s.refuse(s.as(2, "GET", "/v1/friends?cursor="+cursor, nil), 400, models.CodeInvalidCursor)
	s.refuse(s.as(1, "GET", "/v1/friends/requests?cursor="+cursor, nil), 400, models.CodeInvalidCursor)

	for range 2 { // deleting again is as good
		s.want(s.as(1, "DELETE", "/v1/friends/2", nil), 204, nil)
		s.want(s.as(1, "DELETE", "/v1/friends/requests/2", nil), 204, nil)
	}
	var replaced struct {
		UserID  string `json:"user_id"`
		Friends int    `json:"friends"`
	}
	s.want(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["3","1001"]}`), 200, &replaced)
	if replaced.UserID != "2" || replaced.Friends != 2 {
		t.Errorf("replaced %+v", replaced)
	}
	s.want(s.as(1001, "GET", "/v1/friends", nil), 200, &list)
	if len(list.Friends) != 1 || list.Friends[0].UserID != "2" {
		t.Errorf("the other side of a replacement: %+v", list)
	}
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["3","3"]}`), 422, models.CodeValidationFailed)
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{"friend_ids":["2"]}`), 422, models.CodeValidationFailed)
	s.refuse(s.service("PUT", "/v1/users/2/friends", `{}`), 422, models.CodeValidationFailed)
	many := make([]string, models.MaxFriends+1)
	for i := range many {
		many[i] = models.UserID(i + 10).String()
	}
	s.refuse(s.service("PUT", "/v1/users/2/friends", map[string]any{"friend_ids": many}), 409, models.CodeFriendLimit)
	s.want(s.service("PUT", "/v1/users/2/friends", map[string]any{"friend_ids": many[1:]}), 200, nil)
	ask2 := s.as(1, "POST", "/v1/friends/requests", `{"user_id":"2"}`)
	s.refuse(ask2, 409, models.CodeFriendLimit)
}

// A ranking over HTTP has the shape of the contract, names included, hostile
// ones as they are.
func TestARankingOverHTTP(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testARankingOverHTTP)
}

func testARankingOverHTTP(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	hostile := "<script>alert(1)</script>\u202e\u2028🏃"
	s.want(s.as(1001, "PUT", "/v1/me", map[string]string{"nickname": hostile}), 200, nil)
	s.want(s.service("PUT", "/v1/users/1001/friends", `{"friend_ids":["1002"]}`), 200, nil)
	s.want(s.as(1001, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":15000}`), 200, nil)
	s.want(s.as(1002, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":16000}`), 200, nil)
	a := s.as(1001, "GET", "/v1/boards/steps/friends?limit=1", nil)
	var got map[string]any
	s.want(a, 200, &got)
	me := map[string]any{
		"rank": 2.0, "user_id": "1001", "nickname": hostile, "avatar_url": "", "score": 15000.0, "reached_at": "2026-11-20T13:00:00.000Z",
	}
	first := map[string]any{
		"rank": 1.0, "user_id": "1002", "nickname": "", "avatar_url": "", "score": 16000.0, "reached_at": "2026-11-20T13:00:00.000Z",
	}
	cursor, _ := got["next_cursor"].(string)
	want := map[string]any{
		"board": "steps", "date": "2026-11-20", "source": "hot", "final": false, "total": 2.0,
		"me": me, "entries": []any{first}, "next_cursor": cursor,
	}
	if cursor == "" || !equalJSON(t, got, want) {
		t.Errorf("got %s", a.body)
	}
	s.want(s.as(1001, "GET", "/v1/boards/steps/friends?limit=1&cursor="+cursor, nil), 200, &got)
	want["entries"], want["next_cursor"] = []any{me}, nil
	if !equalJSON(t, got, want) {
		t.Errorf("got %v", got)
	}
	var standing map[string]any
	s.want(s.as(1001, "GET", "/v1/boards/steps/me", nil), 200, &standing)
	if !equalJSON(t, standing, map[string]any{
		"score": 15000, "reached_at": "2026-11-20T13:00:00.000Z", "global_rank": 2, "global_total": 2,
		"friends_rank": 2, "friends_total": 2, "percentile": 0,
	}) {
		t.Errorf("standing %v", standing)
	}
	s.want(s.as(5, "GET", "/v1/boards/steps/me", nil), 200, &standing)
	if !equalJSON(t, standing, map[string]any{
		"score": nil, "reached_at": nil, "global_rank": nil, "global_total": 2, "friends_rank": nil, "friends_total": 0, "percentile": nil,
	}) {
		t.Errorf("standing of who has no score: %v", standing)
	}
}

func equalJSON(t testing.TB, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

// What stands outside of the API.
func TestOutside(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testOutside)
}

func testOutside(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	s.want(s.as(1, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`), 200, nil)
	for path, part := range map[string]string{
		"/healthz":                              `"status":"ok"`,
		"/readyz":                               `"redis":"ok"`,
		"/metrics":                              `stepboard_uploads_accepted_total{board="steps"} 1`,
		"/openapi.json":                         `"openapi":"3.1.0"`,
		"/docs":                                 `/docs/swagger-ui/swagger-ui-bundle.js`,
		"/docs/docs.js":                         `/openapi.json`,
		"/":                                     `Stepboard`,
		"/assets/live.js":                       `/friends`,
		"/docs/swagger-ui/swagger-ui-bundle.js": `SwaggerUIBundle`,
	} {
		a := s.call("", "GET", path, nil)
		if a.status != 200 || !strings.Contains(string(a.body), part) {
			t.Errorf("%s: %d, without %s", path, a.status, part)
		}
	}
	pool := "go_sql_open_connections"
	if env.Pool != nil {
		pool = "stepboard_postgres_pool_connections"
	}
	for _, part := range []string{
		`stepboard_http_request_duration_seconds_count{method="POST",route="/v1/boards/:board/scores",status="200"} 1`,
		"stepboard_redis_pool_connections", pool,
	} {
		if a := s.call("", "GET", "/metrics", nil); !strings.Contains(string(a.body), part) {
			t.Errorf("the metrics lack %s", part)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} { // as some load balancers ask
		if a := s.call("", "HEAD", path, nil); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %s", path, a.status, a.body)
		}
	}
	// A client can't make up time series.
	for _, method := range []string{"BREW", "get", "PROPFIND"} {
		s.refuse(s.call("", method, "/healthz", nil), 405, models.CodeMethodNotAllowed)
	}
	metrics := string(s.call("", "GET", "/metrics", nil).body)
	if !strings.Contains(metrics, `count{method="other",route="none",status="405"} 3`) || strings.Contains(metrics, "BREW") {
		t.Error("methods are counted by any name")
	}
	// A range that is not there is no error: files are sent whole.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/assets/page.css", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=99999999-")
	r.Header.Set("If-Match", `"nix"`)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != 200 {
		t.Errorf("a range that is not there: %d, %v", res.StatusCode, err)
	}
	// Nothing that a browser gets names another server.
	for _, path := range []string{"/", "/docs", "/docs/docs.js", "/assets/app.js", "/assets/page.css"} {
		a := s.call("", "GET", path, nil)
		if strings.Contains(string(a.body), "https://") || strings.Contains(string(a.body), "http://") {
			t.Errorf("%s names another address", path)
		}
		if !strings.HasPrefix(path, "/docs") && !strings.Contains(a.header.Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("%s has policy %q", path, a.header.Get("Content-Security-Policy"))
		}
	}
}

// Every route is described, with its errors as problems.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	s := newServer(t, env)
	var spec struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string `json:"summary"`
			Description string `json:"description"`
			Responses   map[string]struct {
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type  any
					Ref   string `json:"$ref"`
					OneOf []struct {
						Type any
						Ref  string `json:"$ref"`
					} `json:"oneOf"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(s.call("", "GET", "/openapi.json", nil).body, &spec); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /v1/boards/{board}/scores", "POST /v1/boards/{board}/scores/batch", "GET /v1/boards", "GET /v1/boards/{board}/friends", "GET /v1/boards/{board}/friends/stream",
		"GET /v1/boards/{board}/top", "GET /v1/boards/{board}/around", "GET /v1/boards/{board}/me", "GET /v1/friends", "GET /v1/friends/requests",
		"POST /v1/friends/requests", "POST /v1/friends/requests/{id}/accept", "DELETE /v1/friends/requests/{id}", "DELETE /v1/friends/{id}",
		"PUT /v1/me", "PUT /v1/users/{id}", "PUT /v1/users/{id}/friends", "GET /v1/boards/{board}/history",
		"GET /v1/admin/archives", "POST /v1/admin/archives", "GET /v1/admin/dead-letters", "POST /v1/admin/dead-letters/{id}/replay",
		"DELETE /v1/admin/dead-letters/{id}", "POST /v1/boards/{board}/increments", "POST /v1/admin/boards", "GET /v1/admin/boards/{board}",
	}
	seen := make(map[string]bool)
	for _, route := range want {
		method, path, _ := strings.Cut(route, " ")
		op, ok := spec.Paths[path][strings.ToLower(method)]
		if !ok || op.Summary == "" || op.OperationID == "" || seen[op.OperationID] {
			t.Errorf("%s: %+v", route, op)
		}
		seen[op.OperationID] = true
		if text, who, ok := strings.Cut(op.Description, "\n\n"); !ok || text == "" || who == "" {
			t.Errorf("%s is described as %q", route, op.Description)
		}
		if _, ok := op.Responses["503"].Content["application/problem+json"]; !ok {
			t.Errorf("%s does not describe its errors: %v", route, op.Responses)
		}
	}
	count := 0
	for _, methods := range spec.Paths {
		count += len(methods)
	}
	if count != len(want) || spec.OpenAPI != "3.1.0" {
		t.Errorf("%d operations are described, want %d", count, len(want))
	}
	if _, ok := spec.Paths["/v1/friends/requests"]["post"].Responses["201"].Content["application/json"]; !ok {
		t.Error("asking does not describe 201")
	}
	// What may be null says so, and nothing else does.
	nullable := make(map[string]bool)
	for name, schema := range spec.Components.Schemas {
		for property, p := range schema.Properties {
			if types, ok := p.Type.([]any); ok && slices.Contains(types, any("null")) {
				nullable[name+"."+property] = true
			}
			if len(p.OneOf) == 2 && p.OneOf[0].Ref == "#/components/schemas/RankedEntry" && p.OneOf[1].Type == "null" && p.Ref == "" {
				nullable[name+"."+property] = true
			}
		}
	}
	wantNull := map[string]bool{
		"Ranking.me": true, "Ranking.date": true, "Ranking.next_cursor": true, "FriendsOutputBody.next_cursor": true, "RequestsOutputBody.next_cursor": true,
		"StandingAnswer.score": true, "StandingAnswer.reached_at": true, "StandingAnswer.global_rank": true, "StandingAnswer.friends_rank": true,
		"StandingAnswer.percentile": true, "ArchiveRun.finished_at": true, "ArchivesOutputBody.next_cursor": true, "DeadLettersOutputBody.next_cursor": true,
		"BoardAnswer.window_hours": true, "CurrentBucket.date": true, "CurrentBucket.starts_at": true, "CurrentBucket.ends_at": true, "CurrentBucket.closes_at": true,
		"DefinitionAnswer.window_hours": true, "IncrementResult.score": true, "IncrementResult.reached_at": true,
	}
	if diff := cmp.Diff(wantNull, nullable); diff != "" {
		t.Errorf("nullable -want +got:\n%s", diff)
	}
}

// Request ids go in and out; one that could break a log line does not.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	s := newServer(t, env)
	for id, kept := range map[string]bool{"abc-123": true, "with space": false, strings.Repeat("a", 65): false, "": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Request-Id", id)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := res.Header.Get("X-Request-Id"); (got == id) != kept || got == "" {
			t.Errorf("%q came back as %q", id, got)
		}
	}
}
