package shipping

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// memory is a target in memory, which can fail.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	fail    error // of all calls
	full    error // of those that write
	lose    bool  // the answers to writes that are done
	local   bool
	writes  int
}

func (m *memory) Local() bool { return m.local }

func (m *memory) Create(_ context.Context, name string, from io.ReadSeeker, size int64) error {
	content, err := io.ReadAll(from)
	if err != nil || int64(len(content)) != size {
		return fmt.Errorf("%d bytes instead of %d: %w", len(content), size, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.fail, m.full); err != nil {
		return err
	}
	if _, ok := m.objects[name]; ok {
		return backups.ErrExists
	}
	m.writes++
	m.objects[name] = content
	if m.lose {
		return errors.New("the answer is lost")
	}
	return nil
}

func (m *memory) Read(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[name]
	if m.fail != nil {
		return nil, m.fail
	}
	if !ok {
		return nil, backups.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) List(_ context.Context, prefix string) (list []backups.Object, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(name, prefix) {
			list = append(list, backups.Object{Name: name, Size: int64(len(m.objects[name]))})
		}
	}
	return list, m.fail
}

func (m *memory) Delete(_ context.Context, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, name := range names {
		delete(m.objects, name)
	}
	return nil
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// world is a folder that is changed and shipped, step by step.
type world struct {
	t      *testing.T
	target *memory
	clock  *testenv.Clock
	dir    string
	st     *stores.Stores
	s      *Shipper
	random *rand.Rand
	had    []moment // what was committed, and when
}

type moment struct {
	at   time.Time
	dump string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, target: &memory{objects: make(map[string][]byte)}, clock: testenv.NewClock(testenv.Noon), dir: t.TempDir(),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.openWith(w.target, w.clock.Now)
}

func (w *world) openWith(target backups.Target, now models.Clock) {
	w.t.Helper()
	folder := testenv.Must(stores.LockFolder(w.dir))
	folder.Ships = true
	w.st = testenv.Must(folder.Open(w.t.Context(), now))
	w.s = testenv.Must(New(w.t.Context(), Options{
		Stores: w.st, Target: target, Clock: now, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Backup: config.Backup{To: "memory", Interval: time.Millisecond, Retain: 7 * 24 * time.Hour, MaxLag: 64 << 20},
		Pause:  func(context.Context, time.Duration) error { return nil },
	}))
}

func (w *world) close() {
	w.t.Helper()
	if err := errors.Join(w.s.Close(), w.st.Close()); err != nil {
		w.t.Error(err)
	}
}

// kill goes on with the files as they are, in another folder.
func (w *world) kill() {
	w.t.Helper()
	w.killWith(func(string) {})
}

// cut is kill by a power cut: what was not synced is there, torn or lost.
func (w *world) cut() {
	w.t.Helper()
	w.s.mu.Lock()
	unsynced := slices.Clone(w.s.unsynced)
	w.s.mu.Unlock()
	w.killWith(func(dir string) {
		for _, state := range unsynced {
			path := filepath.Join(dir, waitingFolder, filepath.Base(w.s.changes(state)))
			switch w.random.IntN(3) {
			case 0:
				testenv.Must(0, os.Remove(path))
			case 1:
				testenv.Must(0, os.Truncate(path, int64(w.random.IntN(200))))
			}
		}
	})
}

func (w *world) killWith(spoil func(dir string)) {
	w.t.Helper()
	dir := w.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(w.dir)); err != nil {
		w.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "lock")); err != nil {
		w.t.Fatal(err)
	}
	spoil(dir)
	old, log := w.st, w.s.log
	w.dir = dir
	w.open()
	if err := errors.Join(log.Close(), old.Close()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	if _, err := w.st.Increments.SQL.ExecContext(w.t.Context(), text, args...); err != nil {
		w.t.Fatal(text, err)
	}
}

func (w *world) write() {
	w.t.Helper()
	w.exec("CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY, content BLOB)")
	for range 1 + w.random.IntN(5) {
		w.exec("INSERT OR REPLACE INTO things VALUES (?, randomblob(?))", w.random.IntN(500), w.random.IntN(8000))
	}
	if w.random.IntN(4) == 0 {
		w.exec("DELETE FROM things WHERE id BETWEEN ? AND ?", w.random.IntN(500), w.random.IntN(500))
	}
}

// grow commits some MB.
func (w *world) grow(mb int) {
	w.t.Helper()
	w.exec("WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO things (content) SELECT randomblob(1000000) FROM n", mb)
}

// dump returns what a database has.
func dump(t *testing.T, path string) string {
	t.Helper()
	db := testenv.Must(sql.Open("sqlite", path))
	defer db.Close()
	return dumpOf(t, db)
}

func dumpOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	hash := fnv.New128a()
	rows, err := db.QueryContext(t.Context(), "SELECT id, content FROM things ORDER BY id")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var id int
		var content []byte
		if err := rows.Scan(&id, &content); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(hash, id, len(content))
		hash.Write(content)
	}
	if err := rows.Err(); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// step makes a step, after which everything is at the target, and remembers what that is.
func (w *world) step() {
	w.t.Helper()
	w.clock.Advance(time.Second)
	if err := w.s.step(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.had = append(w.had, moment{w.clock.Now(), dumpOf(w.t, w.st.SQL)})
}

func (w *world) tend() {
	w.t.Helper()
	if err := w.s.tend(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// restore compares what is restored as of a time.
func (w *world) restore(at time.Time) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "stepboard.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	restored, err := backups.Restore(w.t.Context(), w.target, path, at, func(backups.Progress) {})
	if err != nil {
		w.t.Fatalf("as of %v: %v", at, err)
	}
	restored.Sums = nil
	want := w.had[len(w.had)-1]
	if !at.IsZero() {
		i, _ := slices.BinarySearchFunc(w.had, at, func(m moment, at time.Time) int {
			if m.at.After(at) {
				return 1
			}
			return -1
		})
		want = w.had[i-1]
	}
	if got := dump(w.t, path); got != want.dump {
		w.t.Fatalf("as of %v (%+v) the database has %s, and had %s at %v", at, restored, got, want.dump, want.at)
	}
}
