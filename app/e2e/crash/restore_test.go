package crash_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A restore is killed at each step. The folder has the replaced database with everything that was
// acknowledged, or the restored one, complete, in which the user who was erased since is erased.
func TestRestoreKilledAtEachStep(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, args ...string) string {
		t.Helper()
		stdout, stderr, status := testenv.Run(t, args...)
		return harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}.Succeeds(t)
	}
	friends := func(text string) string {
		path := filepath.Join(t.TempDir(), "friends")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "--auth.hs256_secret=" + harness.Secret
	from, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	p := testenv.ServeFolder(t, from, secret)
	run(t, "import", "friends", friends("9 10\n9 11\n"), "--data="+from)
	run(t, "backup", backup, "--data="+from)
	harness.Call(t, p.Process, harness.Token(t, "10", ""), "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	run(t, "import", "friends", friends("9 12\n"), "--data="+from)
	p.Kill()                                                              // so there is a log
	if err := os.RemoveAll(filepath.Join(from, "commands")); err != nil { // a socket can't be copied
		t.Fatal(err)
	}

	shown := func(t *testing.T, dir string) string {
		t.Helper()
		p := testenv.ServeFolder(t, dir, secret)
		defer p.Stop()
		text := harness.Call(t, p.Process, harness.Token(t, "9", ""), "GET", "/v1/friends", "", http.StatusOK)
		found := ""
		for _, user := range []models.UserID{"10", "11", "12"} {
			if strings.Contains(text, `"`+string(user)+`"`) {
				found += string(user) + " "
			}
		}
		return found
	}
	const replaced, restored = "11 12 ", "11 "
	for _, step := range append(testenv.Failpoints(t, "restore"), "erasure.begun", "erasure.part#3") {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(dir, "stepboard.db-wal")); err != nil || info.Size() == 0 {
				t.Fatalf("there is no log: %v", err)
			}
			testenv.RunUntil(t, step, "restore", backup, "--data="+dir).Killed()
			want := replaced
			if step == "restore.renamed" {
				want = restored
			}
			if got := shown(t, dir); got != want {
				t.Errorf("the friends are %s, not %s", got, want)
			}
			if _, err := os.Stat(filepath.Join(dir, "unfinished")); !os.IsNotExist(err) {
				t.Errorf("a copy is left: %v", err)
			}
			run(t, "restore", backup, "--data="+dir)
			if got := shown(t, dir); got != restored {
				t.Errorf("restored again, the friends are %s", got)
			}
		})
	}
}
