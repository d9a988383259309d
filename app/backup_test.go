package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/operations/erasure"
	"stepboard/services/platform/auth"
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
		st := testenv.Must(restored.Folder.Prepare(t.Context(), restored.Clock.Now, path, stores.FromBackup(path, func(int64) {})))
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

// ships has a status, and ships nothing.
type ships struct{ status shipping.Status }

func (s ships) Status() shipping.Status  { return s.status }
func (ships) Step(context.Context) error { return nil }
func (ships) Tend(context.Context) error { return nil }
func (ships) Close() error               { return nil }

// A process is ready while commits wait to be copied elsewhere. It says so from an interval and a half on, while
// nothing can be restored, and when another process has taken over, and reports how far it is behind.
func TestCopiesThatAreBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		status  shipping.Status
		logged  string // and that it is degraded; empty for neither
		metrics []string
	}{
		{"nothing is copied yet", shipping.Status{}, "nothing of this generation at backup.to can be restored yet", []string{"whole 0", "generation 0", "behind_seconds 0", "superseded 0"}},
		{
			"a commit has waited for an interval and a half", shipping.Status{Generation: 3, Whole: true, Behind: 1500 * time.Millisecond, WaitingBytes: 5, Objects: 6, ObjectBytes: 7, Errors: 8, DeleteErrors: 9, FullAt: time.UnixMilli(1_500)}, "",
			[]string{"whole 1", "generation 3", "behind_seconds 1.5", "waiting_bytes 5", "objects_total 6", "bytes_total 7", "errors_total 8", "delete_errors_total 9", "full_copy_timestamp_seconds 1.5"},
		},
		{"it has waited for longer", shipping.Status{Whole: true, Behind: 1501 * time.Millisecond}, "commits may have waited for 2s to be copied to backup.to", []string{"behind_seconds 1.501"}},
		{"the target is away", shipping.Status{Whole: true, Err: errors.New("connection refused")}, "to backup.to: connection refused", nil},
		{"it was away from the start", shipping.Status{Err: errors.New("connection refused")}, "can be restored yet: connection refused", nil},
		{"another process has begun a generation", shipping.Status{Whole: true, Superseded: true}, "another process has begun a later generation", []string{"superseded 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Local(t)
			var log testenv.Buffer
			a := testenv.Must(app.Build(t.Context(), app.Options{
				Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Verifier: auth.NewVerifier(auth.VerifierConfig{}), Roles: app.AllRoles(),
				Shipping: ships{tt.status},
			}))
			defer func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}()
			get := func(h http.Handler, path string) string {
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
				return fmt.Sprint(answer.Code, answer.Body)
			}
			ready, degraded := get(a.Handler, "/readyz"), tt.logged != ""
			if !strings.HasPrefix(ready, "200") || strings.Contains(ready, `"degraded":["backup"]`) != degraded || !strings.Contains(log.String(), tt.logged) {
				t.Errorf("readyz: %s, and the log has %s", ready, log.String())
			}
			text := get(a.Metrics, "/metrics")
			for _, line := range tt.metrics {
				if !strings.Contains(text, "\nstepboard_backup_"+line+"\n") {
					t.Errorf("there is no %s", line)
				}
			}
			if has := strings.Contains(text, "\nstepboard_backup_full_copy_timestamp_seconds"); has == tt.status.FullAt.IsZero() {
				t.Errorf("the time of a full copy is reported: %t", has)
			}
		})
	}
}
