package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// digestEvery is how soon a digest begins once it is due, or goes on after its process died.
	digestEvery = 15 * time.Second
	// digestDeadline leaves time for some millions of users. What is left goes on with the next
	// run.
	digestDeadline = time.Hour
)

// Digest returns the job that writes digests. Its rows are the users who have got one.
func Digest(run func(ctx context.Context) (users int64, err error)) Job {
	return Job{
		Name: "digest", Schedule: cron.Every(digestEvery), Deadline: digestDeadline, AtStart: true, Frequent: true, Run: run,
	}
}

// FirstFiring returns a function that returns the first firing of a cron expression at or after
// a time, in the time's zone. The error is that of CheckSpec.
func FirstFiring(spec string) (func(time.Time) time.Time, error) {
	schedule, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return func(from time.Time) time.Time { return schedule.Next(from.Add(-time.Second)) }, nil
}
