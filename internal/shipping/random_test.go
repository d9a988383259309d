package shipping

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stepboard/internal/backups"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// lose loses the folder, and restores what the target has of a time, zero for the newest, into another one, which
// somebody may change before it is served.
func (w *world) lose(at time.Time) {
	w.t.Helper()
	dir := w.t.TempDir()
	path := filepath.Join(dir, "stepboard.db")
	testenv.Must(0, os.WriteFile(path, nil, 0o600))
	restored := testenv.Must(backups.Restore(w.t.Context(), w.target, path, at, func(backups.Progress) {}))
	folder := testenv.Must(stores.LockFolder(dir))
	testenv.Must(0, KeepBase(folder, "memory", restored))
	folder.Close()
	if w.random.IntN(2) == 0 {
		st := testenv.Must(stores.OpenFolder(w.t.Context(), dir, w.clock.Now))
		testenv.Must(st.SQL.ExecContext(w.t.Context(), "INSERT OR REPLACE INTO things VALUES (7, randomblob(9000))"))
		testenv.Must(0, st.Close())
	}
	old, log := w.st, w.s.log
	w.dir = dir
	w.open()
	testenv.Must(0, errors.Join(log.Close(), old.Close()))
}

// away is some steps in which the target can't be reached, is full, has become another one or is served a lie, while
// the folder goes on. Each of them says so.
func (w *world) away() {
	w.t.Helper()
	objects := w.target.objects
	switch w.random.IntN(4) {
	case 0:
		w.target.set(func() { w.target.fail = errors.New("away") })
	case 1:
		w.target.set(func() { w.target.full = errors.New("full") })
	case 2:
		w.target.set(func() { w.target.objects = make(map[string][]byte) })
	default:
		w.target.set(func() {
			w.target.objects = map[string][]byte{backups.GenerationObject(w.s.Status().Generation): []byte(`{"id":"another"}`)}
		})
	}
	written := len(w.target.objects)
	for range 1 + w.random.IntN(3) {
		w.write()
		if w.random.IntN(3) == 0 {
			w.kill()
		}
		w.clock.Advance(generationCheck)
		if err := w.s.Step(w.t.Context()); err == nil || w.s.Status().Err == nil {
			w.t.Errorf("nothing is said: %+v", w.s.Status())
		}
	}
	if len(w.target.objects) != written {
		w.t.Error("something was written")
	}
	w.target.set(func() { w.target.fail, w.target.full, w.target.objects = nil, nil, objects })
	for w.s.Status().WaitingBytes > 0 || w.s.Status().Generation == 0 {
		w.step()
	}
}

// Whatever happens, what is restored is what was committed when the last step before that moment ended.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	first := uint64(0)
	if testenv.AllForms() {
		first = uint64(time.Now().UnixNano())
	}
	for seed := range uint64(testenv.Rounds(8, 300)) {
		t.Run(fmt.Sprint(first+seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, first+seed)
			w.target.local = seed%2 == 1
			w.write()
			w.step()
			whole, lost := w.clock.Now(), uint64(0)
			for range 60 {
				switch w.random.IntN(11) {
				case 0:
					w.tend()
				case 1:
					if err := w.st.Checkpoint(t.Context()); err != nil {
						t.Fatal(err)
					}
				case 2:
					w.clock.Advance(time.Duration(w.random.IntN(5*3600)) * time.Second)
				case 3:
					w.kill()
				case 4:
					w.close()
					w.open()
				case 5:
					w.lose(time.Time{})
					lost++
				case 6:
					w.away()
				case 7:
					for range w.random.IntN(3) { // what is collected and not shipped
						w.write()
						testenv.Must(0, w.s.Collect(t.Context(), true, nil))
					}
					w.cut()
				default:
					w.write()
				}
				for w.step(); w.s.Status().WaitingBytes > 0; {
					w.step()
				}
				w.step() // it ships what waits before it collects
				if s := w.s.Status(); !s.Whole && s.Generation > 1+lost {
					t.Errorf("%+v", s)
				}
				w.restore(time.Time{})
			}
			if got := w.s.Status().Generation; got > 1+lost {
				t.Errorf("it is generation %d after the folder was lost %d times", got, lost)
			}
			for range 10 {
				w.restore(whole.Add(time.Duration(w.random.Int64N(int64(w.clock.Now().Sub(whole))))))
			}
		})
	}
}
