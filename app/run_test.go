package app_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/app"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(t testing.TB, env *testenv.Env) *app.App {
	t.Helper()
	a, err := app.Build(context.Background(), app.Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: auth.NewVerifier(auth.VerifierConfig{}), Roles: app.AllRoles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var createdByUs = regexp.MustCompile(`(?m)^created by (stepboard/\S+)`)

// ourGoroutines returns which of our functions have started the goroutines that
// run now.
func ourGoroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var starters []string
	for _, m := range createdByUs.FindAllSubmatch(stacks, -1) {
		starters = append(starters, string(m[1]))
	}
	slices.Sort(starters)
	return starters
}

// Not parallel, so that no other test starts goroutines.
func TestBuildStartsNoGoroutine(t *testing.T) {
	env := testenv.Local(t)
	before := ourGoroutines()
	a := build(t, env)
	if diff := cmp.Diff(before, ourGoroutines()); diff != "" {
		t.Errorf("Build has started goroutines: -before +after:\n%s", diff)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestRunServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	a := build(t, testenv.Local(t))
	var listenConfig net.ListenConfig
	listener := testenv.Must(listenConfig.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/readyz", nil))
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v", res.StatusCode, err)
	}
	stop()
	if err := testenv.Receive(t, "Run returns", ended); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// If all connections that http.max_connections allows are in use, another one may only probe. The
// idle ones of this machine count as used.
func TestMaxConnections(t *testing.T) {
	env := testenv.Local(t)
	env.Config.HTTP.MaxConnections = 1
	a := build(t, env)
	var listenConfig net.ListenConfig
	listener := testenv.Must(listenConfig.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx, listener) }()
	type answer struct {
		status int
		header http.Header
		body   string
		closed bool // whether the connection is closed
	}
	get := func(client *http.Client, path string) answer {
		t.Helper()
		r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, nil))
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return answer{res.StatusCode, res.Header, string(testenv.Must(io.ReadAll(res.Body))), res.Close}
	}
	first, others := &http.Client{Transport: &http.Transport{}}, &http.Client{Transport: &http.Transport{}}
	for range 2 {
		get(first, "/healthz")
		for _, path := range []string{"/", "/v1/boards", "/nowhere"} {
			a := get(others, path)
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"code":"unavailable"`) {
				t.Errorf("%s: %+v", path, a)
			}
		}
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if a := get(others, path); a.status != http.StatusOK || !a.closed {
				t.Errorf("%s: %d, and the connection is closed: %t", path, a.status, a.closed)
			}
		}
	}
	for _, line := range []string{"open 1", "idle 0", "max 1", "idle_closed_total 0"} {
		testenv.Eventually(t, "the metrics have "+line, func() bool {
			return strings.Contains(get(first, "/metrics").body, "\nstepboard_http_connections_"+line+"\n")
		})
	}
	first.CloseIdleConnections()
	testenv.Eventually(t, "there is room", func() bool { return get(others, "/v1/boards").status == http.StatusUnauthorized })
	others.CloseIdleConnections()
	stop()
	if err := errors.Join(testenv.Receive(t, "the service ends", ran), a.Close()); err != nil {
		t.Error(err)
	}
}
