package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRefusedParameters)
}

func testRefusedParameters(t *testing.T, env *testenv.Env) {
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
		{"/v1/boards?user_id=ann%20", 422, models.CodeValidationFailed},
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
		{"/docs/docs.js", 404, models.CodeNotFound},
		{"/docs/..%2fpage/index.html", 404, models.CodeNotFound},
		{"/assets/nope", 404, models.CodeNotFound},
		{"/assets/", 404, models.CodeNotFound},
		{"/assets", 404, models.CodeNotFound},
		{"/v1/boards/steps/scores", 405, models.CodeMethodNotAllowed},
		{"/v1/friends/requests/1/accept", 405, models.CodeMethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			s := *s
			s.t = t
			s.refuse(s.as("1", "GET", tt.path, nil), tt.status, tt.code)
		})
	}
	// A day without data is not an error, however long ago.
	var r models.Ranking
	for _, path := range []string{"friends", "top", "around"} {
		s.want(s.as("1", "GET", "/v1/boards/steps/"+path+"?date=0001-01-01", nil), http.StatusOK, &r)
		if r.Total != 0 || len(r.Entries) != 0 || !r.Final {
			t.Errorf("%s: %+v", path, r)
		}
	}
	s.want(s.as("1", "GET", "/v1/boards/steps/me?date=0001-01-01", nil), http.StatusOK, nil)
}

// malformedIDs are texts that are not user ids.
var malformedIDs = []string{
	" ", " 1", "1 ", "1 2", "a\u00a0b", "1\x00", "1\n", "1\t", "1\x7f", "\x1b[0m", "é", "१", "李", "\U0001f600", ".", "..",
	strings.Repeat("a", models.MaxUserID+1), strings.Repeat("a", 5000),
}

// escape returns a text as a segment of a path, with every byte percent-encoded that
// is not a letter or a digit.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Malformed user ids are refused wherever a request has one.
func TestRefusedIDs(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRefusedIDs)
}

func testRefusedIDs(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	for _, id := range malformedIDs {
		in := escape(id)
		quoted, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		s.refuse(s.as("1", "DELETE", "/v1/friends/"+in, nil), 422, models.CodeValidationFailed)
		s.refuse(s.as("1", "DELETE", "/v1/friends/requests/"+in, nil), 422, models.CodeValidationFailed)
		s.refuse(s.as("1", "POST", "/v1/friends/requests/"+in+"/accept", nil), 422, models.CodeValidationFailed)
		s.refuse(s.as("1", "POST", "/v1/friends/requests", `{"user_id":`+string(quoted)+`}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/"+in, `{"nickname":"x"}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/"+in+"/friends", `{"friend_ids":[]}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":[`+string(quoted)+`]}`), 422, models.CodeValidationFailed)
		s.refuse(s.service("GET", "/v1/boards/steps/me?user_id="+url.QueryEscape(id), nil), 422, models.CodeValidationFailed)
	}
	for _, body := range []string{`{"user_id":5}`, `{"user_id":null}`, `{}`, `{"user_id":"5","x":1}`, `[]`, ``} {
		s.refuse(s.as("1", "POST", "/v1/friends/requests", body), 422, models.CodeValidationFailed)
	}
	for _, body := range []string{`{"user_id":"5","user_id":"6"}`, `{`} {
		s.refuse(s.as("1", "POST", "/v1/friends/requests", body), 400, models.CodeInvalidRequest)
	}
}

// A key with other letter case is an unknown key: it is refused, and nothing
// changes.
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
		s.as("1", "GET", "/v1/friends", nil).body, s.as("2", "GET", "/v1/friends", nil).body, s.as("1", "GET", "/v1/friends/requests", nil).body,
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
		a := call("1", tt.method, tt.path, tt.body)
		s.refuse(a, 422, models.CodeValidationFailed)
		if !strings.Contains(string(a.body), `"location":"`+tt.location+`"`) {
			t.Errorf("%s: %s does not name %s", tt.body, a.body, tt.location)
		}
	}
	for i, call := range []struct {
		user models.UserID
		path string
	}{{"1", "/v1/friends"}, {"2", "/v1/friends"}, {"1", "/v1/friends/requests"}} {
		if after := s.as(call.user, "GET", call.path, nil).body; string(after) != string(before[i]) {
			t.Errorf("%s of %v was %s, is %s", call.path, call.user, before[i], after)
		}
	}
}

// Errors of a body have texts of the API and name the field.
func TestErrorsOfBodies(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	const badID = `expected string to be a user id: printable ASCII characters without spaces, and no path segment "." or ".."`
	const decodedID = `a user id is 1 to 128 printable ASCII characters without spaces, and has no path segment "." or ".."`
	const notJSON = "the body is not JSON, or names a key twice"
	for _, tt := range []struct {
		path, body string
		status     int
		code       models.Code
		location   string
		message    string
	}{
		{"/v1/friends/requests", `{"user_id":"10 02"}`, 422, models.CodeValidationFailed, "body.user_id", badID},
		{"/v1/friends/requests", `{"user_id":"5","user_id":"6"}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", `{"user_id":"5"`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", `{"user_id":1e999}`, 422, models.CodeValidationFailed, "body.user_id", "has the wrong type"},
		{"/v1/friends/requests", `{"user_id":"5"}{}`, 400, models.CodeInvalidRequest, "", notJSON},
		{"/v1/friends/requests", ``, 422, models.CodeValidationFailed, "body", "is required"},
		{"/v1/users/1/friends", `{"friend_ids":["2","é"]}`, 422, models.CodeValidationFailed, "body.friend_ids[1]", decodedID},
		{"/v1/users/1/friends", `{"friend_ids":null}`, 422, models.CodeValidationFailed, "body.friend_ids", "is required"},
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

// A body that ends too early is the client's error, not the service's.
func TestIncompleteBody(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	for name, rest := range map[string]string{
		"shorter than its length": "Content-Length: 100\r\n\r\n{",
		"an invalid chunk":        "Transfer-Encoding: chunked\r\n\r\nnone\r\n",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		head := "PUT /v1/me HTTP/1.1\r\nHost: stepboard\r\nAuthorization: Bearer " + harness.Token(t, "1", "") + "\r\n"
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
