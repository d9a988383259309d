package crash_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// recordCommand records a command, which must succeed, and changes files in a folder.
func recordCommand(t *testing.T, root string, args ...string) (before *disk, r *recording) {
	t.Helper()
	before = readDisk(t, root)
	trace := filepath.Join(t.TempDir(), "trace")
	command := append(append(strace(trace), testenv.Binary()), args...)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) // strace keeps its output open until it has ended
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return before, record(t, trace, root, new(cutLoad))
}

// The power is cut while a backup is restored. The folder has the replaced database, or the restored
// one, complete, and this one when the command has said so.
func TestSoakPowerCutOfARestore(t *testing.T) {
	needStrace(t)
	t.Parallel()
	from, backup, _ := folderToRestore(t)
	root := t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "data"), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	d, r := recordCommand(t, root, "restore", backup, "--data="+filepath.Join(root, "data"))
	for c := range r.cuts(t, randomly(t), d, testenv.Rounds(30, 2000)) {
		if got := knownUsers(t, filepath.Join(c.root, "data")); got != "11 12 13 9" && got != "11 9" {
			t.Fatalf("the power is cut at line %d of %d: the users are %s", c.line, r.lines, got)
		}
	}
	d.checkNow(t)
	after := t.TempDir()
	if err := d.cut(randomly(t), after); err != nil {
		t.Fatal(err)
	}
	if got := knownUsers(t, filepath.Join(after, "data")); got != "11 9" {
		t.Errorf("after the restore the users are %s", got)
	}
}

// knownUsers opens a data folder and returns its users.
func knownUsers(t *testing.T, dir string) (users string) {
	t.Helper()
	st, err := stores.OpenFolder(t.Context(), dir, time.Now)
	if err != nil {
		return err.Error()
	}
	var whole string
	row := st.SQL.QueryRowContext(t.Context(), "SELECT integrity_check, (SELECT group_concat(external_id, ' ' ORDER BY external_id) FROM users) FROM pragma_integrity_check")
	if err := row.Scan(&whole, &users); err != nil || whole != "ok" {
		t.Errorf("%s, %v", whole, err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
	return users
}

// The power is cut while a backup is written. The file is complete or as it was before, and complete
// when the command has said so.
func TestSoakPowerCutOfABackup(t *testing.T) {
	needStrace(t)
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	path := filepath.Join(root, "backup")
	run(t, "import", "friends", friendsFile(t, "9 10\n"), "--data="+dir)
	run(t, "backup", path, "--data="+dir)
	old := testenv.Must(os.ReadFile(path))
	run(t, "import", "friends", friendsFile(t, "9 11\n"), "--data="+dir)
	d, r := recordCommand(t, root, "backup", path, "--data="+dir)
	for c := range r.cuts(t, randomly(t), d, testenv.Rounds(30, 2000)) {
		left := filepath.Join(c.root, "backup")
		if !bytes.Equal(testenv.Must(os.ReadFile(left)), old) {
			checkBackup(t, left)
		}
	}
	d.checkNow(t)
	after := t.TempDir()
	if err := d.cut(randomly(t), after); err != nil {
		t.Fatal(err)
	}
	checkBackup(t, filepath.Join(after, "backup"))
}
