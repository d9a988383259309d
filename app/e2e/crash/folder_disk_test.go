package crash_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// onDisk calls a test in a process of its own, in which it may mount file systems that nobody else
// sees and that end with it. It is not checked where the system does not let this account do so.
func onDisk(t *testing.T, test func(t *testing.T, disk string)) {
	t.Helper()
	const variable = "TEST_DISK"
	if disk := os.Getenv(variable); disk != "" {
		test(t, disk)
		return
	}
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		testenv.NotChecked(t, fmt.Sprintf("unshare: %v: %s", err, bytes.TrimSpace(out)))
	}
	left := time.Duration(0) // no limit
	if deadline, ok := t.Deadline(); ok {
		left = time.Until(deadline)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.timeout="+left.String())
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir(), "TEST_BINARY="+testenv.Binary())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("%v: %s", err, out)
	}
}

// mount mounts, with options of the command.
func mount(t *testing.T, disk string, options ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "mount", append(options, disk)...).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

// fillDisk writes a file that takes all the room that a disk has, and returns a function that removes it.
func fillDisk(t *testing.T, disk string) (makeRoom func()) {
	t.Helper()
	path := filepath.Join(disk, "ballast")
	f := testenv.Must(os.Create(path))
	var err error
	for size := 1 << 16; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of a data folder is full under load. Writes are refused with 503, reads go on, and the
// service says that it is not ready, and why. Nothing that was acknowledged is lost: the same process
// goes on when there is room again, and so does one that starts after a kill or an orderly end on the
// full disk.
func TestDataFolderDiskFull(t *testing.T) {
	onDisk(t, func(t *testing.T, disk string) {
		mount(t, disk, "-t", "tmpfs", "-o", "size=12m", "tmpfs")
		dir := filepath.Join(disk, "data")
		settings := []string{"--auth.hs256_secret=" + harness.Secret, "--limits.user_per_minute=0", "--boards=[{" + harness.Steps + "}]"}
		p := testenv.ServeFolder(t, dir, settings...)
		for _, end := range []func(){nil, func() { p.Kill() }, func() { p.Stop() }} {
			u := upload(t, p.URL, harness.Today())
			u.AwaitMore(t, 50)
			makeRoom := fillDisk(t, disk)
			testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.Counts(); return n >= 50 })
			u.End()
			checkFullDisk(t, p, u)
			if end != nil {
				end()
			}
			makeRoom()
			if end != nil {
				p = testenv.ServeFolder(t, dir, settings...)
			}
			checkAccepted(t, p, u)
			testenv.Eventually(t, "it is ready", func() bool { status, _ := harness.Get(t, p.Process, "/readyz"); return status == http.StatusOK })
			upload := fmt.Sprintf(`{"date":%q,"score":50000}`, u.Date)
			harness.Call(t, p.Process, harness.Token(t, "another", ""), "POST", "/v1/boards/steps/scores", upload, http.StatusOK)
		}
		p.Stop()
	})
}

// refusesDisk expects that no process starts on a data folder, and that it says why in one line
// without waiting for anything.
func refusesDisk(t *testing.T, dir, why string) {
	t.Helper()
	stdout, stderr, status := testenv.Run(t, "serve", "--data="+dir, "--http.addr=127.0.0.1:0")
	harness.Outcome{Stdout: stdout, Stderr: stderr, Status: status}.Fails(t, 1, dir, why)
	if strings.Contains(stderr, "waiting") {
		t.Errorf("it has waited: %s", stderr)
	}
}

// checkFullDisk looks at a process whose disk is full.
func checkFullDisk(t *testing.T, p *testenv.Command, u *harness.Uploads) {
	t.Helper()
	for _, call := range [][]string{
		{"POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":99999}`, u.Date)},
		{"POST", "/v1/groups", `{"name":"walkers"}`},
	} {
		if text := harness.Call(t, p.Process, harness.Token(t, "1", ""), call[0], call[1], call[2], http.StatusServiceUnavailable); !strings.Contains(text, `"code":"unavailable"`) {
			t.Errorf("refused with %s", text)
		}
	}
	testenv.Eventually(t, "it is not ready", func() bool {
		status, text := harness.Get(t, p.Process, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, `"database":"unavailable"`)
	})
	checkAccepted(t, p, u)
	lines := 0
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, `"msg":"a store does not answer"`) && strings.Contains(line, "stepboard.db: database or disk is full") {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("%d lines say that the disk is full: %s", lines, p.Log())
	}
}

// checkAccepted expects that every accepted total is shown, and none that was refused.
func checkAccepted(t *testing.T, p *testenv.Command, u *harness.Uploads) {
	t.Helper()
	var r models.Ranking
	text := harness.Call(t, p.Process, harness.Token(t, "1", ""), "GET", "/v1/boards/steps/top?date="+u.Date, "", http.StatusOK)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	shown := make(map[models.UserID]int64)
	for _, e := range r.Entries {
		shown[e.User] = e.Score
	}
	for user, accepted := range u.Promised {
		if shown[user] < accepted || shown[user] == 99999 {
			t.Errorf("user %s has %d, and %d was accepted", user, shown[user], accepted)
		}
	}
}

// A data folder on a disk that is mounted read-only is refused, whether or not it has data.
func TestDataFolderDiskReadOnly(t *testing.T) {
	onDisk(t, func(t *testing.T, disk string) {
		mount(t, disk, "-t", "tmpfs", "tmpfs")
		dir := filepath.Join(disk, "data")
		testenv.ServeFolder(t, dir).Kill()
		mount(t, disk, "-o", "remount,ro")
		refusesDisk(t, dir, "read-only file system")
		refusesDisk(t, filepath.Join(disk, "new"), "read-only file system")
		mount(t, disk, "-o", "remount,rw")
		testenv.ServeFolder(t, dir).Stop()
	})
}
