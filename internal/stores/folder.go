package stores

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stepboard/models"
)

const (
	// databaseFile is the name of the database in a data folder. SQLite keeps its write-ahead log
	// beside it, with -wal and -shm after the name.
	databaseFile = "stepboard.db"
	lockName     = "lock"
	// movedFile says where the data of a folder was moved to. A folder with this file is not opened
	// any more.
	movedFile = "moved"
	// movingFile has the name of a move that has begun. A folder with this file is opened by that move
	// only: what was copied must not change behind it.
	movingFile = "moving"
	// unfinishedFolder is a folder with a database that is being copied: a backup, or one that is to
	// be restored. What a process that was killed has left of it goes when the folder is locked.
	unfinishedFolder = "unfinished"
)

// ErrFolderInUse means that another process has locked a data folder.
var ErrFolderInUse = errors.New("is in use by another process")

// Folder is a data folder, which this process has locked. It is not safe for concurrent use.
type Folder struct {
	// Dir is the folder's absolute path.
	Dir string
	// New reports that the folder had no database before.
	New bool
	// Moving is the name of the move to other servers that has begun; empty for none.
	Moving string
	// Ships lets the log of the database grow until Stores.OpenLog has a reader for it.
	Ships bool
	lock  *os.File
	made  []string // what did not exist before: folders, the lock and the database, in this order
}

// LockFolder makes a data folder if it does not exist, and locks it until Close, or until the
// process ends. Its errors are one line for people; ErrFolderInUse is among them. Others are that
// this process must not read and write the folder or its database, that it is root and the folder
// another account's, that the folder is on a network file system, and that it was moved, or that a
// move has begun.
func LockFolder(dir string) (*Folder, error) {
	f, err := LockFolderToMove(dir)
	if err == nil && f.Moving != "" {
		f.Close()
		return nil, fmt.Errorf("data folder %s is being moved: run stepboard move again, to the same servers; "+
			"or, to give that up, delete the file %s, and what the servers have got", f.Dir, f.Path(movingFile))
	}
	return f, err
}

// LockFolderToMove is LockFolder for a folder whose move may have begun.
func LockFolderToMove(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f := &Folder{Dir: dir}
	if err := f.makeAndLock(); err != nil {
		f.Close()
		return nil, fmt.Errorf("data folder %s %w", dir, err)
	}
	return f, nil
}

// Path returns the path of a file in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.Dir, name) }

// Close unlocks the folder. Further calls do nothing. The Stores of a folder close it.
func (f *Folder) Close() {
	if f.lock != nil {
		_ = unlockFile(f.lock) // nothing was written, and at worst the end of the process unlocks it
		f.lock = nil
	}
}

// Undo unlocks the folder and removes what LockFolder has made, if the database is still empty: the
// folder is as it was, or does not exist.
func (f *Folder) Undo() error {
	f.Close()
	if HasDatabase(f.Dir) {
		return nil
	}
	for _, path := range slices.Backward(f.made) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f.made = nil
	return nil
}

// BeginMove stores that a move has begun, under a name that nobody else has.
func (f *Folder) BeginMove() error {
	name := rand.Text()
	if err := f.WriteFile(movingFile, name+"\n"); err != nil {
		return fmt.Errorf("mark data folder %s as being moved: %w", f.Dir, err)
	}
	f.Moving = name
	return nil
}

// MarkMoved stores where the folder's data was moved to, in words for people. Nobody can lock the
// folder after that.
func (f *Folder) MarkMoved(to string) error {
	return models.Wrap("mark data folder "+f.Dir+" as moved", f.WriteFile(movedFile, to+"\n"))
}

func (f *Folder) makeAndLock() error {
	f.notes(f.Dir)
	if err := makeDir(f.Dir); err != nil {
		return noRights(err)
	}
	if err := checkOwner(f.Dir); err != nil {
		return err
	}
	kind, err := networkFileSystem(f.Dir)
	if err != nil {
		return noRights(err)
	}
	if kind != "" {
		return fmt.Errorf("is on a network file system (%s), on which a database can be damaged: use a local disk", kind)
	}
	f.notes(f.Path(lockName))
	if f.lock, err = os.OpenFile(f.Path(lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return noRights(err)
	}
	if err := lockFile(f.lock); err != nil {
		return err
	}
	switch to, err := os.ReadFile(f.Path(movedFile)); {
	case err == nil:
		return fmt.Errorf("was moved to %s", strings.TrimSpace(string(to)))
	case !errors.Is(err, fs.ErrNotExist):
		return noRights(err)
	}
	moving, err := os.ReadFile(f.Path(movingFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return noRights(err)
	}
	f.Moving = strings.TrimSpace(string(moving))
	if err := f.Discard(); err != nil {
		return noRights(err)
	}
	return f.checkFiles()
}

// checkFiles makes the database's file, if it does not exist, readable for this account only, as
// SQLite makes further files with the same mode. It returns an error if a file of the database
// can't be read and written. It must not be called while the database is open: closing any
// descriptor of a file removes SQLite's locks on it.
func (f *Folder) checkFiles() error {
	f.notes(f.Path(databaseFile))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		flags := os.O_RDWR
		if suffix == "" {
			flags |= os.O_CREATE
		}
		file, err := os.OpenFile(f.Path(databaseFile+suffix), flags, 0o600)
		if err == nil {
			if info, err := file.Stat(); err == nil && suffix == "" {
				f.New = info.Size() == 0
			}
			err = file.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return noRights(err)
		}
	}
	return nil
}

// notes adds a path that does not exist to those that are made, and the folders above it.
func (f *Folder) notes(path string) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) || slices.Contains(f.made, path) {
		return
	}
	if above := filepath.Dir(path); above != path {
		f.notes(above)
	}
	f.made = append(f.made, path)
}

// makeDir makes a folder, and those above it, unless it exists. After a loss of power it is still
// there.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("not a folder")}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// noRights returns the error of a folder that can't be used, with the reason.
func noRights(err error) error {
	return fmt.Errorf("can't be used: the account that runs stepboard must be able to read and write it and its files: %w", err)
}

// WriteFile writes a file of the folder, as WriteSynced.
func (f *Folder) WriteFile(name, text string) error {
	return WriteSynced(f.Path(name), func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	})
}

// WriteSynced writes a file that only this account can read. After a loss of power it is complete, or as before.
func WriteSynced(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}
