package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// resultsEvery is how soon the result of an event is announced once it is due.
	resultsEvery = 10 * time.Second
	// resultsDeadline leaves time to rank very large events.
	resultsDeadline = 10 * time.Minute
)

// Results returns the job that announces the results of events that have ended. Its rows are
// the results.
func Results(announce func(ctx context.Context) (announced int64, err error)) Job {
	return Job{
		Name: "results", Schedule: cron.Every(resultsEvery), Deadline: resultsDeadline, AtStart: true, Frequent: true,
		Run: announce,
	}
}
