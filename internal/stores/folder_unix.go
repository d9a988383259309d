//go:build unix

package stores

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"stepboard/models"
)

// lockFile locks a file, or returns ErrFolderInUse.
func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrFolderInUse
	}
	return models.Wrap("can't be locked", err)
}

// unlockFile unlocks and closes a file. Closing alone would leave it locked by a process that was
// just forked, until that has become another program.
func unlockFile(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// checkOwner returns an error if this process is root and the folder another account's, which could
// not write the files that root would make.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return noRights(err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return checkAccounts(os.Geteuid(), stat.Uid)
	}
	return nil
}

// checkAccounts returns the error of checkOwner for an account and the owner of a folder.
func checkAccounts(account int, owner uint32) error {
	if account == 0 && owner != 0 {
		return fmt.Errorf("belongs to the account with the id %d: run stepboard as that account, and not as root", owner)
	}
	return nil
}

// SyncDir makes the names of files in a folder survive a loss of power.
func SyncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
