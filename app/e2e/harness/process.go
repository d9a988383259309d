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

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

const Secret = "a secret for tests, 32 bytes or more"

// Token signs a token that is good now.
func Token(t testing.TB, user models.UserID, scope string) string {
	t.Helper()
	text, err := auth.SignToken([]byte(Secret), user, scope, "", "", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Real is a test's part of the servers with the schema in it.
func Real(t testing.TB) *testenv.Env {
	t.Helper()
	env := testenv.Real(t)
	env.Config.Auth.HS256Secret = Secret
	return env
}

// Request makes one call of a running process; the error is the connection's.
func Request(ctx context.Context, client *http.Client, bearer, method, url, body string) (status int, text string, err error) {
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

// Today is the day of a process whose clock is the real one.
func Today() string {
	return time.Now().In(testenv.Must(time.LoadLocation("Asia/Shanghai"))).Format(time.DateOnly)
}

// Get makes one call without a token.
func Get(t testing.TB, p *testenv.Process, path string) (status int, text string) {
	t.Helper()
	status, text, err := Request(t.Context(), http.DefaultClient, "", http.MethodGet, p.URL+path, "")
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

// Metric is what a process measures; ok is false where it does not measure it.
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

// RedisClient connects to a Redis of the test's own.
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
