package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// open opens the stores of a data folder for the test.
func open(t *testing.T, dir string) *stores.Stores {
	t.Helper()
	s, err := stores.OpenFolder(t.Context(), dir, testenv.NewClock(testenv.Noon).Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// refused returns the error of opening a data folder, which must be one line.
func refused(t *testing.T, dir string) error {
	t.Helper()
	s, err := stores.OpenFolder(t.Context(), dir, testenv.NewClock(testenv.Noon).Now)
	if err == nil {
		t.Error("opened", s.Close())
		return errors.New("")
	}
	if !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q", err)
	}
	return err
}

func contains(t *testing.T, err error, text string) {
	t.Helper()
	if !strings.Contains(err.Error(), text) {
		t.Errorf("%q does not say %q", err, text)
	}
}

// The folder and what is in it are this account's only, also folders above it that did not exist.
func TestAnEmptyFolderIsMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	if s.Folder.Dir != dir || s.Redis != nil {
		t.Errorf("stores %+v", s)
	}
	entries := testenv.Must(os.ReadDir(dir))
	for _, e := range entries {
		if mode := testenv.Must(e.Info()).Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), mode)
		}
	}
	if mode := testenv.Must(os.Stat(dir)).Mode().Perm(); mode != 0o700 || len(entries) != 4 {
		t.Errorf("mode %v, %v", mode, entries)
	}
}

// A folder that exists keeps its mode.
func TestAFolderKeepsItsMode(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if mode := testenv.Must(os.Stat(dir)).Mode().Perm(); mode != 0o750 {
		t.Errorf("mode %v", mode)
	}
}

func TestAFolderIsLockedUntilItCloses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := refused(t, dir); !errors.Is(err, stores.ErrFolderInUse) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestAMovedFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Folder.MarkMoved("postgres://db/stepboard"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	contains(t, refused(t, dir), "was moved to postgres://db/stepboard")
}

func TestAFileIsNoFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, refused(t, path), "not a folder")
}
