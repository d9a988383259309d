// Package migrations holds the schema as numbered SQL files, in one directory for
// each dialect. Both dialects have the same numbers. A released file never changes.
//
// To goose each file is a single statement, which the database gets as a whole: looking
// for the end of each statement would take goose longer than the database needs for all.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Dialect selects the directory of SQL files and goose's dialect.
type Dialect string

// The dialects of the schema.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Migrator applies the schema to one database.
type Migrator struct {
	provider *goose.Provider
}

// New returns a migrator. On Postgres a session lock lets one of several processes
// that start at the same time apply the schema while the others wait.
func New(ctx context.Context, db *sql.DB, dialect Dialect) (*Migrator, error) {
	dir, err := fs.Sub(files, string(dialect))
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	var options []goose.ProviderOption
	gooseDialect := goose.DialectSQLite3
	if dialect == Postgres {
		gooseDialect = goose.DialectPostgres
		locker, err := sessionLocker(ctx, db)
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(gooseDialect, db, dir, options...)
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	return &Migrator{provider: provider}, nil
}

// sessionLocker returns a lock that includes the name of the schema, so that
// installations that share a database don't wait for each other.
func sessionLocker(ctx context.Context, db *sql.DB) (lock.SessionLocker, error) {
	var schema string
	if err := db.QueryRowContext(ctx, "SELECT coalesce(current_schema(), '')").Scan(&schema); err != nil {
		return nil, fmt.Errorf("find the schema to migrate: %w", err)
	}
	id := fnv.New32a()
	id.Write([]byte("stepboard/" + schema))
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(id.Sum32())))
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	return locker, nil
}

// Up applies the pending migrations, oldest first, each in a transaction of its
// own, and returns them.
func (m *Migrator) Up(ctx context.Context) ([]*goose.MigrationResult, error) {
	applied, err := m.provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return applied, nil
}

// UpTo is Up for a database that is to have the schema of an older version.
func (m *Migrator) UpTo(ctx context.Context, version int64) error {
	if _, err := m.provider.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate to version %d: %w", version, err)
	}
	return nil
}

// Status returns the version of the database and the newest version of this binary.
// If they are equal, the database is up to date. A Postgres that is ahead of the
// binary can be served, because migrations only add, and processes are updated one by one.
func (m *Migrator) Status(ctx context.Context) (current, newest int64, err error) {
	current, newest, err = m.provider.GetVersions(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	return current, newest, nil
}
