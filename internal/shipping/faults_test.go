package shipping

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/internal/backups"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// begun returns a world with a full copy.
func begun(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 1)
	w.write()
	w.step()
	w.tend()
	return w
}

// Nothing is written when nothing was committed.
func TestNothingIsWrittenWithoutCommits(t *testing.T) {
	t.Parallel()
	w := begun(t)
	before := w.target.writes
	for range 20 {
		w.step()
	}
	if w.target.writes != before {
		t.Errorf("%d objects more", w.target.writes-before)
	}
	if behind := w.s.Status().Behind; behind > time.Second {
		t.Errorf("it is behind by %v", behind)
	}
}

// While the target is away, everything goes on, the log is moved into the database, and the changes wait
// in the folder. What exists there because an answer was lost is not written again.
func TestTheTargetIsAway(t *testing.T) {
	t.Parallel()
	w := begun(t)
	away := errors.New("away")
	w.target.set(func() { w.target.fail = away })
	for range 30 {
		w.grow(2)
		w.clock.Advance(time.Minute)
		if err := w.s.Step(t.Context()); !errors.Is(err, away) {
			t.Fatal(err)
		}
		if _, log := w.st.FileSizes(); log > 64<<20 {
			t.Fatalf("the log has %d MB", log>>20)
		}
	}
	s := w.s.Status()
	if s.Behind < 29*time.Minute || s.WaitingBytes < 30<<20 || !errors.Is(s.Err, away) || s.Superseded {
		t.Errorf("%+v", s)
	}
	w.kill()
	w.target.set(func() { w.target.fail, w.target.lose = nil, true })
	for range 2 { // the second finds what the first has written
		_ = w.s.Step(t.Context())
	}
	w.target.set(func() { w.target.lose = false })
	for w.s.Status().WaitingBytes > 0 {
		w.step()
	}
	w.step()
	w.tend()
	w.step()
	if s := w.s.Status(); s.Generation != 1 || s.Behind != 0 {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// Beyond the limit a new generation replaces what waits.
func TestTooMuchWaits(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.s.o.MaxLag = 8 << 20
	w.target.set(func() { w.target.fail = errors.New("away") })
	for range 30 {
		w.grow(2)
		_ = w.s.Step(t.Context())
	}
	if s := w.s.Status(); s.WaitingBytes > 40<<20 || s.Whole {
		t.Errorf("%+v", s)
	}
	w.target.set(func() { w.target.fail = nil })
	w.step()
	w.step()
	w.tend()
	w.step()
	if s := w.s.Status(); s.Generation != 2 || !s.Whole || s.Behind != 0 || s.WaitingBytes != 0 {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// A database that was changed by somebody else, or whose changes were not kept, begins a generation.
func TestAChainThatCanNotBeProven(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(w *world){
		"changed by another program": func(w *world) {
			st := testenv.Must(stores.OpenFolder(w.t.Context(), w.dir, time.Now))
			if _, err := st.SQL.ExecContext(w.t.Context(), "INSERT INTO things (content) VALUES ('by somebody else')"); err != nil {
				w.t.Fatal(err)
			}
			if err := st.Close(); err != nil {
				w.t.Fatal(err)
			}
		},
		"the last changes are torn": func(w *world) {
			paths := testenv.Must(filepath.Glob(filepath.Join(w.dir, waitingFolder, "*.ltx")))
			if err := os.Truncate(paths[len(paths)-1], 150); err != nil {
				w.t.Fatal(err)
			}
		},
		"the last changes are gone": func(w *world) {
			paths := testenv.Must(filepath.Glob(filepath.Join(w.dir, waitingFolder, "*.ltx")))
			if err := os.Remove(paths[len(paths)-1]); err != nil {
				w.t.Fatal(err)
			}
		},
		"the chain is of another target": func(w *world) {
			path := filepath.Join(w.dir, waitingFolder, chainFile)
			text := strings.Replace(string(testenv.Must(os.ReadFile(path))), `"memory"`, `"elsewhere"`, 1)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t)
			w.write()
			w.step()
			before := w.clock.Now()
			w.close()
			harm(w)
			w.open()
			w.clock.Advance(time.Hour)
			w.step()
			w.restore(before)
			w.tend()
			w.step()
			if s := w.s.Status(); s.Generation != 2 || !s.Whole {
				t.Errorf("%+v", s)
			}
			w.restore(time.Time{})
		})
	}
}

// Of two processes that go on with the same chain, one does. Who finds a later generation stops, and its
// folder goes on.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	w := begun(t)
	twin := &world{t: t, target: w.target, clock: w.clock, random: w.random, dir: t.TempDir()}
	if err := os.CopyFS(twin.dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	twin.open()
	defer twin.close()
	w.write()
	w.step()
	twin.write()
	if err := twin.s.Step(t.Context()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("the second one to write: %v", err)
	}
	if err := twin.s.Step(t.Context()); !errors.Is(err, ErrSuperseded) || !twin.s.Status().Superseded {
		t.Errorf("after that: %v, %+v", err, twin.s.Status())
	}
	twin.write()
	if err := twin.st.Checkpoint(t.Context()); err != nil {
		t.Error(err)
	}
	w.write()
	w.step()
	w.restore(time.Time{})

	// A start of the twin is deliberate: it takes over.
	twin.close()
	twin.open()
	twin.step()
	twin.tend()
	w.write()
	if err := w.s.Step(t.Context()); err != nil {
		t.Errorf("it looks each %v: %v", generationCheck, err)
	}
	w.clock.Advance(generationCheck)
	if err := w.s.Step(t.Context()); !errors.Is(err, ErrSuperseded) || !w.s.Status().Superseded {
		t.Errorf("the one that was frozen: %v", err)
	}
	twin.write()
	twin.step()
	twin.restore(time.Time{})
}

// A generation whose file can't be written, as on a disk that is full, is begun again, and no other.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write()
	path := filepath.Join(w.dir, waitingFolder)
	for range 3 {
		w.s.dir = filepath.Join(path, "no", "folder")
		if err := w.s.Step(t.Context()); err == nil {
			t.Fatal("the chain is written")
		}
	}
	w.s.dir = path
	w.step()
	w.tend()
	if s := w.s.Status(); s.Generation != 1 || !s.Whole {
		t.Errorf("%+v", s)
	}
}

// A target that does not have the generation, such as the folder below a disk that is missing, gets nothing,
// whoever has begun one there. With the disk back everything goes on.
func TestTheTargetIsAnother(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"while it runs": false, "at a start": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t)
			w.target.local = true
			disk := w.target.objects
			other := backups.GenerationObject(1)
			w.target.set(func() { w.target.objects = map[string][]byte{other: []byte(`{"id":"another","layout":2}`)} })
			if restarts {
				w.kill()
			}
			for range 3 {
				w.write()
				w.clock.Advance(2 * generationCheck)
				if err := w.s.Step(t.Context()); !errors.Is(err, ErrElsewhere) {
					t.Fatal(err)
				}
				_ = w.s.Tend(t.Context())
			}
			if s := w.s.Status(); len(w.target.objects) != 1 || s.Superseded || s.Behind < 5*generationCheck || !errors.Is(s.Err, ErrElsewhere) {
				t.Errorf("%v, %+v", w.target.objects, s)
			}
			w.target.set(func() { w.target.objects = disk })
			w.step()
			w.step()
			w.step()
			if s := w.s.Status(); s.Generation != 1 || s.WaitingBytes != 0 {
				t.Errorf("%+v", s)
			}
			w.restore(time.Time{})
		})
	}
}

// Somebody may say that copies begin anew at a target that does not have the generation.
func TestBeginAnew(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.target.set(func() {
		clear(w.target.objects)
		w.target.objects[backups.BeginObject] = testenv.Must(json.Marshal(backups.Beginning{AskedAt: w.clock.Now()}))
	})
	w.clock.Advance(generationCheck)
	w.write()
	w.step()
	w.step()
	if s := w.s.Status(); s.Generation != 1 || !s.Whole || w.target.objects[backups.BeginObject] != nil {
		t.Errorf("%+v, %v", s, w.target.objects)
	}
	w.restore(time.Time{})
}

// Two processes that begin a generation at once get two, also where writes have no conditions.
func TestTwoGenerationsAtOnce(t *testing.T) {
	t.Parallel()
	w := begun(t)
	other := newWorld(t, 2)
	other.target = w.target
	other.close()
	careless := &overwriting{memory: w.target}
	other.open()
	other.s.o.Target = careless
	other.s.o.Pause = func(context.Context, time.Duration) error {
		if strings.Contains(string(w.target.objects[backups.GenerationObject(2)]), "somebody else") {
			return nil
		}
		// Meanwhile somebody who did not see it either has written the same.
		w.target.set(func() { w.target.objects[backups.GenerationObject(2)] = []byte(`{"id":"somebody else"}`) })
		return nil
	}
	other.write()
	other.step()
	if s := other.s.Status(); s.Generation != 3 {
		t.Errorf("%+v", s)
	}
}

// overwriting is a target whose writes have no conditions.
type overwriting struct{ *memory }

func (o *overwriting) Create(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	o.set(func() { delete(o.objects, name) })
	return o.memory.Create(ctx, name, from, size)
}

// Somebody who reads for long lets the log grow, and neither loses anything nor stops the copies.
func TestALongReader(t *testing.T) {
	t.Parallel()
	w := begun(t)
	tx, err := w.st.Reports.SQL.BeginTx(t.Context(), &sqlReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM things").Scan(&n); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.grow(2)
		w.step()
		if err := w.st.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.restore(time.Time{})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.write()
	w.step()
	if err := w.st.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, log := w.st.FileSizes(); log != 0 {
		t.Errorf("the log has %d bytes", log)
	}
	w.write()
	w.step()
	w.restore(time.Time{})
}

// What a transaction has written to the log before it ends, and one that was rolled back, is not shipped.
func TestOnlyCommitsAreShipped(t *testing.T) {
	t.Parallel()
	w := begun(t)
	tx, err := w.st.Increments.SQL.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const spills = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO things (content) SELECT randomblob(1000000) FROM n"
	if _, err := tx.ExecContext(t.Context(), spills); err != nil {
		t.Fatal(err)
	}
	if _, log := w.st.FileSizes(); log < 4<<20 {
		t.Fatalf("nothing is in the log before the end: %d bytes", log)
	}
	before := w.target.writes
	if err := w.s.Collect(t.Context(), true, nil); err != nil || w.s.Status().WaitingBytes > 0 {
		t.Errorf("%v, %+v", err, w.s.Status())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.step()
	if w.target.writes != before {
		t.Errorf("%d objects were written", w.target.writes-before)
	}
	w.write() // over what was rolled back
	w.step()
	w.restore(time.Time{})
}

// A program of the operator may move the log into the database behind our back: a generation begins.
func TestSomebodyElseMovesTheLog(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.write()
	other := testenv.Must(sql.Open("sqlite", filepath.Join(w.dir, "stepboard.db")))
	if _, err := other.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	w.write()
	w.step()
	w.step()
	w.tend()
	if s := w.s.Status(); s.Generation != 2 || !s.Whole {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// collects is a stores.LogReader.
type collects func(ctx context.Context, wait bool, move func() (uint32, error)) error

func (c collects) Collect(ctx context.Context, wait bool, move func() (uint32, error)) error {
	return c(ctx, wait, move)
}

// A commit after the first part of a checkpoint begins the log anew if that part has moved all of it.
func TestACommitWithinACheckpoint(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.write()
	parts := 0
	log := testenv.Must(w.st.OpenLog(t.Context(), collects(func(ctx context.Context, wait bool, move func() (uint32, error)) error {
		if parts++; parts == 2 {
			return stores.ErrNotYet
		}
		return w.s.Collect(ctx, wait, move)
	})))
	defer log.Close()
	before := testenv.Must(os.ReadFile(filepath.Join(w.dir, "stepboard.db-wal")))
	if err := w.st.Checkpoint(t.Context()); !errors.Is(err, stores.ErrNotYet) {
		t.Fatal(err)
	}
	w.write()
	if after := testenv.Must(os.ReadFile(filepath.Join(w.dir, "stepboard.db-wal"))); bytes.Equal(before[16:24], after[16:24]) {
		t.Fatal("the log goes on")
	}
	w.step()
	w.step()
	w.tend()
	if s := w.s.Status(); s.Generation != 1 {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// A database that is not what its copies say is found out by the next full copy.
func TestCopiesAreChecked(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.write()
	w.step()
	w.s.chain.sums[3] ^= 1
	w.s.chain.sum ^= 1
	w.write()
	w.step()
	w.clock.Advance(fullEvery)
	if err := w.s.Tend(t.Context()); err == nil {
		t.Error("a full copy was made")
	}
	w.step()
	w.clock.Advance(tendAgain)
	w.tend()
	if s := w.s.Status(); s.Generation != 2 || !s.Whole {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// The check before a full copy proves the chain also right after the log was moved into the database, and after
// it was begun anew.
func TestTheCheckIsRightAfterTheLogWasMoved(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string]func(w *world){
		"nothing follows": func(*world) {}, "a commit follows": (*world).write,
		"it is cut": func(w *world) { // one that is larger than what is kept of it
			w.grow(20)
			w.step()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t)
			w.grow(6)
			w.step()
			w.clock.Advance(fullEvery)
			commit(w)
			tended := make(chan error)
			go func() { tended <- w.s.tend(t.Context()) }()
			for ended := false; !ended; {
				select {
				case err := <-tended:
					if ended = true; err != nil {
						t.Fatal(err)
					}
				default:
					w.step()
				}
			}
			if s := w.s.Status(); s.Generation != 1 || !s.Whole {
				t.Errorf("%+v", s)
			}
			w.restore(time.Time{})
		})
	}
}

var sqlReadOnly = sql.TxOptions{ReadOnly: true}

// A generation whose beginning fails when the target has it already is begun later, and is nobody else's.
func TestAGenerationThatIsHalfBegun(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.s.mu.Lock()
	w.s.lose(t.Context(), errors.New("a test"))
	w.s.mu.Unlock()
	goesOn := w.s.o.Pause
	w.s.o.Pause = func(context.Context, time.Duration) error { return io.ErrUnexpectedEOF }
	for range 3 {
		w.write()
		w.clock.Advance(2 * generationCheck)
		if err := w.s.Step(t.Context()); w.target.objects[backups.GenerationObject(2)] == nil || errors.Is(err, ErrSuperseded) {
			t.Fatal(err)
		}
	}
	w.s.o.Pause = goesOn
	w.step()
	w.step()
	if s := w.s.Status(); s.Generation != 2 || !s.Whole || s.Superseded {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// A start that can't go on with its chain is deliberate: it begins a generation, whoever has begun a later one.
func TestAStartWithoutAChain(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.close()
	w.target.set(func() { w.target.objects[backups.GenerationObject(2)] = []byte(`{"id":"another","layout":2}`) })
	st := testenv.Must(stores.OpenFolder(t.Context(), w.dir, w.clock.Now))
	testenv.Must(st.SQL.ExecContext(t.Context(), "INSERT INTO things (content) VALUES ('by somebody else')"))
	testenv.Must(0, st.Close())
	w.open()
	w.step()
	w.step()
	if s := w.s.Status(); s.Generation != 3 || !s.Whole || s.Superseded {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// A process that was killed between two generations still knows where it has made copies.
func TestKilledBetweenGenerations(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.s.mu.Lock()
	w.s.lose(t.Context(), errTooMuchWaits)
	w.s.mu.Unlock()
	w.s.o.Pause = func(context.Context, time.Duration) error { return io.ErrUnexpectedEOF }
	w.clock.Advance(generationCheck)
	if err := w.s.Step(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	disk := w.target.objects
	w.target.set(func() { w.target.objects = make(map[string][]byte) })
	w.kill()
	if err := w.s.Step(t.Context()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("without its disk: %v", err)
	}
	w.target.set(func() { w.target.objects = disk })
	w.step()
	w.step()
	if s := w.s.Status(); s.Generation != 3 || !s.Whole {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}

// A wish to begin anew ends after a day.
func TestAnOldWish(t *testing.T) {
	t.Parallel()
	w := begun(t)
	w.target.set(func() {
		clear(w.target.objects)
		w.target.objects[backups.BeginObject] = testenv.Must(json.Marshal(backups.Beginning{AskedAt: w.clock.Now()}))
	})
	w.clock.Advance(wishFor + time.Minute)
	for range 2 {
		if err := w.s.Step(t.Context()); !errors.Is(err, ErrElsewhere) || len(w.target.objects) != 0 {
			t.Fatalf("%v, %v", err, w.target.objects)
		}
	}
}

// A generation that begins when the log was just moved into the database goes on when the log begins anew.
func TestTheLogWasMovedBeforeTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write()
	if err := w.st.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.step()
	w.write()
	w.step()
	w.step()
	if s := w.s.Status(); s.Generation != 1 || !s.Whole {
		t.Errorf("%+v", s)
	}
	w.restore(time.Time{})
}
