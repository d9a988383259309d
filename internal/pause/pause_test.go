package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/internal/pause"
)

// A rest is a multiple of the step before it, and at most a second.
func TestRest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		step  time.Duration
		times int
		want  time.Duration
	}{
		{10 * time.Millisecond, 1, 10 * time.Millisecond},
		{10 * time.Millisecond, 4, 40 * time.Millisecond},
		{time.Minute, 4, time.Second},
		{0, 4, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			<-time.After(tt.step)
			start := time.Now()
			if err := pause.After(t.Context(), began, tt.times); err != nil || time.Since(start) != tt.want {
				t.Errorf("after %v, %d times: %v, %v", tt.step, tt.times, time.Since(start), err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := pause.After(ctx, time.Now().Add(-time.Hour), 1); err == nil {
			t.Error("a rest goes on after its context")
		}
	})
}

// Long work is done in steps, and rests after each as long as it took. It ends with a step that is
// not full, or with its caller.
func TestChunks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		left := int64(2*pause.ChunkRows + 100)
		step := func(limit int) (int64, error) {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // of the bubble
			n := min(left, int64(limit))
			left -= n
			return n, nil
		}
		began := time.Now()
		if rows, err := pause.Chunks(ctx, step); rows != 2*pause.ChunkRows+100 || err != nil || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%d rows after %v: %v", rows, time.Since(began), err)
		}
		left = 10 * pause.ChunkRows
		cancel()
		if rows, err := pause.Chunks(ctx, step); rows != pause.ChunkRows || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d rows: %v", rows, err)
		}
	})
}
