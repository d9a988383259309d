package archive_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/migrations"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/platform/lease"
)

var errCrash = errors.New("the process has died")

// localDB is an SQLite database in a file, with a connection for writers and others for readers.
// crash makes it fail as it does for a process that dies.
type localDB struct {
	writer, reader *sql.DB

	mu     sync.Mutex
	passed int
	// crashAt is the number of the operation at which the process dies, 0 for never. Whether the
	// operation itself has an effect depends on the number. before is called before each
	// operation, without a transaction under way.
	crashAt int
	before  func()
}

// openLocalDB opens a database in a file, with the schema applied. options are pragmas.
func openLocalDB(t testing.TB, path string, options string) *localDB {
	t.Helper()
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_texttotime=1&_inttotime=1&_time_format=sqlite&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)" + options
	db := &localDB{writer: testenv.Must(sql.Open("sqlite", dsn)), reader: testenv.Must(sql.Open("sqlite", dsn+"&_pragma=query_only(1)"))}
	t.Cleanup(func() { db.reader.Close(); db.writer.Close() })
	db.writer.SetMaxOpenConns(1)
	db.reader.SetMaxOpenConns(4)
	if _, err := testenv.Must(migrations.New(t.Context(), db.writer, migrations.SQLite)).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// gorm returns what a service uses.
func (db *localDB) gorm() *gorm.DB {
	return testenv.Must(gorm.Open(sqlite.New(sqlite.Config{Conn: db}), &gorm.Config{
		SkipDefaultTransaction: true, TranslateError: true, QueryFields: true, DisableAutomaticPing: true, Logger: logger.Discard,
		NowFunc: func() time.Time { return time.Now().UTC() },
	}))
}

// pass returns an error instead of an operation, or after it has had its effect.
func (db *localDB) pass(inTransaction bool) (before, after error) {
	db.mu.Lock()
	db.passed++
	dies, dead := db.passed == db.crashAt, db.crashAt > 0 && db.passed > db.crashAt
	hook := db.before
	db.mu.Unlock()
	switch {
	case dead, dies && db.passed%2 == 0:
		return errCrash, nil
	case dies:
		return nil, errCrash
	case hook != nil && !inTransaction:
		hook()
	}
	return nil, nil
}

// arm sets what happens from now on.
func (db *localDB) arm(crashAt int, before func()) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.passed, db.crashAt, db.before = 0, crashAt, before
}

func (db *localDB) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	return nil, errors.New("nothing is prepared")
}

func (db *localDB) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	before, after := db.pass(false)
	if before != nil {
		return nil, before
	}
	result, err := db.writer.ExecContext(ctx, query, args...)
	return result, errors.Join(err, after)
}

// QueryContext implements gorm.ConnPool. An INSERT that returns ids is for the writer.
func (db *localDB) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	before, after := db.pass(false)
	if err := errors.Join(before, after); err != nil {
		return nil, err
	}
	if query[:6] == "INSERT" {
		return db.writer.QueryContext(ctx, query, args...)
	}
	return db.reader.QueryContext(ctx, query, args...)
}

func (db *localDB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	before, after := db.pass(false)
	if errors.Join(before, after) != nil {
		dead, cancel := context.WithCancel(ctx)
		cancel()
		ctx = dead
	}
	return db.reader.QueryRowContext(ctx, query, args...)
}

func (db *localDB) BeginTx(ctx context.Context, options *sql.TxOptions) (gorm.ConnPool, error) {
	before, after := db.pass(false)
	if err := errors.Join(before, after); err != nil {
		return nil, err
	}
	tx, err := db.writer.BeginTx(ctx, options)
	return &localTx{Tx: tx, db: db}, err
}

// localTx is a transaction of a localDB.
type localTx struct {
	*sql.Tx
	db *localDB
}

func (tx *localTx) Commit() error {
	before, after := tx.db.pass(true)
	if before != nil {
		return errors.Join(before, tx.Rollback())
	}
	return errors.Join(tx.Tx.Commit(), after)
}

// memory counts the buckets that were dropped.
type memory struct {
	board.Entries
	dropped map[string]int
	onDrop  func()
}

func (m *memory) Drop(b *models.Bucket) {
	if m.dropped[b.Name]++; m.onDrop != nil {
		m.onDrop()
	}
}

func (m *memory) Settle(context.Context) error { return nil }

// localFixture is an archive on an SQLite database that also has the hot scores.
type localFixture struct {
	t      testing.TB
	db     *localDB
	clock  *testenv.Clock
	memory *memory
	order  models.Order
	bucket *models.Bucket
}

func newLocalFixture(t testing.TB, folder, options string) *localFixture {
	t.Helper()
	return newOrderedFixture(t, folder, options, models.OrderHigh)
}

// newOrderedFixture is newLocalFixture with an order of the board.
func newOrderedFixture(t testing.TB, folder, options string, order models.Order) *localFixture {
	t.Helper()
	f := &localFixture{
		t: t, order: order, db: openLocalDB(t, filepath.Join(folder, "stepboard.db"), options), clock: testenv.NewClock(testenv.Noon),
		memory: &memory{dropped: make(map[string]int)},
	}
	f.bucket = f.today()
	return f
}

// today returns the bucket of the current day.
func (f *localFixture) today() *models.Bucket {
	f.t.Helper()
	c := catalog.New(catalog.NewStore(f.db.gorm()), f.clock.Now, 3, testenv.Log())
	defaults := config.Default()
	def := defaults.BoardDefinitions()[0]
	def.Order = f.order
	if err := c.Definitions.Define(f.t.Context(), []models.Board{def}); err != nil {
		f.t.Fatal(err)
	}
	b := testenv.Must(c.Definitions.Board("steps"))
	return testenv.Must(c.Buckets.ForUpload(f.t.Context(), b, b.Today(f.clock.Now()), f.clock.Now()))
}

// open returns a service of a new process.
func (f *localFixture) open() *archive.Service {
	f.t.Helper()
	s := archive.New(archive.NewStore(archive.StoreOptions{Runs: f.db.gorm()}), archive.FromTable(f.memory), lease.NewLocal(), f.clock.Now, testenv.Log())
	f.t.Cleanup(s.Close)
	return s
}

// openSmall is open for a service that reads and writes few rows at a time.
func (f *localFixture) openSmall(db *gorm.DB) *archive.Service {
	f.t.Helper()
	store := archive.NewStore(archive.StoreOptions{Runs: db})
	store.SetSizes(7, 11, 13, 17)
	s := archive.New(store, archive.FromTable(f.memory), lease.NewLocal(), f.clock.Now, testenv.Log())
	f.t.Cleanup(s.Close)
	return s
}

const raiseHot = `INSERT INTO hot_scores (board, bucket, user_id, composite) VALUES (?, ?, ?, ?)
	ON CONFLICT DO UPDATE SET composite = excluded.composite WHERE excluded.composite > hot_scores.composite`

// raise stores entries as uploads do.
func (f *localFixture) raise(b *models.Bucket, entries ...models.Entry) {
	f.t.Helper()
	tx := testenv.Must(f.db.writer.BeginTx(f.t.Context(), nil))
	for _, e := range entries {
		if _, err := tx.ExecContext(f.t.Context(), raiseHot, b.Board, b.Name, e.User, e.Composite); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		f.t.Fatal(err)
	}
}

// count returns what a query counts.
func (f *localFixture) count(query string) (n int64) {
	f.t.Helper()
	if err := f.db.reader.QueryRowContext(f.t.Context(), query).Scan(&n); err != nil {
		f.t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}
