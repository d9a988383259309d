package stores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	gormsqlite "github.com/libtnb/sqlite"
	"modernc.org/sqlite"

	"stepboard/migrations"
	"stepboard/models"
)

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
