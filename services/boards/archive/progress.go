package archive

import (
	"context"
	"time"

	"stepboard/models"
)

// progressTimeout bounds the statement that stores a run's progress.
const progressTimeout = 5 * time.Second

// progressReporter stores the progress of a run from a goroutine of its own. The
// run holds a connection while it copies rows, so it must never wait for a second
// one: runs that do so can take a whole pool and wait for each other for ever.
type progressReporter struct {
	// latest holds the newest figure that was not stored yet.
	latest chan int64
	cancel context.CancelFunc
	done   chan struct{}
}

// reportProgress returns a reporter for the run. The caller must call stop.
func (s *Store) reportProgress(ctx context.Context, run models.ArchiveRun) *progressReporter {
	ctx, cancel := context.WithCancel(ctx)
	r := &progressReporter{latest: make(chan int64, 1), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			select {
			case moved := <-r.latest:
				s.storage.storeProgress(ctx, &run, moved)
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

// report stores the number of entries moved, sooner or later, unless a newer
// figure replaces it before. It does not wait. One goroutine at a time may call it.
func (r *progressReporter) report(moved int64) {
	select {
	case <-r.latest:
	default:
	}
	r.latest <- moved
}

// stop ends the reporter and waits for its last statement.
func (r *progressReporter) stop() {
	r.cancel()
	<-r.done
}
