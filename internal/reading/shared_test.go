package catalog

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// Calls that arrive during a query share the next one and its error: what they ask for may
// have changed after the first one began. A call whose context ends waits no longer.
func TestCallsShareAQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, proceed, failed := newSharedReading(), make(chan struct{}), errors.New("failed")
		queries := 0
		query := func(context.Context) error {
			queries++
			<-proceed
			return failed
		}
		var running sync.WaitGroup
		call := func() {
			if err := shared.read(t.Context(), query); !errors.Is(err, failed) {
				t.Error(err)
			}
		}
		running.Go(call)
		synctest.Wait()
		for range 50 {
			running.Go(call)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := shared.read(ended, query); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		close(proceed)
		running.Wait()
		if queries != 2 {
			t.Errorf("%d queries for 51 calls, want 2", queries)
		}
	})
}
