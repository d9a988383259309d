package jobs

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// staleSetsEvery bounds how long a cached set is believed that Redis has restored
	// from before a change.
	staleSetsEvery    = 5 * time.Second
	staleSetsDeadline = time.Minute
)

// Sets returns the job that drops cached sets, such as friend lists, if Redis may have
// forgotten changes to them. Its rows are the stripes whose sets are dropped.
//
// It runs on every process that changes such sets: only the process itself can notice
// that it wrote to a master that another one had replaced. It takes no lease, so that
// outdated sets are dropped while Postgres is away, too. Dropping twice does no harm.
func Sets(dropStale func(ctx context.Context) (dropped int64, err error)) Job {
	return Job{
		Name: "sets", Schedule: cron.Every(staleSetsEvery), Deadline: staleSetsDeadline, AtStart: true, Frequent: true,
		Transient: true, OwnLease: true, Run: dropStale,
	}
}
