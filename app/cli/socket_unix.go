//go:build unix

package cli

import (
	"fmt"
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
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("the socket %s belongs to another account", path)
	}
	return nil
}
