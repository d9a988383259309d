package crash_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// run runs a command, which must succeed.
func run(t *testing.T, args ...string) {
	t.Helper()
	stdout, stderr, status := testenv.Run(t, args...)
	harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}.Succeeds(t)
}

// friendsFile returns a file for import friends.
func friendsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "friends")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const withSecret = "--auth.hs256_secret=" + harness.Secret

// ofReplaced and ofRestored are what friendsOfNine returns of the folder of folderToRestore, before and
// after its backup was restored.
const ofReplaced, ofRestored = "11 12 13 ", "11 "

// folderToRestore returns a data folder that has a log, as its process was killed, and a backup of it.
// Since then a user was erased and a friend came, which a later backup has, and then another friend.
func folderToRestore(t *testing.T) (from, backup, later string) {
	t.Helper()
	from, backup, later = t.TempDir(), filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "later")
	p := testenv.ServeFolder(t, from, withSecret)
	run(t, "import", "friends", friendsFile(t, "9 10\n9 11\n"), "--data="+from)
	run(t, "backup", backup, "--data="+from)
	harness.Call(t, p.Process, harness.Token(t, "10", ""), "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	run(t, "import", "friends", friendsFile(t, "9 12\n"), "--data="+from)
	run(t, "backup", later, "--data="+from)
	run(t, "import", "friends", friendsFile(t, "9 13\n"), "--data="+from)
	p.Kill()
	if err := os.RemoveAll(filepath.Join(from, "commands")); err != nil { // a socket can't be copied
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(from, "stepboard.db-wal")); err != nil || info.Size() == 0 {
		t.Fatalf("there is no log: %v", err)
	}
	return from, backup, later
}

// friendsOfNine serves a folder and returns user 9's friends there.
func friendsOfNine(t *testing.T, dir string) (found string) {
	t.Helper()
	p := testenv.ServeFolder(t, dir, withSecret)
	defer p.Stop()
	text := harness.Call(t, p.Process, harness.Token(t, "9", ""), "GET", "/v1/friends", "", http.StatusOK)
	for _, user := range []models.UserID{"10", "11", "12", "13"} {
		if strings.Contains(text, `"`+string(user)+`"`) {
			found += string(user) + " "
		}
	}
	return found
}

// A restore, of a file or of copies elsewhere, is killed at each step. The folder has the replaced
// database with everything that was acknowledged, or the restored one, complete, in which the user who
// was erased since is erased.
func TestRestoreKilledAtEachStep(t *testing.T) {
	t.Parallel()
	from, backup, later := folderToRestore(t)
	began, address := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), "file://"+t.TempDir()
	chain := backupstest.NewChain(t, testenv.Must(backups.Open(config.Backup{To: address})), 1, 4096, began, testenv.Must(os.ReadFile(backup)))
	chain.Full()
	chain.Commit(began.Add(time.Minute), testenv.Must(os.ReadFile(later)))
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
		for _, step := range testenv.Forms(t, 1, tt.steps) {
			t.Run(tt.of+"/"+step, func(t *testing.T) {
				t.Parallel()
				dir := copyFolder(t, from)
				args := append([]string{"restore", "--data=" + dir}, tt.args...)
				testenv.RunUntil(t, step, args...).Killed()
				want := ofReplaced
				if step == "restore.renamed" {
					want = ofRestored
				}
				if got := friendsOfNine(t, dir); got != want {
					t.Errorf("the friends are %s, not %s", got, want)
				}
				if _, err := os.Stat(filepath.Join(dir, "unfinished")); !os.IsNotExist(err) {
					t.Errorf("a copy is left: %v", err)
				}
				run(t, args...)
				if got := friendsOfNine(t, dir); got != ofRestored {
					t.Errorf("restored again, the friends are %s", got)
				}
			})
		}
	}
}
