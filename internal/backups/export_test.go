package backups

import "syscall"

// WithoutLinks makes a folder be on a file system that has no links.
func WithoutLinks(t Target) {
	t.(*folder).link = func(string, string) error { return syscall.EPERM }
}
