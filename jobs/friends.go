package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// doubtEvery is how long a friend list may be believed that Redis has brought
	// back from before a change.
	doubtEvery = 5 * time.Second
	// doubtDeadline leaves time to walk over all keys.
	doubtDeadline = 10 * time.Minute
)

// Friends drops what Redis keeps of friend lists where it may have forgotten
// changes; its rows are the lists.
func Friends(doubt func(ctx context.Context) (dropped int64, err error)) Job {
	return Job{Name: "friends", Schedule: cron.Every(doubtEvery), Deadline: doubtDeadline, AtStart: true, Frequent: true, Run: doubt}
}
