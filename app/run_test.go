package app_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/app"
	"stepboard/internal/testenv"
	"stepboard/services/auth"
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

// pipes is a listener of two connections, made of pipes.
type pipes struct {
	net.Listener

	conns    chan net.Conn
	accepted int
	early    atomic.Bool // whether the second was accepted while the first was open
	closed   atomic.Bool // whether the first was closed
}

// watched sets closed when it is closed.
type watched struct {
	net.Conn

	closed *atomic.Bool
}

func (c watched) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (l *pipes) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	if l.accepted++; l.accepted == 1 {
		return watched{conn, &l.closed}, nil
	}
	l.early.Store(!l.closed.Load())
	return conn, nil
}

func (l *pipes) Close() error {
	close(l.conns)
	return nil
}

// Above http.max_connections, a connection waits until another one is closed.
func TestMaxConnections(t *testing.T) {
	env := testenv.Embedded(t)
	env.Config.HTTP.MaxConnections = 1
	a := build(t, env)
	listener := &pipes{conns: make(chan net.Conn, 2)}
	var clients [2]net.Conn
	for i := range clients {
		client, server := net.Pipe()
		clients[i] = client
		listener.conns <- server
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx, listener) }()
	for _, client := range clients {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://demo/metrics", nil))
		if err := r.Write(client); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(client), r)
		if err != nil {
			t.Fatal(err)
		}
		metrics := testenv.Must(io.ReadAll(res.Body))
		if !bytes.Contains(metrics, []byte("\nstepboard_http_connections_open 1\n")) ||
			!bytes.Contains(metrics, []byte("\nstepboard_http_connections_max 1\n")) {
			t.Errorf("status %d, %s", res.StatusCode, metrics)
		}
		if err := errors.Join(res.Body.Close(), client.Close()); err != nil {
			t.Error(err)
		}
	}
	if listener.early.Load() {
		t.Error("a second connection is accepted beside the first")
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
