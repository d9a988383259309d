package testenv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stepboard/config"
)

// folder is where the program was built, if it was.
var folder string

// binary builds the program once for all tests of a process.
var binary = sync.OnceValues(func() (path string, err error) {
	if folder, err = os.MkdirTemp("", "stepboard-binary"); err != nil {
		return "", err
	}
	path = filepath.Join(folder, "stepboard")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "stepboard")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// Binary returns the program's path: TEST_BINARY if that is set, otherwise that
// of a program that it builds.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("TEST_BINARY"); path != "" {
		return path
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// RemoveBinary removes what the tests have built; a TestMain calls it last.
func RemoveBinary() {
	if folder == "" {
		return
	}
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Flags are the settings as command-line flags, for a process of the test.
func Flags(cfg config.Config) []string {
	return []string{
		"--redis.mode=" + cfg.Redis.Mode,
		"--redis.master_name=" + cfg.Redis.MasterName,
		"--redis.addrs=" + strings.Join(cfg.Redis.Addrs, ","),
		"--redis.key_prefix=" + cfg.Redis.KeyPrefix,
		"--postgres.dsn=" + cfg.Postgres.DSN,
		"--clock.offset=" + cfg.Clock.Offset.String(),
		"--auth.hs256_secret=" + cfg.Auth.HS256Secret,
		"--http.addr=127.0.0.1:0",
		"--log.level=info",
	}
}

// Run runs the program to its end and answers what it printed.
func Run(t testing.TB, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	path := Binary(t)
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = t.TempDir() // no settings file of whoever runs the tests
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// Process is the program, running.
type Process struct {
	t   testing.TB
	cmd *exec.Cmd
	// URL is where it answers.
	URL string

	logged chan struct{} // closed at the end of its log
	log    Buffer
}

// start starts the program, once prepare has seen to what it reads and prints,
// and keeps its log. Should it log where it answers, serving hears it. The test
// kills it at its end, unless it has ended.
func start(t testing.TB, serving chan<- string, prepare func(*exec.Cmd), args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(Binary(t), args...), logged: make(chan struct{})}
	p.cmd.Dir = t.TempDir() // no settings file of whoever runs the tests
	prepare(p.cmd)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	go p.readLog(stderr, serving)
	return p
}

// Serve starts `serve` with the settings and waits until it answers.
func Serve(t testing.TB, cfg config.Config, more ...string) *Process {
	t.Helper()
	serving := make(chan string, 1)
	p := start(t, serving, func(*exec.Cmd) {}, append(append([]string{"serve"}, Flags(cfg)...), more...)...)
	ctx, cancel := patience(t)
	defer cancel()
	select {
	case addr := <-serving:
		p.URL = "http://" + addr
	case <-p.logged:
		t.Fatalf("serve did not start: %s", p.Log())
	case <-ctx.Done():
		t.Fatalf("never: serve answers: %s", p.Log())
	}
	return p
}

// readLog keeps the log and finds the address in it.
func (p *Process) readLog(stderr io.Reader, serving chan<- string) {
	defer close(p.logged)
	scanner := bufio.NewScanner(stderr)
	for scanner.Scan() {
		var line struct{ Msg, Addr string }
		if json.Unmarshal(scanner.Bytes(), &line) == nil && line.Msg == "serving" {
			serving <- line.Addr
		}
		fmt.Fprintf(&p.log, "%s\n", scanner.Bytes())
	}
}

// Log is what the process has logged so far.
func (p *Process) Log() string {
	return p.log.String()
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		p.signal(syscall.SIGKILL)
	}
}

// Stop ends the process in good order and answers its exit status.
func (p *Process) Stop() int {
	p.t.Helper()
	return p.end(syscall.SIGTERM)
}

// end asks the process to end, and waits until it does.
func (p *Process) end(s syscall.Signal) (status int) {
	p.t.Helper()
	ctx, cancel := patience(p.t)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		p.t.Errorf("never: the process ends: %s", p.Log())
		_ = p.cmd.Process.Kill() // or it has ended after all
	})()
	p.signal(s)
	return p.cmd.ProcessState.ExitCode()
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

func (p *Process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	<-p.logged
	if err := p.cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			p.t.Error(err)
		}
	}
}
