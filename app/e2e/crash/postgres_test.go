package crash_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// While Postgres is cut off, uploads and rankings of hot days go on, changes
// are refused, and readyz names the store. Afterwards the same process goes on.
func TestPostgresCutOff(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	cut := env.Config
	cut.Postgres.DSN = testenv.WithAddress(cut.Postgres.DSN, link.Addr())
	p := testenv.Serve(t, cut)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(method, path, body string) (int, string) {
		t.Helper()
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, "1", ""), method, p.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, text
	}
	want := func(status int, method, path, body string) {
		t.Helper()
		if got, text := call(method, path, body); got != status {
			t.Errorf("%s %s: %d, want %d: %s", method, path, got, status, text)
		}
	}
	harness.AwaitCheckpoint(t, env.Redis, env.Keys, "sets")
	upload := fmt.Sprintf(`{"date":%q,"score":5}`, harness.Today())
	want(200, "POST", "/v1/boards/steps/scores", upload)
	want(200, "GET", "/v1/boards/steps/friends", "")
	link.Cut()
	want(200, "POST", "/v1/boards/steps/scores", upload)
	want(200, "GET", "/v1/boards/steps/friends", "")
	want(200, "GET", "/v1/boards/steps/friends?include=likes", "")
	want(503, "PUT", "/v1/me", `{"nickname":"Ann"}`)
	want(503, "GET", "/v1/friends", "")
	want(503, "DELETE", "/v1/friends/2", "")
	testenv.Eventually(t, "/readyz names Postgres", func() bool {
		status, text := call("GET", "/readyz", "")
		return status == 503 && bytes.Contains([]byte(text), []byte(`"postgres":"unavailable"`))
	})
	link.Start()
	testenv.Eventually(t, "profiles can be set again", func() bool {
		status, _ := call("PUT", "/v1/me", `{"nickname":"Ann"}`)
		return status == 200
	})
}

// While Postgres hangs, calls are refused in time, and the process can stop.
func TestPostgresHangs(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	env := harness.Real(t)
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	env.Config.Postgres.DSN = testenv.WithAddress(env.Config.Postgres.DSN, link.Addr())
	p := testenv.Serve(t, env.Config)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	link.Hold()
	var wg sync.WaitGroup
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/boards/steps/friends", ""},
		{"GET", "/v1/boards/steps/top?date=2020-01-01", ""},
		{"GET", "/v1/friends", ""},
		{"PUT", "/v1/me", `{"nickname":"Ann"}`},
		{"DELETE", "/v1/friends/2", ""},
		{"GET", "/readyz", ""},
	} {
		wg.Go(func() {
			status, text, err := harness.Request(t.Context(), client, harness.Token(t, "1", ""), call.method, p.URL+call.path, call.body)
			if err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("%s %s: %d %s %v", call.method, call.path, status, text, err)
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	p.Stop()
}
