package e2e_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
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
		{"/v1/boards/steps/friends?date=2026-11-21", 422, models.CodeDateInFuture},
		{"/v1/boards/steps/friends?date=9999-12-31", 422, models.CodeDateInFuture},
		{"/v1/boards/steps/friends?cursor=nix", 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/friends?cursor=" + strings.Repeat("A", 64), 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/friends?cursor=" + strings.Repeat("A", 65), 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/top?cursor=AAAA", 400, models.CodeInvalidCursor},
		{"/v1/friends?cursor=AAAA", 400, models.CodeInvalidCursor},
		{"/v1/friends/requests?cursor=%00", 400, models.CodeInvalidCursor},
		{"/v1/boards/steps/top?date=2026-11-1%", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/top?limit=1;date=2026-11-19", 422, models.CodeValidationFailed},
		{"/v1/boards/steps/me?user_id=1&nix=%zz", 422, models.CodeValidationFailed},
		{"/v1/boards/nix/friends", 404, models.CodeBoardNotFound},
		{"/v1/boards/nix/me", 404, models.CodeBoardNotFound},
		{"/docs/..%2fpage/index.html", 404, models.CodeNotFound},
		{"/assets", 404, models.CodeNotFound},
		{"/v1/boards/steps/scores", 405, models.CodeMethodNotAllowed},
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
