package reading_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/internal/reading"
)

// Calls that arrive during a reading share the next one and its error: what they ask for may
// have changed after the first one began. A call whose context ends waits no longer.
func TestCallsShareAReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, proceed, failed := reading.New(time.Hour), make(chan struct{}), errors.New("failed")
		readings := 0
		read := func(context.Context) error {
			readings++
			<-proceed
			return failed
		}
		var running sync.WaitGroup
		var shares atomic.Int64
		call := func() {
			others, err := shared.Share(t.Context(), read)
			if !errors.Is(err, failed) {
				t.Error(err)
			}
			if others {
				shares.Add(1)
			}
		}
		running.Go(call)
		synctest.Wait()
		for range 50 {
			running.Go(call)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := shared.Share(ended, read); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		close(proceed)
		running.Wait()
		if readings != 2 || shares.Load() != 49 {
			t.Errorf("%d readings for 51 calls, want 2; %d calls share one, want 49", readings, shares.Load())
		}
		// One that must read itself does, and those that wait for it share its reading.
		proceed = make(chan struct{})
		running.Go(func() {
			if err := shared.Do(t.Context(), read); !errors.Is(err, failed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		running.Go(func() { _ = shared.Do(t.Context(), read) })
		synctest.Wait()
		running.Go(call)
		synctest.Wait()
		close(proceed)
		running.Wait()
		if readings != 4 || shares.Load() != 50 {
			t.Errorf("%d readings, want 4; %d calls share one, want 50", readings, shares.Load())
		}
	})
}

// Seldom reads once within its pause, and again after it.
func TestSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, readings := reading.New(time.Hour), 0
		for range 5 {
			for range 3 {
				if err := shared.Seldom(t.Context(), time.Minute, func(context.Context) error { readings++; return nil }); err != nil {
					t.Error(err)
				}
			}
			<-time.After(time.Minute)
		}
		if readings != 5 {
			t.Errorf("%d readings", readings)
		}
	})
}
