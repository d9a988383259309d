//go:build unix

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkSocket returns an error if a socket outside of the data folder is not of this account:
// somebody else may have put it where a socket was before. If there is none, it returns
// errNotServing.
func checkSocket(path string) error {
	info, err := os.Lstat(path) //nolint:gosec // the path is in the data folder, into which nobody else writes
	if err != nil {
		return errNotServing
	}
	if ofAnother(info) {
		return fmt.Errorf("the socket %s belongs to another account", path)
	}
	return nil
}

// ofAnother reports whether a file belongs to another account than the one that runs this process.
func ofAnother(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid()
}

// ofRoot reports whether a file belongs to root.
func ofRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
