//go:build !race

package board_test

import (
	"strconv"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

func TestWeekOfARollingBoard(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct{ window, shards int }{{24, 1}, {3, 5}} {
		t.Run(strconv.Itoa(shape.window), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, env *testenv.Env, open opener) {
				// So small a largest score that users reach it all the time.
				w := newWeek(env, open, rollingBucket(shape.window, shape.shards, 300))
				start := testenv.Noon.Truncate(24 * time.Hour)
				for minute := range 7 * 24 * 60 {
					w.minute(t, start.Add(time.Duration(minute)*time.Minute))
				}
				if w.settled < 100 || w.gone < 100 || w.increases < 10_000 {
					t.Errorf("%d hours drained, %d users left, %d increments: the week was too quiet", w.settled, w.gone, w.increases)
				}
				w.rebuild(t)
			})
		})
	}
}
