package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// staleFriendsEvery bounds how long a friend list is believed that Redis has
	// restored from before a change.
	staleFriendsEvery = 5 * time.Second
	// staleFriendsDeadline leaves time to walk over all keys.
	staleFriendsDeadline = 10 * time.Minute
)

// Friends returns the job that drops friend lists from Redis if Redis may have
// forgotten changes to them. Its rows are the lists.
//
// It runs on every process that changes friendships, and takes no lease of the
// scheduler: only the process itself can notice that it wrote to a master that
// another one had replaced. The dropping takes a lease.
func Friends(dropStale func(ctx context.Context) (dropped int64, err error)) Job {
	return Job{
		Name: "friends", Schedule: cron.Every(staleFriendsEvery), Deadline: staleFriendsDeadline,
		AtStart: true, Frequent: true, Transient: true, OwnLease: true, Run: dropStale,
	}
}
