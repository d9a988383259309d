package shipping

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/internal/backups"
	"stepboard/internal/testenv"
)

// Days later, any second of the last day and any hour of the last week can be restored, and there is
// not much more.
func TestRetention(t *testing.T) {
	t.Parallel()
	w := begun(t)
	const days = 10
	var seconds, hours []time.Time
	for hour := range days * 24 {
		if hour == 30 { // the first generation ends
			w.close()
			if err := os.RemoveAll(filepath.Join(w.dir, waitingFolder)); err != nil {
				t.Fatal(err)
			}
			w.open()
		}
		for range 4 {
			w.clock.Advance(time.Duration(1+w.random.IntN(600)) * time.Second)
			w.write()
			w.step()
			if hour >= (days-1)*24+1 {
				seconds = append(seconds, w.clock.Now())
			}
		}
		w.clock.Set(testenv.Noon.Add(time.Duration(hour+1) * time.Hour))
		w.step()
		w.tend()
		w.tend()
		if hour >= 3*24+1 && hour%7 == 0 {
			hours = append(hours, w.clock.Now())
		}
	}
	if got := testenv.Must(backups.Generations(t.Context(), w.target)); len(got) != 1 || got[0].Number != 2 {
		t.Errorf("there are generations %v", got)
	}
	count := make(map[string]int)
	for name := range w.target.objects {
		if parts := strings.Split(name, "/"); len(parts) == 4 {
			count[parts[2]]++
		}
	}
	if count["each"] > 4*26 || count["hour"] > 9*24 || count["full"] > 2*9 {
		t.Errorf("there are %v objects", count)
	}
	for _, at := range append(seconds[len(seconds)-20:], hours...) {
		w.restore(at)
	}
	w.restore(time.Time{})
}

// What generations stand upon stays as long as any second of the last day, or any hour of what is retained, needs
// it, and not for longer.
func TestRetentionOfBases(t *testing.T) {
	t.Parallel()
	w := begun(t)
	const retain, hours = 30 * time.Hour, 5 * 24
	w.s.o.Retain = retain
	var moments []time.Time
	for hour := range hours {
		if w.random.IntN(9) == 0 {
			w.lose(w.clock.Now().Add(-time.Duration(w.random.IntN(min(hour*3600+1, 23*3600))) * time.Second))
			w.s.o.Retain = retain
		}
		for range 3 {
			w.clock.Advance(time.Duration(1+w.random.IntN(900)) * time.Second)
			w.write()
			w.step()
			if hour > hours-23 {
				moments = append(moments, w.clock.Now())
			}
		}
		w.clock.Set(testenv.Noon.Add(time.Duration(hour+1) * time.Hour))
		w.step()
		w.tend()
		if hour > hours-29 {
			moments = append(moments, w.clock.Now())
		}
		for back := range min(hour+1, 29) {
			if w.random.IntN(20) == 0 {
				w.restore(testenv.Noon.Add(time.Duration(hour+1-back) * time.Hour))
			}
		}
	}
	for _, at := range moments {
		w.restore(at)
	}
	oldest, last := testenv.Must(backups.Generations(t.Context(), w.target))[0].Number, w.s.Status().Generation
	if last < 6 || oldest == 1 {
		t.Errorf("of %d generations the first that is kept is number %d", last, oldest)
	}
}
