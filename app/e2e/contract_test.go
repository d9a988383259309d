package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

const secret = "a secret for tests, 32 bytes or more"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testenv.RemoveBinary()
		os.Exit(status)
	}))
}

// server is the service over one test's stores.
type server struct {
	t   testing.TB
	env *testenv.Env
	app *app.App
	url string
}

func newServer(t testing.TB, env *testenv.Env, change ...func(*config.Config)) *server {
	t.Helper()
	cfg := env.Config
	cfg.Boards = append(cfg.Boards, config.Board{
		Name: "private", Kind: "daily", TimeZone: "Asia/Shanghai", MaxScore: 100_000, Shards: 3, Global: "service",
	})
	for _, c := range change {
		c(&cfg)
	}
	a, err := app.Build(context.Background(), app.Options{
		Config: cfg, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(secret), Issuer: cfg.Auth.Issuer, Audience: cfg.Auth.Audience}), Roles: app.AllRoles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Start(context.Background())
	ts := httptest.NewServer(a.Handler)
	t.Cleanup(func() {
		ts.Close()
		if err := a.Close(); err != nil {
			t.Logf("close: %v", err) // the test may have closed a store
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return &server{t: t, env: env, app: a, url: ts.URL}
}

// token signs a token that is good now.
func token(t testing.TB, user models.UserID, scope string) string {
	t.Helper()
	text, err := auth.SignToken([]byte(secret), user, scope, "", "", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// code is the error's code; empty for a success.
func (a answer) code() models.Code {
	var p struct {
		Code models.Code `json:"code"`
	}
	if json.Unmarshal(a.body, &p) != nil {
		return "not a problem"
	}
	return p.Code
}

// call makes a request with a token; an empty one sends none.
func (s *server) call(token, method, path string, body any) answer {
	s.t.Helper()
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = bytes.NewBufferString(b)
	case []byte:
		reader = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			s.t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if err := res.Body.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: text}
}

// as calls as a user.
func (s *server) as(user models.UserID, method, path string, body any) answer {
	s.t.Helper()
	return s.call(token(s.t, user, ""), method, path, body)
}

// service calls as a trusted backend.
func (s *server) service(method, path string, body any) answer {
	s.t.Helper()
	return s.call(token(s.t, 1, auth.ScopeService), method, path, body)
}

// want checks a status and reads the body.
func (s *server) want(a answer, status int, into any) {
	s.t.Helper()
	if a.status != status {
		s.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if into == nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		s.t.Fatalf("%v in %s", err, a.body)
	}
}

// refuse checks that a call is refused as the contract says.
func (s *server) refuse(a answer, status int, code models.Code) {
	s.t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
		Code                models.Code
		RequestID           string `json:"request_id"`
		Errors              []models.FieldError
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		s.t.Errorf("%d %s", a.status, a.body)
		return
	}
	if a.status != status || p.Code != code {
		s.t.Errorf("%d %s, want %d %s: %s", a.status, p.Code, status, code, a.body)
	}
	if p.Status != a.status || p.Type == "" || p.Title == "" || p.Detail == "" || p.RequestID == "" ||
		a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("X-Request-Id") != p.RequestID {
		s.t.Errorf("not a whole problem: %v %s", a.header, a.body)
	}
	if status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
		s.t.Error("no Retry-After")
	}
	if status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
		s.t.Error("no WWW-Authenticate")
	}
}
