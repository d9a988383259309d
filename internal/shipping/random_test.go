package shipping

import (
	"fmt"
	"testing"
	"time"

	"stepboard/internal/backups"
	"stepboard/internal/testenv"
)

// Whatever happens, what is restored is what was committed when the last step before that moment ended.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			w.write()
			w.step()
			w.tend()
			whole := w.clock.Now()
			for range 60 {
				switch w.random.IntN(8) {
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
				default:
					w.write()
				}
				w.step()
			}
			if testenv.Must(backups.Generations(t.Context(), w.target))[0] != 1 || w.s.Status().Generation != 1 {
				t.Errorf("it is generation %d", w.s.Status().Generation)
			}
			w.restore(time.Time{})
			for range 10 {
				w.restore(whole.Add(time.Duration(w.random.Int64N(int64(w.clock.Now().Sub(whole))))))
			}
		})
	}
}
