package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// equalJSON reports whether two values have the same JSON.
func equalJSON(t testing.TB, a, b any) bool {
	t.Helper()
	x := testenv.Must(json.Marshal(a))
	y := testenv.Must(json.Marshal(b))
	return string(x) == string(y)
}

// archiveRan matches the metrics of a service whose archive job has run.
var archiveRan = regexp.MustCompile(`(?m)^stepboard_job_duration_seconds_count\{job="archive"\} [1-9]`)

// waitForStartJobs waits until the archive job that runs at the start has
// ended, so that it does not archive the days that the test writes next. Of
// several services that share an environment each must have waited before the
// next starts: a job that finds its lease held does not run.
func (s *server) waitForStartJobs() {
	s.t.Helper()
	testenv.Eventually(s.t, "the archive job of the start has run", func() bool {
		return archiveRan.Match(s.call("", "GET", "/metrics", nil).body)
	})
}

// admin calls as an administrator.
func (s *server) admin(method, path string, body any) answer {
	s.t.Helper()
	return s.call(harness.Token(s.t, "1", auth.ScopeAdmin), method, path, body)
}

// uploadDay sets the clock to the evening of a day and uploads the scores.
func (s *server) uploadDay(day models.Date, scores map[models.UserID]int) {
	s.t.Helper()
	s.env.Clock.Set(day.UTC().Add(13 * time.Hour))
	for user, score := range scores {
		s.want(s.as(user, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, day, score)), http.StatusOK, nil)
	}
}

// archiveDue archives the days that are due, as the job does. It waits for days that the
// job which corrects archived days has begun with, and for a Postgres that is slow.
func (s *server) archiveDue() {
	s.t.Helper()
	due, err := s.app.Archive.Due(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range due {
		testenv.Eventually(s.t, b.Name+" is archived", func() bool {
			_, err := s.app.Archive.Archive(s.t.Context(), b, func(int64) {})
			if code := models.CodeOf(err); err != nil && code != models.CodeArchiveRunning && code != models.CodeUnavailable {
				s.t.Fatal(err)
			}
			return err == nil
		})
	}
}

// file writes text to a file of the test and returns its path.
func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustRun runs the program, expects status 0 and returns the output.
func mustRun(t testing.TB, args ...string) string {
	t.Helper()
	stdout, stderr, status := testenv.Run(t, args...)
	if status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testenv.RemoveBinary()
		os.Exit(status)
	}))
}

// server is the service with the stores of one test.
type server struct {
	t   testing.TB
	env *testenv.Env
	app *app.App
	url string
}

// newServer starts the service with one more board, "private", and with changes
// to its settings.
func newServer(t testing.TB, env *testenv.Env, change ...func(*config.Config)) *server {
	t.Helper()
	return newServerOf(t, env, func(*app.Options) {}, change...)
}

// newServerOf is like newServer, with other options for the service.
func newServerOf(t testing.TB, env *testenv.Env, with func(*app.Options), change ...func(*config.Config)) *server {
	t.Helper()
	cfg := env.Config
	cfg.Auth.HS256Secret = harness.Secret
	cfg.Boards = append(cfg.Boards, config.Board{
		Name: "private", Kind: "daily", TimeZone: "Asia/Shanghai", OpenDays: 2, MaxScore: 100_000, Shards: 3, Global: "service",
	})
	for _, c := range change {
		c(&cfg)
	}
	options := app.Options{
		Config: cfg, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret), Issuer: cfg.Auth.Issuer, Audience: cfg.Auth.Audience}), Roles: app.AllRoles(),
	}
	with(&options)
	a, err := app.Build(context.Background(), options)
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

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   []byte
	// took is how long the answer took, and again sends the same request again; 0 and nil if
	// call did not send it.
	took  time.Duration
	again func() answer
}

// shortestPatience is less than a call waits for a store before it is answered with 503.
const shortestPatience = time.Second

// code returns the error code; "" for a success.
func (a answer) code() models.Code {
	var p struct {
		Code models.Code `json:"code"`
	}
	if json.Unmarshal(a.body, &p) != nil {
		return "not a problem"
	}
	return p.Code
}

// call makes a request with a token, or without one if it is "".
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
		text := testenv.Must(json.Marshal(b))
		reader = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), harness.Patience)
	defer cancel()
	r := testenv.Must(http.NewRequestWithContext(ctx, method, s.url+path, reader))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	sent := time.Now()
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
	a := answer{status: res.StatusCode, header: res.Header, body: text, took: time.Since(sent)}
	checkDocumented(s.t, method, path, a)
	a.again = func() answer { return s.call(token, method, path, body) }
	return a
}

// as calls as a user.
func (s *server) as(user models.UserID, method, path string, body any) answer {
	s.t.Helper()
	return s.call(harness.Token(s.t, user, ""), method, path, body)
}

// service calls as a backend.
func (s *server) service(method, path string, body any) answer {
	s.t.Helper()
	return s.call(harness.Token(s.t, "1", auth.ScopeService), method, path, body)
}

// succeeds checks the status of an answer, and returns it. A request is sent again as long as it is
// answered with 503 after so long that the service may have waited for a store: on a busy machine
// it may have to.
func (s *server) succeeds(a answer, status int) answer {
	s.t.Helper()
	for range 10 {
		if a.status != http.StatusServiceUnavailable || status >= 300 || a.took <= shortestPatience {
			break
		}
		s.t.Logf("sent again after %v: %s", a.took, a.body)
		a = a.again()
	}
	if a.status != status {
		s.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// want checks the status as succeeds does, and decodes the body, whose fields must be known.
func (s *server) want(a answer, status int, into any) {
	s.t.Helper()
	a = s.succeeds(a, status)
	if into == nil {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		s.t.Fatalf("%v in %s", err, a.body)
	}
}

// refuse expects an error with this status and code, in the form of the
// contract.
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

// fromMemory returns how many rankings the process has answered from memory.
func (s *server) fromMemory() string {
	s.t.Helper()
	return s.metric("stepboard_near_cache_answer_age_seconds_count")
}

// metric returns the value of a metric of the process.
func (s *server) metric(name string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(string(s.call("", "GET", "/metrics", nil).body), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
