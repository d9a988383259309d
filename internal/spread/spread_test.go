package spread_test

import (
	"testing"
	"time"

	"stepboard/internal/spread"
)

// Of a thousand consecutive numbers about a hundred are in each tenth.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{0, 1_000_000, 1 << 52} {
		var tenths [10]int
		for n := first; n < first+1000; n++ {
			d := spread.Of(n, 10*time.Minute)
			if d < 0 || d >= 10*time.Minute || d != spread.Of(n, 10*time.Minute) {
				t.Fatalf("%d: %v", n, d)
			}
			tenths[d/time.Minute]++
		}
		for i, n := range tenths {
			if n < 90 || n > 110 {
				t.Errorf("from %d on: %d in tenth %d", first, n, i)
			}
		}
	}
}
