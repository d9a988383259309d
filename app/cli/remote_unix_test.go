//go:build unix

package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
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
