package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// eraseEvery bounds how long after a call the first sweep begins.
	eraseEvery = 2 * time.Second
	// eraseDeadline leaves time for many erasures at once.
	eraseDeadline = time.Hour
	// guardEvery bounds how long an earlier state of Redis shows lines of erased users.
	guardEvery    = time.Minute
	guardDeadline = 10 * time.Minute
)

// Erase returns the job that removes what is stored about users who are erased. Its rows
// are what it has removed.
func Erase(run func(ctx context.Context) (removed int64, err error)) Job {
	return Job{
		Name: "erase", Schedule: cron.Every(eraseEvery), Deadline: eraseDeadline, AtStart: true, Frequent: true,
		Transient: true, Run: run,
	}
}

// EraseAgain returns the job that erases users once more from a Redis that has returned to
// a state before their erasure. Its rows are the entries and keys.
func EraseAgain(guard func(ctx context.Context) (removed int64, err error)) Job {
	return Job{
		Name: "erase-again", Schedule: cron.Every(guardEvery), Deadline: guardDeadline, AtStart: true, Frequent: true,
		Transient: true, Run: guard,
	}
}
