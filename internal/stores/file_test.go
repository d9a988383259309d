package stores_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gorm.io/gorm"
	"modernc.org/sqlite"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// folder opens a data folder of the test with the table numbers.
func folder(t *testing.T) *stores.Stores {
	t.Helper()
	s := open(t, t.TempDir())
	exec1(t, s.Database, "CREATE TABLE numbers (n integer PRIMARY KEY, filler blob)")
	return s
}

func exec1(t *testing.T, d stores.Database, query string, args ...any) {
	t.Helper()
	if _, err := d.SQL.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// insert inserts a number.
func insert(ctx context.Context, d stores.Database, n int) error {
	_, err := d.SQL.ExecContext(ctx, "INSERT INTO numbers VALUES (?, zeroblob(100))", n)
	return err
}

// fill inserts many numbers, a few hundred bytes each.
const fill = `WITH RECURSIVE more (n) AS (SELECT ? UNION ALL SELECT n + 1 FROM more LIMIT ?) INSERT INTO numbers SELECT n, zeroblob(300) FROM more`

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// numbers returns the answer to a query of whole numbers.
func numbers(t *testing.T, in queryer, query string) []int {
	t.Helper()
	rows, err := in.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

const all = "SELECT n FROM numbers ORDER BY n"

func equal(t *testing.T, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// In versions before 3.51.3 a checkpoint beside a writer could damage a database with a log.
func TestTheVersionOfSQLite(t *testing.T) {
	t.Parallel()
	s := folder(t)
	var version string
	if err := s.SQL.QueryRowContext(t.Context(), "SELECT sqlite_version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	var parts [3]int
	for i, text := range strings.Split(version, ".") {
		parts[i] = testenv.Must(strconv.Atoi(text))
	}
	if slices.Compare(parts[:], []int{3, 51, 3}) < 0 {
		t.Errorf("SQLite is %s", version)
	}
}

// A commit is on the disk before it returns: the log is synced, and only this process has the file.
func TestSettingsOfAFile(t *testing.T) {
	t.Parallel()
	s := folder(t)
	tx := testenv.Must(s.SQL.BeginTx(t.Context(), nil))
	defer tx.Rollback() //nolint:errcheck // nothing was changed
	var mode string
	if err := tx.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Error(mode, err)
	}
	equal(t, numbers(t, tx, "PRAGMA synchronous"), 2)
	equal(t, numbers(t, tx, "PRAGMA journal_size_limit"), 16<<20)
}

// A transaction that only reads sees one state. It neither waits for what writes nor makes it wait,
// and can't write.
func TestASnapshot(t *testing.T) {
	t.Parallel()
	s := folder(t)
	exec1(t, s.Database, "INSERT INTO numbers (n) VALUES (1)")
	write := testenv.Must(s.SQL.BeginTx(t.Context(), nil))
	if _, err := write.ExecContext(t.Context(), "INSERT INTO numbers (n) VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	read := testenv.Must(s.Reports.SQL.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}))
	defer read.Rollback() //nolint:errcheck // nothing was changed
	equal(t, numbers(t, read, all), 1)
	equal(t, numbers(t, s.SQL, all), 1)
	if err := write.Commit(); err != nil {
		t.Fatal(err)
	}
	equal(t, numbers(t, read, all), 1)
	equal(t, numbers(t, s.SQL, all), 1, 2)
	_, err := read.ExecContext(t.Context(), "INSERT INTO numbers (n) VALUES (3)")
	if err == nil || models.CodeOf(err) == models.CodeUnavailable {
		t.Errorf("a write of a snapshot: %v", err)
	}
	if err := s.Ready(t.Context())["database"]; err != nil {
		t.Error(err)
	}
}

// Statements that change rows and return some are writes, also behind a WITH.
func TestWritesThatReturnRows(t *testing.T) {
	t.Parallel()
	s := folder(t)
	equal(t, numbers(t, s.SQL, "INSERT INTO numbers (n) VALUES (1), (2) RETURNING n"), 1, 2)
	equal(t, numbers(t, s.SQL, "\n\tUPDATE numbers SET n = n + 10 RETURNING n"), 11, 12)
	equal(t, numbers(t, s.SQL, "WITH given AS (SELECT 3 AS n) INSERT INTO numbers (n) SELECT n FROM given RETURNING n"), 3)
	equal(t, numbers(t, s.SQL, "WITH given AS (SELECT 3 AS n) SELECT n FROM given"), 3)
	equal(t, numbers(t, s.SQL, "DELETE FROM numbers WHERE n > 10 RETURNING n"), 11, 12)
	equal(t, numbers(t, s.SQL, all), 3)
	if err := s.Gorm.WithContext(t.Context()).Exec("INSERT INTO numbers (n) VALUES (3)").Error; !errors.Is(err, gorm.ErrDuplicatedKey) {
		t.Errorf("the same number again: %v", err)
	}
}

// The types of columns are those of the schema, by which true is told from 1.
func TestTypesOfColumns(t *testing.T) {
	t.Parallel()
	s := folder(t)
	rows := testenv.Must(s.SQL.QueryContext(t.Context(), "SELECT hidden, created_at FROM users"))
	defer rows.Close()
	if types := testenv.Must(rows.ColumnTypes()); types[0].DatabaseTypeName() != "BOOLEAN" || types[1].DatabaseTypeName() != "DATETIME" {
		t.Errorf("types %s and %s", types[0].DatabaseTypeName(), types[1].DatabaseTypeName())
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}

// cancels are functions that the SQL function cancel calls, by test.
var cancels sync.Map

var _ = sqlite.RegisterScalarFunction("cancel", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	if cancel, ok := cancels.Load(args[0]); ok {
		cancel.(context.CancelFunc)()
	}
	return int64(0), nil
})

// long takes a tenth of a second or so, and calls cancel when it begins.
const long = `WITH RECURSIVE more (n) AS (SELECT cancel(?) UNION ALL SELECT n + 1 FROM more LIMIT 300000)`

// cancelled returns a context that the SQL function cancel cancels.
func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cancels.Store(t.Name(), cancel)
	return ctx
}

// A client that goes away does not end a write that has begun.
func TestAWriteIsNotInterrupted(t *testing.T) {
	t.Parallel()
	s := folder(t)
	if _, err := s.SQL.ExecContext(cancelled(t), long+` INSERT INTO numbers (n) SELECT n FROM more`, t.Name()); err != nil {
		t.Error(err)
	}
	equal(t, numbers(t, s.SQL, "SELECT count(*) FROM numbers"), 300_000)
}

// A read ends with its caller, and leaves its connection usable.
func TestAReadIsInterrupted(t *testing.T) {
	t.Parallel()
	s := folder(t)
	for range 10 { // more than there are connections
		var n int
		err := s.SQL.QueryRowContext(cancelled(t), long+` SELECT max(n + m) FROM more, (SELECT n AS m FROM more)`, t.Name()).Scan(&n)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	equal(t, numbers(t, s.SQL, "SELECT 1"), 1)
}

// A transaction that is cancelled is rolled back, and the next one writes.
func TestACancelledTransaction(t *testing.T) {
	t.Parallel()
	s := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	tx := testenv.Must(s.SQL.BeginTx(ctx, nil))
	if _, err := tx.ExecContext(ctx, "INSERT INTO numbers (n) VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := insert(t.Context(), s.Database, 2); err != nil {
		t.Fatal(err)
	}
	equal(t, numbers(t, s.SQL, all), 2)
}

// inBubble calls test with a data folder in a bubble, in which nobody waits for real.
func inBubble(t *testing.T, test func(t *testing.T, s *stores.Stores)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := stores.OpenFolder(t.Context(), dir, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		exec1(t, s.Database, "CREATE TABLE numbers (n integer PRIMARY KEY, filler blob)")
		test(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Increments go before calls, and these before jobs, in the order in which they came.
func TestTheOrderOfWrites(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stores.Stores) {
		holder := testenv.Must(s.SQL.BeginTx(t.Context(), nil))
		var order []string
		for _, work := range []string{"archive", "jobs", "friends", "increments 1", "lookups", "increments 2"} {
			database := map[string]stores.Database{
				"increments 1": s.Increments, "increments 2": s.Increments, "friends": s.Friends, "lookups": s.Database,
				"jobs": s.Jobs, "archive": s.Archive,
			}[work]
			go func() {
				tx := testenv.Must(database.SQL.BeginTx(t.Context(), nil))
				order = append(order, work)
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if err := holder.Commit(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := []string{"increments 1", "increments 2", "friends", "lookups", "archive", "jobs"}; !slices.Equal(order, want) {
			t.Errorf("the order was %q, want %q", order, want)
		}
	})
}

// Jobs are not kept from writing by uploads that never end.
func TestWhoHasWaitedLongGoesFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stores.Stores) {
		holder := testenv.Must(s.SQL.BeginTx(t.Context(), nil))
		done := make(chan error, 1)
		go func() { done <- insert(t.Context(), s.Jobs, 1) }()
		for n := 0; len(done) == 0; n++ {
			if n > 10 {
				t.Fatal("the job still waits")
			}
			next := make(chan *sql.Tx, 1)
			go func() { next <- testenv.Must(s.Increments.SQL.BeginTx(t.Context(), nil)) }()
			synctest.Wait()
			time.Sleep(time.Second) //nolint:forbidigo // of the bubble
			if err := holder.Commit(); err != nil {
				t.Fatal(err)
			}
			holder = <-next
		}
		if err := errors.Join(<-done, holder.Commit()); err != nil {
			t.Error(err)
		}
	})
}

// Calls wait for two seconds and jobs for ten. Who goes away waits no longer.
func TestThePatienceOfWrites(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stores.Stores) {
		holder := testenv.Must(s.SQL.BeginTx(t.Context(), nil))
		for _, tt := range []struct {
			work stores.Database
			want time.Duration
		}{{s.Increments, 2 * time.Second}, {s.Friends, 2 * time.Second}, {s.Jobs, 10 * time.Second}} {
			began := time.Now()
			err := insert(t.Context(), tt.work, 1)
			if waited := time.Since(began); !errors.Is(err, stores.ErrBusy) || models.CodeOf(err) != models.CodeUnavailable || waited != tt.want {
				t.Errorf("waited for %v: %v", waited, err)
			}
			if err := tt.work.Busy(); !errors.Is(err, stores.ErrBusy) {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := insert(ctx, s.Jobs, 1); !errors.Is(err, context.DeadlineExceeded) || s.Archive.Busy() != nil {
			t.Error(err)
		}
		// Reads don't wait for it.
		equal(t, numbers(t, s.SQL, all))
		if err := errors.Join(holder.Rollback(), insert(t.Context(), s.Database, 1)); err != nil {
			t.Error(err)
		}
	})
}

// Reports that take long keep only each other waiting.
func TestReportsDoNotHoldCallsUp(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stores.Stores) {
		var reports []*sql.Tx
		for range 2 {
			tx := testenv.Must(s.Reports.SQL.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}))
			equal(t, numbers(t, tx, all))
			reports = append(reports, tx)
		}
		if err := s.Reports.SQL.PingContext(t.Context()); !errors.Is(err, stores.ErrBusy) {
			t.Errorf("a third report: %v", err)
		}
		equal(t, numbers(t, s.SQL, all))
		if err := errors.Join(insert(t.Context(), s.Jobs, 1), s.Analyze(t.Context(), "numbers")); err != nil {
			t.Error(err)
		}
		for _, tx := range reports {
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
	})
}

// While a file can't be written, calls are unavailable and the service is not ready. Nothing that
// was acknowledged is lost, and all is well again without a restart.
func TestAFileThatCanNotBeWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, begin, end string }{
		{"full", "PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"}, // it is at least as large as the file
		{"read-only", "PRAGMA query_only = 1", "PRAGMA query_only = 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := folder(t)
			exec1(t, s.Database, fill, 1, 10)
			exec1(t, s.Database, tt.begin)
			_, err := s.SQL.ExecContext(t.Context(), fill, 100, 1000)
			if models.CodeOf(err) != models.CodeUnavailable {
				t.Errorf("a statement: %v", err)
			}
			// A caller that overlooks the error commits nothing.
			tx, err := s.SQL.BeginTx(t.Context(), nil)
			if err == nil {
				_, _ = tx.ExecContext(t.Context(), fill, 200, 1000)
				_, err = tx.ExecContext(t.Context(), "DELETE FROM numbers")
				err = errors.Join(err, tx.Commit())
			}
			if models.CodeOf(err) != models.CodeUnavailable {
				t.Errorf("a transaction: %v", err)
			}
			for range 2 {
				if err := s.Ready(t.Context())["database"]; err == nil || !strings.Contains(err.Error(), "stepboard.db: ") {
					t.Errorf("ready: %v", err)
				}
			}
			equal(t, numbers(t, s.SQL, "SELECT count(*) FROM numbers"), 10)
			exec1(t, s.Database, tt.end)
			if err := s.Ready(t.Context())["database"]; err != nil {
				t.Error(err)
			}
			exec1(t, s.Database, fill, 100, 1000)
			equal(t, numbers(t, s.SQL, "SELECT count(*) FROM numbers"), 1010)
			equal(t, numbers(t, s.SQL, "SELECT count(*) FROM sqlite_schema WHERE name = 'write_probe'"), 0)
		})
	}
}

func TestADatabaseOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	exec1(t, s.Database, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	contains(t, refused(t, dir), "was written by a newer version: its schema is at version 9999 and this binary knows ")
	testenv.Must(stores.LockFolder(dir)).Close() // it is not locked any more
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stepboard.db"), []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, refused(t, dir), "can't be opened: file is not a database")
}

// copied returns a folder with the database and its log as they are now.
func copied(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"stepboard.db", "stepboard.db-wal"} {
		if err := os.WriteFile(filepath.Join(dir, name), testenv.Must(os.ReadFile(filepath.Join(from, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A commit of which only a part, or something else, has reached the log is forgotten. Those before
// it, which were acknowledged, are there.
func TestATornLog(t *testing.T) {
	t.Parallel()
	s := folder(t)
	for n := range 20 {
		if err := insert(t.Context(), s.Database, n); err != nil {
			t.Fatal(err)
		}
	}
	_, acknowledged := s.FileSizes()
	if err := insert(t.Context(), s.Database, 99); err != nil {
		t.Fatal(err)
	}
	from := copied(t, s.Folder.Dir)
	whole := testenv.Must(os.ReadFile(filepath.Join(from, "stepboard.db-wal")))
	garbled := slices.Concat(whole[:len(whole)-100], bytes.Repeat([]byte("x"), 100))
	if int64(len(whole)) <= acknowledged {
		t.Fatalf("the log has %d bytes, and had %d before", len(whole), acknowledged)
	}
	for name, log := range map[string][]byte{
		"cut in the header": whole[:acknowledged+10], "cut in the page": whole[:len(whole)-1], "cut between": whole[:acknowledged],
		"garbled": garbled, "garbled and cut": garbled[:len(garbled)-50],
	} {
		dir := copied(t, from)
		if err := os.WriteFile(filepath.Join(dir, "stepboard.db-wal"), log, 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir)
		if got := numbers(t, again.SQL, all); len(got) != 20 || got[19] != 19 {
			t.Errorf("%s: %v", name, got)
		}
		var answer string
		if err := again.SQL.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
	}
}

// The log grows behind a reader, and is empty after that. A checkpoint does not wait for it.
func TestTheLogBehindALongReader(t *testing.T) {
	t.Parallel()
	s := folder(t)
	read := testenv.Must(s.Reports.SQL.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}))
	equal(t, numbers(t, read, all))
	for i := range 4 {
		exec1(t, s.Database, fill, i*20_000, 20_000)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	if database, log := s.FileSizes(); log < 20<<20 || database > log {
		t.Errorf("behind a reader the database has %d bytes and its log %d", database, log)
	}
	if err := errors.Join(read.Rollback(), s.Checkpoint(t.Context())); err != nil {
		t.Error(err)
	}
	if database, log := s.FileSizes(); log != 0 || database < 20<<20 {
		t.Errorf("the database has %d bytes and its log %d", database, log)
	}
}

// childFolder names the folder of a process that commits.
const childFolder = "STEPBOARD_TEST_FOLDER"

// TestCommitting is not a test: it commits numbers until it is killed, and writes each when it is
// committed. TestAKilledProcess starts it.
func TestCommitting(t *testing.T) {
	dir := os.Getenv(childFolder)
	if dir == "" {
		return
	}
	s := open(t, dir)
	exec1(t, s.Database, "CREATE TABLE IF NOT EXISTS numbers (n integer PRIMARY KEY, filler blob)")
	first := numbers(t, s.SQL, "SELECT coalesce(max(n), 0) FROM numbers")[0]
	for n := first + 1; ; n++ {
		if err := insert(t.Context(), s.Increments, n); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\ncommitted %d\n", n) //nolint:forbidigo // the test reads it
	}
}

// What a process has acknowledged is there after it was killed. While it lives, nobody else gets its
// folder.
func TestAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 5 {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCommitting$")
		process.Env = append(os.Environ(), childFolder+"="+dir)
		out := testenv.Must(process.StdoutPipe())
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		last, commits := 0, 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "committed "); ok {
				last = testenv.Must(strconv.Atoi(text))
				commits++
			}
			if commits == 200 {
				if err := refused(t, dir); !errors.Is(err, stores.ErrFolderInUse) {
					t.Error(err)
				}
				if err := process.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				commits++
			}
		}
		if err := process.Wait(); err == nil || last == 0 {
			t.Fatalf("it ended by itself, after %d", last)
		}
		s := open(t, dir)
		if got := numbers(t, s.SQL, all); len(got) < last || got[len(got)-1] != len(got) {
			t.Errorf("%d numbers up to %d, and %d was acknowledged", len(got), got[len(got)-1], last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
