package app_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"stepboard/app"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/operations/erasure"
)

// No row id and no other id that the replaced database has given is given again, neither to users nor
// to anything else. What is not given is known as a gap.
func TestARestoredDatabaseGivesNoIDAgain(t *testing.T) {
	t.Parallel()
	build := func(env *testenv.Env) *app.App {
		t.Helper()
		a, err := buildLocal(env)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		return a
	}
	ensure := func(a *app.App, user models.UserID) models.RowID {
		t.Helper()
		return testenv.Must(a.Directory.Ensure(t.Context(), user))[0]
	}
	env := testenv.Local(t)
	before := build(env)
	ensure(before, "ann")
	path := filepath.Join(t.TempDir(), "backup")
	err := before.Backup(t.Context(), func(_ *stores.Folder, copied *os.File) error {
		return os.WriteFile(path, testenv.Must(io.ReadAll(copied)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	ensure(before, "ben")
	last := ensure(before, "zed")
	if _, err := before.Erasure.Begin(t.Context(), "zed", false); err != nil {
		t.Fatal(err)
	}
	if err := env.Gorm.Exec("UPDATE sqlite_sequence SET seq = 70 WHERE name = 'erasures'").Error; err != nil {
		t.Fatal(err)
	}
	replaced := testenv.Must(app.ReadReplaced(t.Context(), env.Stores))

	restore := func() (*testenv.Env, *app.App) {
		t.Helper()
		restored := testenv.Local(t)
		st := testenv.Must(restored.Folder.Prepare(t.Context(), restored.Clock.Now, path, func(int64) {}))
		restored.Stores = st
		return restored, build(restored)
	}
	for name, from := range map[string]*app.Replaced{"known": replaced, "unknown": nil} {
		restored, a := restore()
		if n, err := a.TakeOver(t.Context(), from); n != 0 || err != nil {
			t.Errorf("%s: %d are erased again, %v", name, n, err)
		}
		next := ensure(a, "newcomer")
		if next <= last {
			t.Errorf("%s: a newcomer gets row id %d, and %d was given", name, next, last)
		}
		for row, want := range map[models.RowID]bool{1: true, last: false, next - 1: false, next: true} {
			if got := testenv.Must(a.Directory.Exists(t.Context(), row)); got != want {
				t.Errorf("%s: row id %d exists: %v", name, row, got)
			}
		}
		if from != nil {
			if seq := testenv.Must(restored.Sequences(t.Context()))["erasures"]; seq < 70 {
				t.Errorf("the sequence of erasures is at %d", seq)
			}
		}
	}

	other := testenv.Local(t)
	build(other)
	unrelated := testenv.Must(app.ReadReplaced(t.Context(), other.Stores))
	_, a := restore()
	if _, err := a.TakeOver(t.Context(), unrelated); !errors.Is(err, erasure.ErrUnrelated) {
		t.Errorf("another service's database: %v", err)
	}
}
