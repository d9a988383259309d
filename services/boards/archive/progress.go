package archive

import (
	"context"
	"sync"
	"time"

	"stepboard/models"
)

// progressTimeout bounds the statement that stores a run's progress.
const progressTimeout = 5 * time.Second

// reportProgress returns a function that stores the number of entries that a run has moved, sooner or
// later, unless a newer figure replaces it before. It does not wait; one goroutine at a time may call it.
// The caller must call stop, which waits for the last statement.
//
// A goroutine of its own stores the progress. The run holds a connection while it copies rows, so it
// must never wait for a second one: runs that do so can take a whole pool and wait for each other for ever.
func (s *Store) reportProgress(ctx context.Context, run models.ArchiveRun) (report func(moved int64), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	latest := make(chan int64, 1) // the newest figure that was not stored yet
	var reporter sync.WaitGroup
	reporter.Go(func() {
		for {
			select {
			case moved := <-latest:
				s.storage.storeProgress(ctx, &run, moved)
			case <-ctx.Done():
				return
			}
		}
	})
	report = func(moved int64) {
		select {
		case <-latest:
		default:
		}
		latest <- moved
	}
	return report, func() {
		cancel()
		reporter.Wait()
	}
}
