package crash_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A restore, of a file or of copies elsewhere, is killed at each step. The folder has the replaced
// database with everything that was acknowledged, or the restored one, complete, in which the user who
// was erased since is erased.
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
	later := filepath.Join(t.TempDir(), "later")
	run(t, "backup", later, "--data="+from)
	run(t, "import", "friends", friends("9 13\n"), "--data="+from)
	p.Kill()                                                              // so there is a log
	if err := os.RemoveAll(filepath.Join(from, "commands")); err != nil { // a socket can't be copied
		t.Fatal(err)
	}
	began, address := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "file://"+t.TempDir()
	chain := backupstest.NewChain(t, testenv.Must(backups.Open(backups.Options{To: address})), 1, 4096, began, testenv.Must(os.ReadFile(backup)))
	chain.Full()
	chain.Commit(began.Add(time.Minute), testenv.Must(os.ReadFile(later)))

	shown := func(t *testing.T, dir string) string {
		t.Helper()
		p := testenv.ServeFolder(t, dir, secret)
		defer p.Stop()
		text := harness.Call(t, p.Process, harness.Token(t, "9", ""), "GET", "/v1/friends", "", http.StatusOK)
		found := ""
		for _, user := range []models.UserID{"10", "11", "12", "13"} {
			if strings.Contains(text, `"`+string(user)+`"`) {
				found += string(user) + " "
			}
		}
		return found
	}
	const replaced, restored = "11 12 13 ", "11 "
	steps := append(testenv.Failpoints(t, "restore"), "erasure.begun", "erasure.part#3")
	for _, tt := range []struct {
		of    string
		args  []string
		steps []string
	}{
		{"a file", []string{backup}, steps},
		// What is restored is made after the newest copy was read.
		{"copies", []string{"--from=" + address, "--at=" + began.Format(time.RFC3339)}, append(steps, "restore.copied#2", "restore.opened#2")},
	} {
		for _, step := range tt.steps {
			t.Run(tt.of+"/"+step, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "data")
				if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				args := append([]string{"restore", "--data=" + dir}, tt.args...)
				if info, err := os.Stat(filepath.Join(dir, "stepboard.db-wal")); err != nil || info.Size() == 0 {
					t.Fatalf("there is no log: %v", err)
				}
				testenv.RunUntil(t, step, args...).Killed()
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
				run(t, args...)
				if got := shown(t, dir); got != restored {
					t.Errorf("restored again, the friends are %s", got)
				}
			})
		}
	}
}
