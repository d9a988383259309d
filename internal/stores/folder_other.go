//go:build !linux

package stores

// networkFileSystem returns "": network file systems are recognised on Linux only.
func networkFileSystem(string) (string, error) { return "", nil }
