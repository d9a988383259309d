package stores

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"stepboard/internal/failpoint"
	"stepboard/migrations"
	"stepboard/models"
)

// logs end the names of the files that SQLite keeps beside a database, and without which it is not
// complete; -shm is an index of -wal.
var logs = []string{"-wal", "-shm", "-journal"}

// ErrBackupRuns means that another backup of the folder is being made.
var ErrBackupRuns = errors.New("another backup is being made")

// HasDatabase reports whether a folder has a database that is not empty.
func HasDatabase(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, databaseFile))
	return err == nil && info.Size() > 0
}

// Keeps reports whether a data folder keeps its database, or something about it, in a file. Nothing
// else may be written there.
func Keeps(path string) bool {
	dir, name := filepath.Split(path)
	_, err := os.Stat(filepath.Join(dir, lockName))
	return err == nil && HasDatabase(dir) && (name == lockName || name == movedFile || name == movingFile || strings.HasPrefix(name, databaseFile))
}

// Discard removes the database that is being copied, if any.
func (f *Folder) Discard() error { return os.RemoveAll(f.Path(unfinishedFolder)) }

// Backup copies a folder's database as it is now, checks the copy, and calls use with it. Meanwhile
// everything else goes on, the log grows until the copy is complete, and the copy takes as much space
// in the folder as the database. It is removed in the end. ErrBackupRuns.
func (s *Stores) Backup(ctx context.Context, use func(copied *os.File) error) (err error) {
	if !s.copying.TryLock() {
		return ErrBackupRuns
	}
	defer s.copying.Unlock()
	defer func() { err = errors.Join(err, s.Folder.Discard()) }()
	path, err := s.Folder.newCopy()
	if err != nil {
		return err
	}
	if err := s.vacuumInto(ctx, path); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		return err
	}
	if err := checkCopy(ctx, path); err != nil {
		return fmt.Errorf("the copy %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(use(file), file.Close())
}

// newCopy makes an empty database in a folder of its own, and returns its path.
func (f *Folder) newCopy() (path string, err error) {
	dir := f.Path(unfinishedFolder)
	if err := errors.Join(f.Discard(), os.Mkdir(dir, 0o700)); err != nil {
		return "", err
	}
	path = filepath.Join(dir, databaseFile)
	return path, os.WriteFile(path, nil, 0o600)
}

func (s *Stores) vacuumInto(ctx context.Context, path string) error {
	// It needs a connection that may write, although it does not change the database.
	conn, err := connect(ctx, s.file.url(commonSettings))
	if err != nil {
		return err
	}
	_, err = conn.exec(ctx, "VACUUM INTO ?", []driver.NamedValue{{Ordinal: 1, Value: path}})
	return errors.Join(err, conn.Close())
}

// checkCopy returns an error if a database that nobody has open is damaged.
func checkCopy(ctx context.Context, path string) error {
	conn, err := connect(ctx, (&file{path: path}).url(readerSettings))
	var found []string
	if err == nil {
		defer conn.Close()
		found, err = conn.texts(ctx, "PRAGMA integrity_check(1)")
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return notStepboards(err)
	case found[0] != "ok":
		return fmt.Errorf("is damaged: %s", strings.Join(strings.Fields(found[0]), " "))
	}
	return nil
}

// schemaQuery lists what a database has: tables, indexes, views and triggers. What SQLite makes by
// itself, for sequences and statistics, is left out if it has the form that SQLite gives it.
const schemaQuery = `SELECT type || ' ' || name || ' of ' || tbl_name || ': ' || coalesce(sql, '') FROM sqlite_schema
	WHERE (name, sql) NOT IN (VALUES ('sqlite_sequence', 'CREATE TABLE sqlite_sequence(name,seq)'),
		('sqlite_stat1', 'CREATE TABLE sqlite_stat1(tbl,idx,stat)'),
		('sqlite_stat4', 'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)')) OR sql IS NULL
	ORDER BY 1`

// checkSchema returns an error unless a database that nobody has open has the schema that the
// migrations of its version make, and nothing else. It is called before any other statement can
// run what the file has: a trigger, a view in place of a table, or an expression of a column.
func checkSchema(ctx context.Context, clock models.Clock, path string) error {
	conn, err := connect(ctx, (&file{path: path}).url(readerSettings))
	if err != nil {
		return notStepboards(err)
	}
	defer conn.Close()
	has, err := conn.texts(ctx, schemaQuery)
	if err != nil {
		return notStepboards(err)
	}
	fresh, err := openMemory(ctx, clock)
	if err != nil {
		return err
	}
	defer fresh.Close()
	m, err := migrations.New(ctx, fresh.SQL, fresh.Dialect)
	if err != nil {
		return err
	}
	var wants []string
	_, newest, err := m.Status(ctx)
	if err == nil {
		err = fresh.Gorm.WithContext(ctx).Raw(schemaQuery).Scan(&wants).Error // the table of versions
	}
	if err != nil {
		return err
	}
	if len(wants) == 0 || missing(wants, has) != "" {
		return errNotStepboards
	}
	version, err := conn.version(ctx)
	if err != nil {
		return err
	}
	if version > newest {
		return newerVersion(version, newest)
	}
	if err = m.UpTo(ctx, version); err == nil {
		err = fresh.Gorm.WithContext(ctx).Raw(schemaQuery).Scan(&wants).Error
	}
	if err != nil {
		return err
	}
	if one := missing(has, wants); one != "" {
		return fmt.Errorf("has another schema than Stepboard: version %d has no %.100s", version, one)
	}
	if one := missing(wants, has); one != "" {
		return fmt.Errorf("has another schema than Stepboard: version %d also has the %.100s", version, one)
	}
	return nil
}

// missing returns the first of a list that another one lacks, in one line; "" if it has all.
func missing(list, in []string) string {
	for _, one := range list {
		if !slices.Contains(in, one) {
			return strings.Join(strings.Fields(one), " ")
		}
	}
	return ""
}

// version returns the version of a database that has a table of versions.
func (c *fileConn) version(ctx context.Context) (int64, error) {
	rows, err := c.all(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied")
	if err != nil {
		return 0, notStepboards(err)
	}
	version, _ := rows[0][0].(int64)
	if version < 1 {
		return 0, errNotStepboards
	}
	return version, nil
}

// errNotStepboards is the error of a file that is something else.
var errNotStepboards = errors.New("is no database of Stepboard")

// notStepboards returns what it says about a file that its schema can't be read.
func notStepboards(err error) error {
	switch {
	case errors.Is(err, io.EOF): // it is empty
		return errNotStepboards
	case code(err) == sqlite3.SQLITE_NOTADB:
		return errors.New("is no SQLite database")
	}
	return fmt.Errorf("is damaged: %w", err)
}

// texts returns the texts in the first column of what a query returns; io.EOF if there are none.
func (c *fileConn) texts(ctx context.Context, query string) (list []string, err error) {
	rows, err := c.all(ctx, query)
	for _, row := range rows {
		text, _ := row[0].(string)
		list = append(list, text)
	}
	if err == nil && list == nil {
		err = io.EOF
	}
	return list, err
}

// Prepare lets write make a database, in a file that is empty, in a folder beside the folder's own one,
// checks it and opens it there, with the schema applied. After the Stores were closed, Replace puts it in
// place of the folder's, or Discard removes it, as the next Prepare does. name is what errors call it,
// which are one line for people; those of write are returned as they are.
func (f *Folder) Prepare(ctx context.Context, clock models.Clock, name string, write func(ctx context.Context, path string) error) (*Stores, error) {
	path, err := f.newCopy()
	if err != nil {
		return nil, err
	}
	if err := write(ctx, path); err != nil {
		return nil, err
	}
	failpoint.Hit("restore.copied")
	prepared, err := LockFolder(f.Path(unfinishedFolder))
	if err != nil {
		return nil, err
	}
	err = checkSchema(ctx, clock, path)
	if err == nil {
		err = checkCopy(ctx, path)
	}
	if err == nil {
		var s *Stores
		if s, err = prepared.open(ctx, clock); err == nil {
			failpoint.Hit("restore.opened")
			return s, nil
		}
	}
	prepared.Close()
	return nil, fmt.Errorf("%s %w", name, err)
}

// FromBackup returns what Prepare copies a file of Backup with, to the disk. progress is told how many
// bytes were copied.
func FromBackup(backup string, progress func(copied int64)) func(ctx context.Context, path string) error {
	return func(ctx context.Context, path string) error {
		for _, suffix := range logs {
			if info, err := os.Stat(backup + suffix); err == nil && info.Size() > 0 {
				return fmt.Errorf("%s is no backup, but a database with a log: %s is beside it", backup, backup+suffix)
			}
		}
		from, err := os.Open(backup)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = Copy(ctx, to, from, progress)
		if err == nil {
			err = to.Sync()
		}
		return errors.Join(err, to.Close())
	}
}

// Copy copies all of from, until ctx ends, and returns how many bytes. progress is told after each MB how
// many it has copied.
func Copy(ctx context.Context, to io.Writer, from io.Reader, progress func(copied int64)) (copied int64, err error) {
	for {
		n, err := io.CopyN(to, from, 1<<20)
		copied += n
		if errors.Is(err, io.EOF) {
			return copied, nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return copied, err
		}
		progress(copied)
	}
}

// OpenReplaced opens the folder's database, as Open does, to read what a restored one needs of it.
// Closing it moves its log into it, so that nothing is lost if the process is killed before Replace has
// ended. The folder stays locked.
func (f *Folder) OpenReplaced(ctx context.Context, clock models.Clock) (*Stores, error) {
	if f.New {
		return nil, errors.New("has no database")
	}
	return (&Folder{Dir: f.Dir}).open(ctx, clock)
}

// Replace puts the database of Prepare, which was closed, in place of the folder's. If the process is
// killed meanwhile, the folder has one of them.
func (f *Folder) Replace() error {
	prepared := filepath.Join(f.Path(unfinishedFolder), databaseFile)
	for _, suffix := range logs {
		if _, err := os.Stat(prepared + suffix); err == nil {
			return fmt.Errorf("the new database was not closed: it has %s", prepared+suffix)
		}
	}
	failpoint.Hit("restore.closed")
	for _, suffix := range logs { // SQLite would write a log of the old database into the new one
		if err := os.RemoveAll(f.Path(databaseFile + suffix)); err != nil {
			return err
		}
	}
	if err := SyncDir(f.Dir); err != nil {
		return err
	}
	failpoint.Hit("restore.logs_removed")
	if err := os.Rename(prepared, f.Path(databaseFile)); err != nil {
		return err
	}
	failpoint.Hit("restore.renamed")
	return errors.Join(SyncDir(f.Dir), f.Discard())
}

// Sequences returns the largest id that each table of a folder's database has given.
func (s *Stores) Sequences(ctx context.Context) (map[string]int64, error) {
	var list []struct {
		Name string
		Seq  int64
	}
	if err := s.Gorm.WithContext(ctx).Raw("SELECT name, seq FROM sqlite_sequence").Scan(&list).Error; err != nil {
		return nil, fmt.Errorf("read sequences: %w", err)
	}
	sequences := make(map[string]int64, len(list))
	for _, one := range list {
		sequences[one.Name] = one.Seq
	}
	return sequences, nil
}

// RaiseSequences lets no table of a folder's database give an id again up to those of Sequences.
func (s *Stores) RaiseSequences(ctx context.Context, to map[string]int64) error {
	for name, seq := range to {
		db := s.Gorm.WithContext(ctx)
		result := db.Exec("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", seq, name)
		if result.Error == nil && result.RowsAffected == 0 {
			result = db.Exec("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", name, seq)
		}
		if result.Error != nil {
			return fmt.Errorf("raise the sequence of %s: %w", name, result.Error)
		}
	}
	return nil
}
