package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
)

const (
	// correctEvery bounds how long global lists show a score that a process has reported
	// to the board because it did not know of the correction.
	correctEvery    = 5 * time.Second
	correctDeadline = time.Minute
	// correctArchiveEvery is how often archived days with pending corrections are looked
	// for, and correctArchiveDeadline leaves time to rank large ones.
	correctArchiveEvery    = 10 * time.Second
	correctArchiveDeadline = 6 * time.Hour
)

// Correct returns the job that makes the boards in Redis agree with the corrections. Its
// rows are the entries that it has changed.
func Correct(apply func(ctx context.Context) (changed int64, err error)) Job {
	return Job{
		Name: "correct", Schedule: cron.Every(correctEvery), Deadline: correctDeadline, AtStart: true, Frequent: true,
		Transient: true, Run: apply,
	}
}

// CorrectArchive returns the job that applies pending corrections to archived buckets, each
// by a run of the archive. Its rows are the buckets.
func CorrectArchive(pending func(ctx context.Context) ([]*models.Bucket, error), archiver Archiver) Job {
	return Job{
		Name: "correct-archive", Schedule: cron.Every(correctArchiveEvery), Deadline: correctArchiveDeadline, AtStart: true,
		Frequent: true,
		Run: func(ctx context.Context) (corrected int64, err error) {
			buckets, err := pending(ctx)
			if err != nil {
				return 0, err
			}
			var failed []error
			for _, bucket := range buckets {
				_, err := archiver.Archive(ctx, bucket, func(int64) {})
				switch {
				case err == nil:
					corrected++
				case models.CodeOf(err) != models.CodeArchiveRunning: // otherwise the next run of the job follows
					failed = append(failed, err)
				}
			}
			return corrected, errors.Join(failed...)
		},
	}
}
