package pause_test

import (
	"context"
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
			if err := pause.Rest(t.Context(), began, tt.times); err != nil || time.Since(start) != tt.want {
				t.Errorf("after %v, %d times: %v, %v", tt.step, tt.times, time.Since(start), err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := pause.Rest(ctx, time.Now().Add(-time.Hour), 1); err == nil {
			t.Error("a rest goes on after its context")
		}
	})
}
