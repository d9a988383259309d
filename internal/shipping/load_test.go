package shipping

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// counted returns how many commits a database has, of which each has the next number.
func counted(t *testing.T, path string) (n int) {
	t.Helper()
	st := testenv.Must(testenv.Must(stores.LockFolder(filepath.Dir(path))).Open(t.Context(), time.Now))
	defer st.Close()
	var last int
	var whole string
	if err := st.SQL.QueryRowContext(t.Context(), "SELECT count(*), coalesce(max(n), 0) FROM commits").Scan(&n, &last); err != nil || n != last {
		t.Fatalf("%d commits up to %d: %v", n, last, err)
	}
	if err := st.SQL.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&whole); err != nil || whole != "ok" {
		t.Fatal(whole, err)
	}
	return n
}

// While several people commit, the log is moved, a backup is made and full copies are, nothing is lost
// and nothing comes out of order, against a service whose answers are lost and that has failures.
func TestShippingUnderLoad(t *testing.T) {
	t.Parallel()
	service := backupstest.NewS3(t)
	w := newWorld(t, 3)
	w.close()
	last, mu := testenv.Noon, sync.Mutex{}
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		last = last.Add(time.Millisecond)
		return last
	}
	w.openWith(service.Target(t, "family"), now)
	w.exec("CREATE TABLE commits (n INTEGER PRIMARY KEY AUTOINCREMENT, content BLOB)")
	stop := make(chan struct{})
	var done sync.WaitGroup
	each := func(do func() error) {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil && !errors.Is(err, ErrSuperseded) {
					continue // the service fails now and then
				}
			}
		})
	}
	commits := func() (n int) {
		if err := w.st.SQL.QueryRowContext(t.Context(), "SELECT count(*) FROM commits").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	for range 3 {
		each(func() error {
			_, err := w.st.Increments.SQL.ExecContext(t.Context(), "INSERT INTO commits (content) VALUES (randomblob(3000))")
			if err != nil && models.CodeOf(err) != models.CodeUnavailable { // a checkpoint follows another
				t.Error(err)
			}
			return err
		})
	}
	each(func() error { return w.s.Step(t.Context()) })
	each(func() error {
		w.s.mu.Lock()
		w.s.fullAt = time.Time{}
		w.s.mu.Unlock()
		return w.s.Tend(t.Context())
	})
	testenv.Eventually(t, "there is a full copy", func() bool { return w.s.Status().Whole })
	whole := now()
	service.Fail(backupstest.Faults{Refuse: 20, LoseAnswers: 20})
	for range 3 {
		for range 5 {
			if err := w.st.Checkpoint(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := w.st.Backup(t.Context(), func(*os.File) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	testenv.Eventually(t, "there are many commits", func() bool { return commits() > 300 })
	close(stop)
	done.Wait()
	service.Fail(backupstest.Faults{})
	for w.s.Status().Behind > 10*time.Millisecond || w.s.Status().WaitingBytes > 0 {
		if err := w.s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.s.Status(); s.Generation != 1 {
		t.Errorf("%+v", s)
	}
	before, end := 0, now()
	for i := range 6 {
		at := whole.Add(end.Sub(whole) * time.Duration(i) / 5)
		path := filepath.Join(t.TempDir(), "stepboard.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		testenv.Must(backups.Restore(t.Context(), w.s.o.Target, path, at, func(backups.Progress) {}))
		n := counted(t, path)
		if n < before {
			t.Errorf("later there are %d commits, and before %d", n, before)
		}
		before = n
	}
	if want := commits(); before != want {
		t.Errorf("%d commits were restored, and there were %d", before, want)
	}
}
