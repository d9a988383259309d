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
func Friends(dropStale func(ctx context.Context) (dropped int64, err error)) Job {
	return Job{Name: "friends", Schedule: cron.Every(staleFriendsEvery), Deadline: staleFriendsDeadline, AtStart: true, Frequent: true, Run: dropStale}
}
