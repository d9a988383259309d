package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
)

// archiveDeadline bounds one run. Buckets that are left over are archived by
// the next one.
const archiveDeadline = 6 * time.Hour

// Archiver archives buckets.
type Archiver interface {
	EnsurePartitions(ctx context.Context) error
	Due(ctx context.Context) ([]*models.Bucket, error)
	Archive(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (models.ArchiveRun, error)
	DropExpired(ctx context.Context, months int) (int, error)
}

// Archive returns the job that archives every bucket that is due, and drops
// months that are older than the archive keeps. Its rows are the entries moved.
// A bucket that fails does not prevent the others from being archived.
func Archive(archiver Archiver, schedule cron.Schedule, retainMonths int) Job {
	return Job{
		Name: "archive", Schedule: schedule, Deadline: archiveDeadline, AtStart: true,
		Run: func(ctx context.Context) (int64, error) {
			rows, err := archiveDue(ctx, archiver)
			_, expireErr := archiver.DropExpired(ctx, retainMonths)
			return rows, errors.Join(err, expireErr)
		},
	}
}

// archiveDue archives the buckets that are due.
func archiveDue(ctx context.Context, archiver Archiver) (rows int64, err error) {
	if err := archiver.EnsurePartitions(ctx); err != nil {
		return 0, err
	}
	due, err := archiver.Due(ctx)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, bucket := range due {
		if ctx.Err() != nil {
			return rows, errors.Join(append(failed, context.Cause(ctx))...)
		}
		run, err := archiver.Archive(ctx, bucket, func(int64) {})
		// An operator's command may be archiving it already.
		if err != nil && models.CodeOf(err) != models.CodeArchiveRunning {
			failed = append(failed, err)
		}
		rows += run.Moved
	}
	return rows, errors.Join(failed...)
}
