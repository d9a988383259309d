package app_test

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/services/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func build(t testing.TB, env *testenv.Env) *app.App {
	t.Helper()
	a, err := app.Build(context.Background(), app.Options{
		Config: config.Default(), Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
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
	env := testenv.Embedded(t)
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
	a := build(t, testenv.Embedded(t))
	var listenConfig net.ListenConfig
	listener, err := listenConfig.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
