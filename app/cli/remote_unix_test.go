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
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another account")
	}
	path := filepath.Join(t.TempDir(), "name")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, -1); err != nil {
		t.Fatal(err)
	}
	err := (&program{files: ownFiles{}}).writeFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err })
	if err == nil || !strings.Contains(err.Error(), "belongs to another account") {
		t.Errorf("%v", err)
	}
	if got := string(testenv.Must(os.ReadFile(path))); got != "before" {
		t.Errorf("the file has %s", got)
	}
}
