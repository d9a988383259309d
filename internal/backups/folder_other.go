//go:build !linux

package backups

import "fmt"

const openFlags = 0

// rename returns an error: nothing else than a link is exclusive everywhere.
func rename(_, to string) error {
	return fmt.Errorf("the file system of %s has no links: use another", to)
}
