package backups

import (
	"os"

	"golang.org/x/sys/unix"
)

// openFlags let a pipe in the place of a file be opened, and refused, instead of being waited for.
const openFlags = unix.O_NONBLOCK

// rename renames a file, unless the new name exists.
func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
