package crash_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// failSyncs lets each sync of a file in a process fail, until the returned function is called.
func failSyncs(t *testing.T, p *testenv.Command, path string) (end func()) {
	t.Helper()
	interrupt := inject(t, p, "fsync,fdatasync", "error=EIO", "-P", path)
	return func() { interrupt(syscall.SIGINT) }
}

// inject does something to each of some calls of a process, by strace with more options, until the returned function ends it by a
// signal.
func inject(t *testing.T, p *testenv.Command, calls, fault string, options ...string) (end func(os.Signal)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "strace", append([]string{"-f", "-p", strconv.Itoa(p.PID()), "-o", filepath.Join(t.TempDir(), "trace"),
		"-e", "trace=" + calls, "-e", "inject=" + calls + ":" + fault}, options...)...)
	stderr := testenv.Must(cmd.StderrPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), " attached") {
	}
	go func() { // strace never waits for a reader
		for lines.Scan() {
		}
	}()
	return func(by os.Signal) {
		if err := cmd.Process.Signal(by); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it ends with the signal
	}
}

// Syncs of the log fail at commits: writes are refused with 503, reads go on, the service says that it
// is not ready, and goes on as soon as they succeed. Syncs of the database fail at checkpoints: writes
// go on, and a backup is refused. Nothing that was acknowledged is lost by a kill or an end meanwhile.
func TestFailingSyncs(t *testing.T) {
	needStrace(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	database := filepath.Join(dir, "stepboard.db")
	var p *testenv.Command
	l := &cutLoad{t: t, values: make(map[string]int64)}
	more := func(count *atomic.Int64, n int64) {
		t.Helper()
		enough := count.Load() + n
		l.run(p.URL, func() bool { return count.Load() >= enough || t.Failed() })
	}
	ready := func(want int) {
		t.Helper()
		testenv.Eventually(t, fmt.Sprintf("readiness is %d", want), func() bool { status, _ := harness.Get(t, p.Process, "/readyz"); return status == want })
	}
	for _, end := range []func(){func() { p.Kill() }, func() { p.Interrupt() }} {
		p = testenv.ServeFolder(t, dir, asFlags(cutSettings())...)
		more(&l.answers, 100)

		succeed := failSyncs(t, p, database)
		more(&l.answers, 400)
		stdout, stderr, status := testenv.Run(t, "backup", filepath.Join(t.TempDir(), "backup"), "--data="+dir)
		harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}.Fails(t, 1, "disk I/O error")
		succeed()
		ready(http.StatusOK)

		for range 2 {
			more(&l.answers, 50)
			succeed = failSyncs(t, p, database+"-wal")
			more(&l.refusals, 50)
			ready(http.StatusServiceUnavailable)
			harness.Call(t, p.Process, harness.Token(t, "hub", ""), "GET", "/v1/boards/steps/top", "", http.StatusOK)
			succeed()
			ready(http.StatusOK)
		}
		more(&l.answers, 50)
		succeed = failSyncs(t, p, database+"-wal")
		more(&l.refusals, 50)
		end()
		succeed()
		if problems := checkCut(t, dir, l.values); problems != nil {
			t.Error(strings.Join(problems, "\n"))
		}
	}
}
