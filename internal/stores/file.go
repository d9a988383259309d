package stores

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gormsqlite "github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"modernc.org/sqlite"

	"stepboard/migrations"
	"stepboard/models"
)

const (
	// callReaders and jobReaders are how many connections read for calls, and for reports, jobs and
	// the archive, whose statements take longer.
	callReaders = 4
	jobReaders  = 2
)

// Settings of connections to a file. Times are read and stored as in memory, by
// github.com/libtnb/sqlite.
const (
	// Only a program of the operator, beside this process, makes anybody wait.
	busyTimeout = "PRAGMA busy_timeout(5000)"
	// What is sorted stays in memory: nothing of the folder is written elsewhere, and /tmp may not
	// exist.
	commonSettings = "_error_rc=1&_inttotime=1&_texttotime=1&_time_format=sqlite&_pragma=busy_timeout(5000)&_pragma=temp_store(memory)"
	// A commit is on the disk. The log is moved into the database after each 1,000 pages of 4 KB,
	// and its file keeps keptLog bytes after that. ANALYZE reads a part of each index.
	anyWriterSettings = commonSettings + "&_pragma=journal_mode(wal)&_pragma=synchronous(full)" +
		"&_pragma=journal_size_limit(16777216)&_pragma=cache_size(-32768)"
	writerSettings = anyWriterSettings + "&_pragma=wal_autocheckpoint(1000)"
	// If somebody reads the log, only Checkpoint and bound move it.
	shipsSettings  = anyWriterSettings + "&_pragma=wal_autocheckpoint(0)"
	readerSettings = commonSettings + "&_pragma=query_only(1)&_pragma=cache_size(-8192)"
)

// file is an SQLite database in a file. One connection writes, so that no transaction fails because
// of another, and others read meanwhile.
type file struct {
	path                   string
	writer, calls, reports *conns
	// failure is the latest error of reading or writing the file, until it is written again.
	failure atomic.Pointer[error]

	// reader reads the log, and committed is called after each commit; nil for nobody and nothing.
	reader    atomic.Pointer[LogReader]
	committed atomic.Pointer[func(writer *fileConn)]
	// checkpointing is held during a checkpoint of Checkpoint, and moving while the file of the database
	// changes. The second may be waited for with the connection that writes, and the first not.
	checkpointing sync.Mutex
	moving        sync.RWMutex
	// limit is the size of the log behind the last checkpoint of bound.
	limit atomic.Int64
	// descriptors of the database are closed after all connections: that removes SQLite's locks.
	descriptors []*os.File
}

// openFile opens a database, which connects at its first use.
func openFile(path string, ships bool) *file {
	f := &file{path: path}
	writer := writerSettings
	if ships {
		writer = shipsSettings
	}
	connections := func(n int, settings string) *conns {
		return &conns{free: make([]*fileConn, n), open: func(ctx context.Context) (*fileConn, error) { return connect(ctx, f.url(settings)) }}
	}
	f.writer = connections(1, writer)
	f.calls, f.reports = connections(callReaders, readerSettings), connections(jobReaders, readerSettings)
	return f
}

// url returns the name of the database for a connection with some settings.
func (f *file) url(settings string) string {
	path := filepath.ToSlash(f.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive's letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: settings}).String()
}

// close closes the connections. The last one moves the log into the database.
func (f *file) close() error {
	err := errors.Join(f.calls.close(callReaders), f.reports.close(jobReaders), f.writer.close(1))
	for _, database := range f.descriptors {
		err = errors.Join(err, database.Close())
	}
	return err
}

// openWorks opens the connections of each kind of work to a file.
func (s *Stores) openWorks(clock models.Clock) error {
	calls, reports := s.file.calls, s.file.reports
	for _, work := range []struct {
		database *Database
		readers  *conns
		priority priority
		patience time.Duration
	}{
		{&s.Increments, calls, priorityIncrements, patience},
		{&s.Friends, calls, priorityCalls, patience},
		{&s.Database, calls, priorityCalls, patience},
		{&s.Reports, reports, priorityCalls, patience},
		{&s.Jobs, reports, priorityJobs, jobPatience},
		{&s.Archive, reports, priorityJobs, jobPatience},
		{&s.Probes, calls, priorityCalls, patience},
	} {
		d := work.database
		d.refusedAt = new(atomic.Int64)
		d.SQL = sql.OpenDB(&fileConnector{
			file: s.file, readers: work.readers, priority: work.priority, patience: work.patience, refusedAt: d.refusedAt,
		})
		var err error
		if d.Gorm, err = openGorm(gormsqlite.New(gormsqlite.Config{Conn: d.SQL}), clock); err != nil {
			return err
		}
	}
	return nil
}

// connect opens a connection.
func connect(ctx context.Context, name string) (*fileConn, error) {
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &fileConn{Conn: conn, prepared: make(map[string]driver.Stmt)}, nil
}

// readyFile reads the file, and writes it if it could not be used before. It returns the error, if any.
func (s *Stores) readyFile(ctx context.Context) error {
	if s.file.failure.Load() == nil {
		return s.Probes.SQL.PingContext(ctx)
	}
	// More pages are needed for the table, and written to the log.
	err := s.Probes.Gorm.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		err := tx.Exec("CREATE TABLE write_probe AS SELECT zeroblob(65536) AS bytes").Error
		return cmp.Or(err, tx.Exec("DROP TABLE write_probe").Error)
	})
	if err == nil {
		s.file.failure.Store(nil)
	}
	return err
}

// FileSizes returns the sizes of the folder's database and of the file of its write-ahead log, in bytes.
func (s *Stores) FileSizes() (database, log int64) { return sizeOf(s.file.path), s.file.logSize() }

func (f *file) logSize() int64 { return sizeOf(f.path + "-wal") }

// sizeOf returns the size of a file, 0 if there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// use calls do with a connection. For the one that writes it waits as uploads do: others would wait for
// longer later.
func (f *file) use(ctx context.Context, from *conns, do func(*fileConn) error) error {
	conn, err := from.take(ctx, priorityIncrements, jobPatience)
	if err != nil {
		return f.failed(err)
	}
	defer from.put(conn)
	return f.failed(do(conn))
}

// OpenFolder locks a data folder, as LockFolder does, and opens its database, with the schema
// applied. The Stores have no Redis. Closing them unlocks the folder. Its errors are one line for
// people; a database that was written by a newer version is one of them.
func OpenFolder(ctx context.Context, dir string, clock models.Clock) (*Stores, error) {
	f, err := LockFolder(dir)
	if err != nil {
		return nil, err
	}
	s, err := f.Open(ctx, clock)
	if err != nil {
		f.Close()
	}
	return s, err
}

// Open is OpenFolder for a folder that is locked already. After an error it is still locked.
func (f *Folder) Open(ctx context.Context, clock models.Clock) (*Stores, error) {
	s, err := f.open(ctx, clock)
	if err != nil {
		return nil, fmt.Errorf("data folder %s %w", f.Dir, err)
	}
	return s, nil
}

// open is Open with errors that do not name the folder.
func (f *Folder) open(ctx context.Context, clock models.Clock) (*Stores, error) {
	s := &Stores{Dialect: migrations.SQLite, Folder: f, file: openFile(f.Path(databaseFile), f.Ships)}
	s.closeServers = func() { //nolint:contextcheck // it is called when ctx has ended
		if s.file.close() == nil { // otherwise the end of the process unlocks it
			f.Close()
		}
	}
	if err := s.prepareFile(ctx, clock); err != nil {
		s.closeServers = func() { _ = s.file.close() } //nolint:contextcheck // as above
		_ = s.Close()
		var refused *sqlite.Error
		if errors.As(err, &refused) {
			err = fmt.Errorf("can't be opened: %w", refused)
		}
		return nil, err
	}
	return s, nil
}

// prepareFile opens the connections to the file and applies the schema.
func (s *Stores) prepareFile(ctx context.Context, clock models.Clock) error {
	if err := s.openWorks(clock); err != nil {
		return err
	}
	current, newest, err := s.SchemaVersions(ctx)
	if err != nil {
		return err
	}
	if current > newest {
		return newerVersion(current, newest)
	}
	_, err = s.Migrate(ctx)
	return err
}

// newerVersion returns the error of a database that is ahead of this binary.
func newerVersion(current, newest int64) error {
	return fmt.Errorf("was written by a newer version: its schema is at version %d and this binary knows %d", current, newest)
}

// OpenMemory opens a database in the memory of this process, with the schema applied. The Stores
// have no Redis. All data is lost when they close.
func OpenMemory(ctx context.Context, clock models.Clock) (*Stores, error) {
	s, err := openMemory(ctx, clock)
	if err != nil {
		return nil, err
	}
	if _, err := s.Migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// openMemory opens a database in memory, without a schema. It exists as long as it has a connection:
// held is one for that, because a cancelled transaction closes its own. The other connection runs all
// statements, one at a time.
func openMemory(ctx context.Context, clock models.Clock) (s *Stores, err error) {
	defer func() { err = models.Wrap("open database in memory", err) }()
	// Connections of the same name reach the same database.
	g, err := openGorm(gormsqlite.Open("file:"+rand.Text()+"?mode=memory&cache=shared"), clock)
	if err != nil {
		return nil, err
	}
	db, err := g.DB()
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(2)
	held, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	work := Database{Gorm: g, SQL: db}
	return &Stores{
		Dialect:  migrations.SQLite,
		Database: work, Friends: work, Increments: work, Reports: work, Jobs: work, Archive: work, Probes: work,
		closeServers: func() { held.Close() }, // the error says that the database has closed it
	}, nil
}
