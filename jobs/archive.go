package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
	"stepboard/services/boards/archive"
)

// archiveDeadline bounds one run. Buckets that are left over are archived by
// the next one.
const archiveDeadline = 6 * time.Hour

// Archive returns the job that archives every bucket that is due, and drops
// months that are older than the archive keeps, but for those from the day on that needed returns,
// unless that is nil. Its rows are the entries moved.
func Archive(
	archiver *archive.Service, schedule cron.Schedule, retainMonths int, needed func(context.Context) (*models.Date, error),
) Job {
	return Job{
		Name: "archive", Schedule: schedule, Deadline: archiveDeadline,
		Run: func(ctx context.Context) (moved int64, err error) {
			err = archiver.EnsurePartitions(ctx)
			var due []*models.Bucket
			if err == nil {
				due, err = archiver.Due(ctx)
			}
			if err == nil {
				_, moved, err = archiveAll(ctx, archiver, due)
			}
			first, expireErr := needed(ctx)
			if expireErr == nil {
				_, expireErr = archiver.DropExpired(ctx, retainMonths, first)
			}
			return moved, errors.Join(err, expireErr)
		},
	}
}

// CorrectArchive returns the job that applies pending corrections to archived buckets, each
// by a run of the archive. Its rows are the buckets.
func CorrectArchive(pending func(ctx context.Context) ([]*models.Bucket, error), archiver *archive.Service) Job {
	return frequent("correct-archive", 10*time.Second, archiveDeadline, func(ctx context.Context) (corrected int64, err error) {
		buckets, err := pending(ctx)
		if err != nil {
			return 0, err
		}
		corrected, _, err = archiveAll(ctx, archiver, buckets)
		return corrected, err
	})
}

// archiveAll archives buckets, and returns how many, and how many entries were moved. A
// bucket that fails does not prevent the others from being archived.
func archiveAll(ctx context.Context, archiver *archive.Service, buckets []*models.Bucket) (archived, moved int64, err error) {
	var failed []error
	for _, bucket := range buckets {
		if ctx.Err() != nil {
			failed = append(failed, context.Cause(ctx))
			break
		}
		run, err := archiver.Archive(ctx, bucket, func(int64) {})
		moved += run.Moved
		switch {
		case err == nil:
			archived++
		case models.CodeOf(err) != models.CodeArchiveRunning: // an operator's command may be archiving it already
			failed = append(failed, err)
		}
	}
	return archived, moved, errors.Join(failed...)
}
