package harness

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// Secret signs the tokens of tests.
const Secret = "a secret for tests, 32 bytes or more"

// Token returns a token of a user that is valid for an hour. The scope is ""
// for the user itself.
func Token(t testing.TB, user models.UserID, scope string) string {
	t.Helper()
	text, err := auth.SignToken([]byte(Secret), user, scope, "", "", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Steps begins the definition of board steps in a flag of a process: its days are those of
// testenv.Morning.
var Steps = "name: steps, time_zone: " + testenv.Morning

// RealWithSecret is testenv.Real with Secret in its settings, for tests that set the clock of
// processes: days are those of Shanghai, as in testenv.
func RealWithSecret(t testing.TB) *testenv.Env {
	t.Helper()
	env := testenv.Real(t)
	env.Config.Auth.HS256Secret = Secret
	return env
}

// Real is testenv.Real for processes: with Secret and Steps in its settings.
func Real(t testing.TB) *testenv.Env {
	t.Helper()
	return forProcesses(testenv.Real(t))
}

// RealConfig is testenv.RealConfig for processes.
func RealConfig(t testing.TB) *testenv.Env {
	t.Helper()
	return forProcesses(testenv.RealConfig(t))
}

// RealOn is testenv.RealOn for processes.
func RealOn(t testing.TB, use func(*config.Redis)) *testenv.Env {
	t.Helper()
	return forProcesses(testenv.RealOn(t, use))
}

func forProcesses(env *testenv.Env) *testenv.Env {
	env.Config.Auth.HS256Secret = Secret
	env.Config.Boards[0].TimeZone = testenv.Morning
	return env
}

// Patience is far longer than the service takes for any answer, so that one that never comes
// fails the call, whose error names it, and not the whole package.
const Patience = 5 * time.Minute

// Request sends one request to a running process and returns the status and the
// body. An error means that no whole answer came.
func Request(ctx context.Context, client *http.Client, bearer, method, url, body string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	raw, err := io.ReadAll(res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	return res.StatusCode, string(raw), err
}

// Call sends one request to a process, which must answer with the given status, and returns
// the body.
func Call(t testing.TB, p *testenv.Process, bearer, method, path, body string, want int) string {
	t.Helper()
	status, text, err := Request(t.Context(), http.DefaultClient, bearer, method, p.URL+path, body)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d, %v, %s", method, path, status, err, text)
	}
	return text
}

// Today returns the current date of Steps in a process without a clock offset.
func Today() string {
	return time.Now().In(testenv.Must(time.LoadLocation(testenv.Morning))).Format(time.DateOnly)
}

// Get sends a GET request without a token.
func Get(t testing.TB, p *testenv.Process, path string) (status int, text string) {
	t.Helper()
	status, text, err := Request(t.Context(), http.DefaultClient, "", http.MethodGet, p.URL+path, "")
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

// Metric returns the value of a process's metric; ok is false if the process
// does not export it.
func Metric(t testing.TB, p *testenv.Process, name string) (value float64, ok bool) {
	t.Helper()
	_, text := Get(t, p, "/metrics")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			return testenv.Must(strconv.ParseFloat(strings.TrimSpace(rest), 64)), true
		}
	}
	return 0, false
}

// RedisClient connects to a Redis of the test. The end of the test closes the
// client.
func RedisClient(t testing.TB, s *testenv.RedisServer) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}
