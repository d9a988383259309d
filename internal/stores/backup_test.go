package stores_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/migrations"
)

// backUp writes a backup of a folder into a folder of its own.
func backUp(t *testing.T, s *stores.Stores) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "stepboard.db")
	err := s.Backup(t.Context(), func(copied *os.File) error {
		if mode := testenv.Must(copied.Stat()).Mode(); mode != 0o600 {
			t.Errorf("mode %v", mode)
		}
		var text bytes.Buffer
		if _, err := stores.Copy(t.Context(), &text, copied, func(int64) {}); err != nil {
			return err
		}
		return os.WriteFile(path, text.Bytes(), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// names returns what is in a folder, one after another.
func names(t *testing.T, dir string) string {
	t.Helper()
	return fmt.Sprint(testenv.Must(fs.Glob(os.DirFS(dir), "*")))
}

// A backup has what was committed when it began, and is a database by itself. Nothing of it is left in
// the folder.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := folder(t)
	exec1(t, s.Database, fill, 1, 5000)
	done := make(chan string, 1)
	go func() { done <- backUp(t, s) }()
	for n := range 100 {
		if err := insert(t.Context(), s.Database, -n); err != nil {
			t.Error(err)
		}
	}
	path := testenv.Receive(t, "the backup is made", done)
	equal(t, numbers(t, open(t, filepath.Dir(path)).SQL, "SELECT count(*) FROM numbers WHERE n > 0"), 5000)
	backUp(t, s)
	if got := names(t, s.Folder.Dir); got != "[lock stepboard.db stepboard.db-shm stepboard.db-wal]" {
		t.Errorf("the folder has %s", got)
	}
}

// There is one backup at a time, and one that fails or is interrupted leaves nothing.
func TestABackupThatFails(t *testing.T) {
	t.Parallel()
	s := folder(t)
	exec1(t, s.Database, fill, 1, 10_000)
	failure := errors.New("the file can't be written")
	err := s.Backup(t.Context(), func(*os.File) error {
		if err := s.Backup(t.Context(), nil); !errors.Is(err, stores.ErrBackupRuns) {
			t.Errorf("a second one: %v", err)
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Backup(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if got := names(t, s.Folder.Dir); strings.Contains(got, "unfinished") {
		t.Errorf("the folder has %s", got)
	}
	backUp(t, s)
}

// A copy that is damaged is no backup.
func TestADamagedDatabaseIsNotBackedUp(t *testing.T) {
	t.Parallel()
	s := folder(t)
	exec1(t, s.Database, "CREATE TABLE small (n integer CHECK (n < 5))")
	exec1(t, s.Database, "PRAGMA ignore_check_constraints = 1")
	exec1(t, s.Database, "INSERT INTO small VALUES (5)")
	err := s.Backup(t.Context(), func(*os.File) error { t.Error("used"); return nil })
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error %v", err)
	}
}

// restored puts a backup in place of a locked folder's database.
func restored(t *testing.T, f *stores.Folder, path string) error {
	t.Helper()
	s, err := f.Prepare(t.Context(), testenv.NewClock(testenv.Noon).Now, path, stores.FromBackup(path, func(int64) {}))
	if err != nil {
		return errors.Join(err, f.Discard())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Replace()
}

// fillUsers inserts many users, a few hundred bytes each.
const fillUsers = `WITH RECURSIVE more (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM more LIMIT ?)
	INSERT INTO users (external_id, created_at) SELECT n || hex(zeroblob(150)), '2026-11-20 00:00:00' FROM more`

// changedBackup returns a backup of a folder after a change of its database.
func changedBackup(t *testing.T, statements ...string) []byte {
	t.Helper()
	s := open(t, t.TempDir())
	exec1(t, s.Database, fillUsers, 1, 9)
	for _, statement := range statements {
		exec1(t, s.Database, statement)
	}
	return testenv.Must(os.ReadFile(backUp(t, s)))
}

// What a restore can't use is refused in one line, and the folder is as it was.
func TestWhatIsNotRestored(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	exec1(t, s.Database, fillUsers, 1, 5000)
	good := testenv.Must(os.ReadFile(backUp(t, s)))
	exec1(t, s.Database, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	newer := testenv.Must(os.ReadFile(backUp(t, s)))
	damaged := bytes.Clone(good)
	copy(damaged[len(damaged)-40_000:], bytes.Repeat([]byte("x"), 20_000))
	into := open(t, t.TempDir())
	exec1(t, into.Database, "CREATE TABLE numbers (n integer PRIMARY KEY, filler blob)")
	if err := errors.Join(insert(t.Context(), into.Database, 7), into.Close()); err != nil {
		t.Fatal(err)
	}
	f := testenv.Must(stores.LockFolder(into.Folder.Dir))
	defer f.Close()
	for _, tt := range []struct {
		name string
		text []byte
		log  string
		want string
	}{
		{"a text", []byte(strings.Repeat("no database\n", 1000)), "", "is no SQLite database"},
		{"nothing", nil, "", "is no database of Stepboard"},
		{"a half", good[:len(good)/2], "", "is damaged"},
		{"damaged", damaged, "", "is damaged"},
		{"newer", newer, "", "was written by a newer version: its schema is at version 9999"},
		{"a trigger", changedBackup(t, "CREATE TRIGGER other AFTER INSERT ON likes BEGIN DELETE FROM users; END"), "", "has another schema than Stepboard"},
		{"another trigger", changedBackup(t, "DROP TRIGGER user_versions_follow", "CREATE TRIGGER user_versions_follow AFTER UPDATE ON users BEGIN DELETE FROM likes; END"), "", "has another schema than Stepboard"},
		{"without a trigger", changedBackup(t, "DROP TRIGGER user_versions_follow"), "", "has another schema than Stepboard"},
		{"a view for a table", changedBackup(t, "ALTER TABLE likes RENAME TO others", "CREATE VIEW likes AS SELECT * FROM others"), "", "has another schema than Stepboard"},
		{"a view for the versions", changedBackup(t, "ALTER TABLE goose_db_version RENAME TO versions", "CREATE VIEW goose_db_version AS SELECT * FROM versions"), "", "is no database of Stepboard"},
		{"a further table", changedBackup(t, "CREATE TABLE others (n integer)"), "", "has another schema than Stepboard"},
		{"another column", changedBackup(t, "ALTER TABLE likes RENAME COLUMN created_at TO made_at"), "", "has another schema than Stepboard"},
		{"an index less", changedBackup(t, "DROP INDEX users_name"), "", "has another schema than Stepboard"},
		{"an older version than it says", changedBackup(t, "DELETE FROM goose_db_version WHERE version_id > 3"), "", "has another schema than Stepboard"},
		{"no version", changedBackup(t, "DELETE FROM goose_db_version"), "", "is no database of Stepboard"},
		{"with a log", good, "-wal", "is no backup, but a database with a log"},
		{"with a journal", good, "-journal", "is no backup, but a database with a log"},
	} {
		path := filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(path, tt.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if tt.log != "" {
			if err := os.WriteFile(path+tt.log, []byte("log"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := restored(t, f, path)
		if err == nil || !strings.HasPrefix(err.Error(), path+" "+tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := names(t, f.Dir); got != "[lock stepboard.db]" {
			t.Errorf("%s: the folder has %s", tt.name, got)
		}
	}
	f.Close()
	equal(t, numbers(t, open(t, f.Dir).SQL, all), 7)
}

// A backup of an older version is restored, and has the present schema then.
func TestABackupOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup")
	db := testenv.Must(sql.Open("sqlite", "file:"+path))
	m := testenv.Must(migrations.New(t.Context(), db, migrations.SQLite))
	if err := m.UpTo(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	old := stores.Database{SQL: db}
	exec1(t, old, fillUsers, 1, 9)
	exec1(t, old, "ANALYZE")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f := testenv.Must(stores.LockFolder(t.TempDir()))
	if err := restored(t, f, path); err != nil {
		t.Fatal(err)
	}
	hasNine(t, f)
}

// Nothing of the files that SQLite kept beside the old database gets into the new one, and the folder
// stays locked.
func TestALogOfTheReplacedDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	exec1(t, s.Database, fillUsers, 1, 9)
	path := backUp(t, s)
	exec1(t, s.Database, fillUsers, 100, 5000)
	dir := copied(t, s.Folder.Dir) // as after a kill
	for _, suffix := range []string{"-shm", "-journal"} {
		if err := os.WriteFile(filepath.Join(dir, "stepboard.db"+suffix), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := testenv.Must(stores.LockFolder(dir))
	if err := restored(t, f, path); err != nil {
		t.Fatal(err)
	}
	hasNine(t, f)
}

// hasNine checks a folder that is still locked and has nothing but its database, with nine users. It
// closes the folder.
func hasNine(t *testing.T, f *stores.Folder) {
	t.Helper()
	if got := names(t, f.Dir); got != "[lock stepboard.db]" {
		t.Errorf("the folder has %s", got)
	}
	if err := refused(t, f.Dir); !errors.Is(err, stores.ErrFolderInUse) {
		t.Error(err)
	}
	f.Close()
	equal(t, numbers(t, open(t, f.Dir).SQL, "SELECT count(*) FROM users"), 9)
}

// The replaced database can be read first. Then its log is in it, so that it is complete without.
func TestTheReplacedDatabaseIsClosed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	exec1(t, s.Database, fillUsers, 1, 9)
	dir := copied(t, s.Folder.Dir)
	f := testenv.Must(stores.LockFolder(dir))
	old := testenv.Must(f.OpenReplaced(t.Context(), testenv.NewClock(testenv.Noon).Now))
	equal(t, numbers(t, old.SQL, "SELECT count(*) FROM users"), 9)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	hasNine(t, f)
}

// What a process that was killed has left of a copy goes when the folder is opened.
func TestACopyThatWasLeftGoes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "unfinished", "unfinished"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := names(t, open(t, dir).Folder.Dir); strings.Contains(got, "unfinished") {
		t.Errorf("the folder has %s", got)
	}
}
