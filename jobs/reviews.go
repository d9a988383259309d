package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// reviewEvery bounds how long a score goes unnoticed that operators should look at.
	reviewEvery = time.Minute
	// reviewDeadline leaves time for a board most of whose scores are to be looked at.
	reviewDeadline = 10 * time.Minute
)

// Reviews returns the job that lists scores for operators to look at. Its rows are the
// scores that are new on the list or have risen.
func Reviews(find func(ctx context.Context) (found int64, err error)) Job {
	return Job{
		Name: "reviews", Schedule: cron.Every(reviewEvery), Deadline: reviewDeadline, AtStart: true, Frequent: true, Run: find,
	}
}
