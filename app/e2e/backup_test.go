package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// backUp writes a backup of a data folder, and returns its path.
func backUp(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup.db")
	printed := onFolder(t, dir, "backup", path).Succeeds(t)
	info := testenv.Must(os.Stat(path))
	if !strings.Contains(printed, fmt.Sprintf("%d bytes were written to %s\n", info.Size(), path)) || info.Mode() != 0o600 {
		t.Errorf("a file of %d bytes with mode %v, and it prints %s", info.Size(), info.Mode(), printed)
	}
	if _, err := os.Stat(filepath.Join(dir, "secret")); (err == nil) != strings.Contains(printed, filepath.Join(dir, "secret")+" is not in it") {
		t.Errorf("of the secret it prints %s", printed)
	}
	if got := files(t, filepath.Dir(path)); got != "backup.db" {
		t.Errorf("the folder of the backup has %s", got)
	}
	return path
}

// erase erases a user in a process that serves a data folder, as users do themselves.
func erase(t *testing.T, dir string, p *testenv.Command, user string) {
	t.Helper()
	token := strings.TrimSpace(onFolder(t, dir, "token", "--user="+user).Succeeds(t))
	harness.Call(t, p.Process, token, "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
}

// A backup that is made while users upload has everything that was accepted before it began.
func TestABackupUnderLoad(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "restored")
	settings := []string{"--auth.hs256_secret=" + harness.Secret, "--boards=[{" + harness.Steps + "}]"}
	p := testenv.ServeFolder(t, dir, settings...)
	date := harness.Today()
	u := harness.StartUploads(t, http.StatusOK, p.URL, date, 8)
	u.AwaitMore(t, 200)
	accepted := make(map[string]int64)
	for n := range 8 {
		accepted[string(testenv.ID(n+1))] = u.Accepted(testenv.ID(n + 1))
	}
	path := backUp(t, dir)
	u.AwaitMore(t, 20)
	u.End()
	p.Stop()
	below := filepath.Join(other, "below")
	onFolder(t, below, "restore", path).Fails(t, 1, "nobody knows who was erased since "+path+" was made", "--no-erasures")
	onFolder(t, below, "restore", "nix", "--no-erasures").Fails(t, 1, "open nix: no such file or directory")
	onFolder(t, below, "restore", file(t, "junk"), "--no-erasures").Fails(t, 1, "is no SQLite database")
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a restore that was refused leaves %s, %v", other, err)
	}
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	onFolder(t, other, "restore", path).Fails(t, 1, "nobody knows who was erased since")
	if got := files(t, other); got != "" {
		t.Errorf("a restore that was refused leaves %s", got)
	}
	printed := onFolder(t, other, "restore", path, "--no-erasures").Succeeds(t)
	if !strings.Contains(printed, "There is no "+filepath.Join(other, "secret")) {
		t.Errorf("a restore prints %s", printed)
	}
	restored := testenv.ServeFolder(t, other, settings...)
	for user, want := range accepted {
		var me struct{ Score int64 }
		text := harness.Call(t, restored.Process, harness.Token(t, models.UserID(user), ""), "GET", "/v1/boards/steps/me?date="+date, "", http.StatusOK)
		if err := json.Unmarshal([]byte(text), &me); err != nil || me.Score < want || want == 0 {
			t.Errorf("user %s has %d, and %d were accepted: %s", user, me.Score, want, text)
		}
	}
	restored.Stop()
}

// A backup never takes the place of what a data folder consists of, and needs a data folder.
func TestBackupsThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testenv.ServeFolder(t, dir)
	for _, name := range []string{"stepboard.db", "stepboard.db-wal", "secret", "lock"} {
		onFolder(t, dir, "backup", filepath.Join(dir, name)).Fails(t, 1, "belongs to a data folder")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "stepboard.db"), link); err != nil {
		t.Fatal(err)
	}
	onFolder(t, dir, "backup", link).Fails(t, 1, "is a link")
	onFolder(t, dir, "backup", filepath.Join(dir, "nix", "backup")).Fails(t, 1, "no such file or directory")
	onFolder(t, dir, "backup", dir).Fails(t, 1, "is a directory")
	onFolder(t, dir, "backup", filepath.Join(dir, "backup.db")).Succeeds(t)
	p.Stop()
	if got := files(t, dir); got != "backup.db lock secret stepboard.db" {
		t.Errorf("the folder has %s", got)
	}
	onFolder(t, dir, "backup", filepath.Join(dir, "stepboard.db")).Fails(t, 1, "belongs to a data folder")
	onFolder(t, filepath.Join(dir, "nix"), "backup", "file").Fails(t, 1, "has no database")
	servers := harness.Outcome{}
	servers.Stdout, servers.Stderr, servers.Status = testenv.Run(t, "backup", "file", "--redis.addrs=localhost:1", "--postgres.dsn=postgres://localhost:1/x")
	servers.Fails(t, 1, "backup is for data folders")
	servers.Stdout, servers.Stderr, servers.Status = testenv.Run(t, "restore", "file")
	servers.Fails(t, 1, "restore is for data folders")
}

// A backup that is interrupted leaves nothing in the data folder.
func TestAnInterruptedBackup(t *testing.T) {
	t.Parallel()
	dir, pipe := t.TempDir(), filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := testenv.ServeFolder(t, dir)
	c := testenv.Start(t, "backup", pipe, "--data="+dir)
	testenv.Eventually(t, "the copy is there", func() bool { return strings.Contains(files(t, dir), "unfinished") })
	if status := c.Interrupt(); status != 1 || !strings.Contains(c.Log(), "interrupted: no backup was written") {
		t.Errorf("interrupted: status %d, %s", status, c.Log())
	}
	testenv.Eventually(t, "the copy has gone", func() bool { return !strings.Contains(files(t, dir), "unfinished") })
	backUp(t, dir)
	p.Stop()
}

// Who was erased after a backup stays erased when it is restored, also if an even older one was
// restored before. Nobody gets the row id of somebody else.
func TestErasuresAfterABackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testenv.ServeFolder(t, dir)
	empty := backUp(t, dir)
	onFolder(t, dir, "import", "friends", file(t, "9 10\n9 11\n")).Succeeds(t)
	onFolder(t, dir, "operators", "add", "10").Succeeds(t)
	path := backUp(t, dir)
	onFolder(t, dir, "operators", "add", "11").Succeeds(t)
	onFolder(t, dir, "operators", "remove", "10").Succeeds(t)
	erase(t, dir, p, "10")
	onFolder(t, dir, "import", "friends", file(t, "9 12\n")).Succeeds(t)
	exported := filepath.Join(t.TempDir(), "erasures")
	onFolder(t, dir, "erasures", "export", exported).Succeeds(t)
	onFolder(t, dir, "restore", path).Fails(t, 1, "in use by another process")
	p.Stop()
	secret := string(testenv.Must(os.ReadFile(filepath.Join(dir, "secret"))))

	restore := func(erased int, args ...string) {
		t.Helper()
		printed := onFolder(t, dir, append([]string{"restore"}, args...)...).Succeeds(t)
		if want := fmt.Sprintf("%s was restored to data folder %s; %d users are erased again\n", args[0], dir, erased); !strings.HasPrefix(printed, want) {
			t.Errorf("it prints %s, not %s", printed, want)
		}
		// Which keys were revoked since was known only from what the folder, or the file, had of that.
		if says := strings.Contains(printed, "upload addresses were revoked since: they can be used again"); says != slices.Contains(args, "--no-erasures") {
			t.Errorf("it prints %s", printed)
		}
		if says := strings.Contains(printed, "Nobody is an operator any more"); says != (erased == 1) {
			t.Errorf("of user 10, who was an operator, it prints %s", printed)
		}
		if got := files(t, dir); got != "lock secret stepboard.db" || string(testenv.Must(os.ReadFile(filepath.Join(dir, "secret")))) != secret {
			t.Errorf("the folder has %s", got)
		}
	}
	friends := func(want ...string) {
		t.Helper()
		p := testenv.ServeFolder(t, dir)
		text := friendsOn(t, dir, p, "9")
		for _, user := range []string{"10", "11", "12"} {
			if has := strings.Contains(text, `"`+user+`"`); has != strings.Contains(strings.Join(want, " "), user) {
				t.Errorf("the friends are %s, not %v", text, want)
			}
		}
		p.Stop()
	}
	restore(0, empty)
	restore(1, path)
	friends("11")
	restore(1, path) // by the folder that was just restored
	friends("11")
	onFolder(t, dir, "restore", path, "--erasures=nix").Fails(t, 1, "open nix: no such file or directory")
	onFolder(t, dir, "restore", path, "--erasures="+path).Fails(t, 1, "it is no file of erasures")
	onFolder(t, dir, "restore", "nix").Fails(t, 1, "open nix: no such file or directory")
	friends("11")

	// Another database knows nothing of these users, nor does one that can't be read.
	if err := os.Remove(filepath.Join(dir, "stepboard.db")); err != nil {
		t.Fatal(err)
	}
	testenv.ServeFolder(t, dir).Stop()
	onFolder(t, dir, "restore", path).Fails(t, 1, "nobody knows who was erased", "is another service's, or a new one")
	restore(1, path, "--erasures="+exported)
	friends("11")
	if err := os.WriteFile(filepath.Join(dir, "stepboard.db"), []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	onFolder(t, dir, "restore", path).Fails(t, 1, "nobody knows who was erased", "file is not a database")
	restore(0, path, "--no-erasures")
	friends("10", "11")
	onFolder(t, dir, "restore", path, "--no-erasures", "--erasures=nix").Fails(t, 2, "no-erasures")
}
