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
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stepboard/config"
)

// folder is the folder of the programs that this process has built; "" if it has
// built none.
var folder string

// binary and binaryWithFailpoints build the program once for all tests of a process; the latter
// reads FAILPOINT.
var (
	binary               = sync.OnceValues(func() (path string, err error) { return build("stepboard", "nomsgpack") })
	binaryWithFailpoints = sync.OnceValues(func() (path string, err error) {
		return build("stepboard-failpoints", "nomsgpack,failpoints")
	})
	building sync.Mutex
)

// build builds the program with build tags.
func build(name, tags string) (path string, err error) {
	building.Lock()
	defer building.Unlock()
	if folder == "" {
		if folder, err = os.MkdirTemp("", "stepboard-binary"); err != nil {
			return "", err
		}
	}
	path = filepath.Join(folder, name)
	build := exec.Command("go", "build", "-trimpath", "-tags="+tags, "-ldflags=-s -w", "-o", path, "stepboard")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
}

// Binary returns the path of the program: TEST_BINARY if that is set, otherwise
// the path of a program that it builds.
func Binary() string {
	if path := os.Getenv("TEST_BINARY"); path != "" {
		return path
	}
	return Must(binary())
}

// RemoveBinary removes the program that Binary has built. A TestMain calls it
// last.
func RemoveBinary() {
	if folder == "" {
		return
	}
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Flags returns the settings as command-line flags for a process of the test, which has board
// steps only.
func Flags(cfg config.Config) []string {
	return []string{
		"--redis.mode=" + cfg.Redis.Mode,
		"--redis.master_name=" + cfg.Redis.MasterName,
		"--redis.addrs=" + strings.Join(cfg.Redis.Addrs, ","),
		"--redis.key_prefix=" + cfg.Redis.KeyPrefix,
		"--postgres.dsn=" + cfg.Postgres.DSN,
		"--clock.offset=" + cfg.Clock.Offset.String(),
		"--boards=[{name: steps, time_zone: " + cfg.Boards[0].TimeZone + "}]",
		"--auth.hs256_secret=" + cfg.Auth.HS256Secret,
		fmt.Sprintf("--limits.user_per_minute=%d", cfg.Limits.UserPerMinute),
		fmt.Sprintf("--limits.address_per_minute=%d", cfg.Limits.AddressPerMinute),
		fmt.Sprintf("--limits.hidings_per_hour=%d", cfg.Limits.HidingsPerHour),
		fmt.Sprintf("--limits.streams_per_address=%d", cfg.Limits.StreamsPerAddress),
		"--http.addr=127.0.0.1:0",
		"--log.level=info",
	}
}

// variables returns those of the environment of a process, which is in the time zone Morning.
func variables() []string { return append(os.Environ(), "TZ="+Morning) }

// Run runs the program to its end and returns its output and exit status.
func Run(t testing.TB, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	path := Binary()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = t.TempDir() // not the folder of the tests, which may have a settings file
	cmd.Env = variables()
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// Process is a running process of the program.
type Process struct {
	t   testing.TB
	cmd *exec.Cmd
	// URL is the address of its HTTP server; Serve and Demo set it.
	URL string

	logged chan struct{} // closed at the end of its log
	log    Buffer
}

// start starts the program after prepare has set its input and output, and
// collects its log. When the program logs its address, start sends it to
// serving. The end of the test kills the process if it still runs.
func start(t testing.TB, binary string, serving chan<- string, prepare func(*exec.Cmd), args ...string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(binary, args...), logged: make(chan struct{})}
	p.cmd.Dir = t.TempDir() // not the folder of the tests, which may have a settings file
	p.cmd.Env = variables()
	prepare(p.cmd)
	stderr := Must(p.cmd.StderrPipe())
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	go p.readLog(stderr, serving)
	return p
}

// Serve starts `serve` with the settings and waits until it listens.
func Serve(t testing.TB, cfg config.Config, more ...string) *Process {
	t.Helper()
	return serve(t, Binary(), func(*exec.Cmd) {}, cfg, more...)
}

// serve starts a program's `serve` after prepare has changed its environment.
func serve(t testing.TB, binary string, prepare func(*exec.Cmd), cfg config.Config, more ...string,
) *Process {
	t.Helper()
	serving := make(chan string, 1)
	p := start(t, binary, serving, prepare, append(append([]string{"serve"}, Flags(cfg)...), more...)...)
	p.awaitListening(serving)
	return p
}

// awaitListening waits until the process listens.
func (p *Process) awaitListening(serving <-chan string) {
	t := p.t
	t.Helper()
	ctx, cancel := untilDeadline(t)
	defer cancel()
	select {
	case addr := <-serving:
		p.URL = "http://" + addr
	case <-p.logged:
		select {
		case addr := <-serving: // it was killed at once
			p.URL = "http://" + addr
		default:
			if !strings.Contains(p.Log(), "killed at ") {
				t.Fatalf("serve did not start: %s", p.Log())
			}
		}
	case <-ctx.Done():
		t.Fatalf("serve never listened: %s", p.Log())
	}
}

// readLog collects the log and sends the address in it to serving.
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

// Log returns what the process has logged so far.
func (p *Process) Log() string {
	return p.log.String()
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		p.Signal(syscall.SIGKILL)
		p.wait()
	}
}

// Stop asks the process to shut down and waits until it has ended. The test fails
// if the exit status is not 0.
func (p *Process) Stop() {
	p.t.Helper()
	if status := p.end(syscall.SIGTERM); status != 0 {
		p.t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// end sends a signal, waits until the process has ended, and returns its exit
// status.
func (p *Process) end(s syscall.Signal) (status int) {
	p.t.Helper()
	ctx, cancel := untilDeadline(p.t)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		p.t.Errorf("the process never ended: %s", p.Log())
		_ = p.cmd.Process.Kill() // or it has ended after all
	})()
	p.Signal(s)
	p.wait()
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process; a process that has ended gets none. After SIGSTOP it
// waits until the process stands still: on a busy machine its threads go on for a while.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return
	}
	if err != nil {
		p.t.Error(err)
	} else if s == syscall.SIGSTOP {
		awaitStopped(p.t, p.cmd.Process.Pid)
	}
}

// awaitStopped waits until all threads of a process that got SIGSTOP have stopped, or have ended.
func awaitStopped(t testing.TB, pid int) {
	t.Helper()
	Eventually(t, "the process stands still", func() bool {
		threads := Must(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)))
		return !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			if err != nil {
				return false // the thread has ended
			}
			state := stat[bytes.LastIndexByte(stat, ')')+2] // the field after the name
			return !strings.ContainsRune("TZX", rune(state))
		})
	})
}

// wait waits until the process has ended.
func (p *Process) wait() {
	<-p.logged
	if err := p.cmd.Wait(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			p.t.Error(err)
		}
	}
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }
