package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// notChecked names the file to which NotChecked writes, which .ci/run shows.
const notChecked = "NOT_CHECKED"

// NotChecked skips a test that this machine can't run, and says so in a file, too, because go test
// says nothing of skipped tests.
func NotChecked(t testing.TB, why string) {
	t.Helper()
	if path := os.Getenv(notChecked); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := fmt.Fprintf(file, "NOT CHECKED: %s: %s\n", t.Name(), why); err != nil {
			t.Fatal(err)
		}
	}
	t.Skip(why)
}

// RealData returns the path of a file of real friendships or step counts in ../shared/data, beside
// the checkout. Without the file the test is not checked.
func RealData(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(moduleRoot(t), "../shared/data", name)
	if _, err := os.Stat(path); err != nil {
		NotChecked(t, err.Error())
	}
	return path
}
