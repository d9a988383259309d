package stores

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"

	"stepboard/models"
)

// lockFile locks a file, or returns ErrFolderInUse.
func lockFile(file *os.File) error {
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrFolderInUse
	}
	return models.Wrap("can't be locked", err)
}

// unlockFile unlocks and closes a file.
func unlockFile(file *os.File) error { return file.Close() }

// checkOwner does nothing: there is no root.
func checkOwner(string) error { return nil }

// SyncDir does nothing: folders can't be synced.
func SyncDir(string) error { return nil }
