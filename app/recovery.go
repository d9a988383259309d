package app

import (
	"context"
	"time"

	"stepboard/internal/keys"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/people/directory"
	"stepboard/services/platform/recovery"
)

// newQueueDetector returns the loss detector of queued updates. Only a consumer
// writes such updates to the boards.
func newQueueDetector(o Options, names keys.Builder) recovery.Detector {
	if o.Roles.Consumer {
		return recovery.NewWriterDetector(o.Stores.Redis, names, recovery.Queue)
	}
	return recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Queue)
}

// archiveRecovery returns the recovery that the archive asks whether Redis may lack
// queued updates, or nil without a queue.
func (a *App) archiveRecovery(o Options) archive.Recovery {
	if o.Config.Ingest.Mode == "direct" {
		return nil
	}
	return &recovery.Recovery{Detector: a.losses, Timeout: replayTimeout}
}

// reconciliation returns the work that raises what boards lack of the ledger. Boards in memory
// lose nothing, but lack the increments of a transaction that has committed although it seemed to
// fail.
func (a *App) reconciliation(o Options) jobs.Work {
	if o.local() {
		return func(ctx context.Context) (int64, error) {
			restored, upto, err := a.Reconciler.Replay(ctx, recovery.Loss{CheckpointedAt: a.reconciled})
			if err == nil {
				a.reconciled = upto
			}
			return restored, err
		}
	}
	names := keys.Builder{Prefix: o.Config.Redis.KeyPrefix}
	r := &recovery.Recovery{Detector: recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Ledger), Replay: a.Reconciler.Replay}
	return r.Run
}

// whole returns the function that says whether Redis may lack updates of a bucket: those of the
// ledger, or those of the queue. Boards in memory lack none: they are loaded before anything is
// served.
func (a *App) whole(o Options) func(context.Context, *models.Bucket) error {
	if o.local() {
		return func(context.Context, *models.Bucket) error { return nil }
	}
	names := keys.Builder{Prefix: o.Config.Redis.KeyPrefix}
	ledger := recovery.Recovery{Detector: recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Ledger), Timeout: replayTimeout}
	queue := recovery.Recovery{Detector: recovery.NewRedisDetector(o.Stores.Redis, names, recovery.Queue), Timeout: replayTimeout}
	queued := o.Config.Ingest.Mode != "direct"
	return func(ctx context.Context, bucket *models.Bucket) error {
		switch {
		case bucket.FromLedger:
			return ledger.Complete(ctx)
		case queued:
			return queue.Complete(ctx)
		default:
			return nil
		}
	}
}

// newReplayJob returns the job that replays the queue after a loss. It is not
// traced: it runs every two seconds, nearly always for nothing.
func (a *App) newReplayJob() jobs.Job {
	r := recovery.Recovery{
		Detector: a.losses, Replay: a.Replayer.Replay, Lease: "ingest/rewind", Leases: a.leases, Timeout: replayTimeout,
	}
	job := jobs.Replay(r.Run)
	job.MetricsOnly = a.consumer == nil
	return job
}

// newSetsJob returns the job that drops cached sets after a loss, and restores the copies of
// users' records. Every process that changes such sets runs it. It is not traced either.
func (a *App) newSetsJob(o Options) jobs.Job {
	names := keys.Builder{Prefix: o.Config.Redis.KeyPrefix}
	// Records are dated by the database's clock, which is that of machines.
	drop := a.copies.DropStale(o.Machine)
	r := recovery.Recovery{
		Detector: recovery.NewWriterDetector(o.Stores.Redis, names, recovery.Sets),
		Replay: func(ctx context.Context, loss recovery.Loss) (rows int64, upto time.Time, err error) {
			rows, upto, err = drop(ctx, loss)
			if err != nil || loss.Extent == recovery.NothingLost && upto.Sub(loss.CheckpointedAt) < directory.GapToRestore {
				return rows, upto, err
			}
			records, err := a.Directory.Restore(ctx, loss.CheckpointedAt)
			return rows + records, upto, err
		},
	}
	job := jobs.Sets(r.Run)
	job.MetricsOnly = !o.Roles.API
	return job
}
