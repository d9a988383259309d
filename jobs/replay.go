package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// replayEvery bounds how long a loss goes unnoticed.
	replayEvery = 2 * time.Second
	// replayDeadline leaves time to apply all that a queue has kept. A replay that
	// is cut off begins anew.
	replayDeadline = 24 * time.Hour
)

// Replay returns the job that applies queued updates again after the boards'
// Redis has lost some. Its rows are the updates.
//
// It runs on every process that consumes the queue, and takes no lease of the
// scheduler: so any of them notices a loss within two seconds, and while nothing
// is lost none of them asks Postgres. The replay itself takes a lease.
func Replay(recover func(ctx context.Context) (updates int64, err error)) Job {
	return Job{
		Name: "replay", Schedule: cron.Every(replayEvery), Deadline: replayDeadline, AtStart: true, Frequent: true,
		Transient: true, OwnLease: true,
		Run: func(ctx context.Context) (int64, error) {
			updates, err := recover(ctx)
			if err != nil {
				return updates, fmt.Errorf("restore what the boards' Redis has lost of the queue: %w", err)
			}
			return updates, nil
		},
	}
}
