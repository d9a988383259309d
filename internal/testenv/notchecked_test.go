package testenv_test

import (
	"os"
	"path/filepath"
	"testing"

	"stepboard/internal/testenv"
)

// A test that this machine can't run is skipped, and named in the file that .ci/run shows.
func TestNotChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	t.Setenv("NOT_CHECKED", path)
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if !t.Skipped() {
					t.Error("it is not skipped")
				}
			}()
			testenv.NotChecked(t, "no disk")
		})
	}
	const want = "NOT CHECKED: TestNotChecked/a: no disk\nNOT CHECKED: TestNotChecked/b: no disk\n"
	if said := string(testenv.Must(os.ReadFile(path))); said != want {
		t.Errorf("the file has %q", said)
	}
}
