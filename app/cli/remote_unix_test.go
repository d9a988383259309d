//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stepboard/internal/testenv"
)

// A file of another account is not replaced, even by root.
func TestFilesOfOthersAreNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "name")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		path = "/etc/passwd" // root's; only root can give a file to another account
	} else if err := os.Chown(path, 65534, -1); err != nil {
		t.Fatal(err)
	}
	before := testenv.Must(os.ReadFile(path))
	err := (&program{files: ownFiles{}}).writeFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err })
	if err == nil || !strings.Contains(err.Error(), "belongs to another account") {
		t.Errorf("%v", err)
	}
	if got := testenv.Must(os.ReadFile(path)); string(got) != string(before) {
		t.Errorf("the file has %s", got)
	}
}

// A pipe is written, also behind a link, unless the pipe or the link belongs to another account.
func TestPipesOfOthersAreNotWritten(t *testing.T) {
	t.Parallel()
	pipe, link := filepath.Join(t.TempDir(), "pipe"), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	reader := testenv.Must(os.OpenFile(pipe, os.O_RDWR, 0)) // without one, writers would wait
	defer reader.Close()
	write := func(path string) error {
		return (&program{files: ownFiles{}}).writeFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err })
	}
	for _, path := range []string{pipe, link} {
		if err := write(path); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(reader, make([]byte, len("after"))); err != nil {
			t.Error(err)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a pipe to another account
	}
	for _, path := range []string{link, pipe} {
		if err := os.Lchown(path, 65534, -1); err != nil {
			t.Fatal(err)
		}
		if err := write(path); err == nil || !strings.Contains(err.Error(), path+" belongs to another account") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
