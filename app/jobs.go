package app

import (
	"context"
	"fmt"

	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/results"
	"stepboard/services/rankings/likes"
)

// buildJobs constructs the scheduler with the jobs of the process's roles. Their
// schedules are in the time zones of the boards. The jobs of the other roles
// only show their metrics.
func (a *App) buildJobs(o Options) error {
	nightly, err := jobs.Zoned(o.Config.Jobs.ArchiveCron, a.Catalog.Definitions.Zones, o.Clock)
	if err != nil {
		return fmt.Errorf("jobs.archive_cron: %w", err)
	}
	reconcile := a.backing.reconcile(a.Reconciler.Replay)
	list := o.Traces.jobs(
		guarded(jobs.Archive(a.Archive, nightly, o.Config.Archive.RetainMonths, a.Teams.Earliest), a.clock),
		guarded(jobs.Reconcile(reconcile, a.Catalog.Buckets, a.Entries, o.Clock, o.Log, a.registry), a.clock),
		guarded(jobs.Correct(a.Corrections.Apply), a.clock),
		guarded(jobs.CorrectArchive(a.Corrections.PendingBuckets, a.Archive), a.clock),
		guarded(jobs.Roll(a.Catalog.Buckets, a.Entries, o.Clock), a.clock),
		guarded(jobs.Purge(
			func(ctx context.Context) (int64, error) { return a.Reconciler.Purge(ctx, o.Config.Ledger.Retain) },
			a.Friends.ForgetDeclined,
			a.deliverer.Purge,
			a.Erasure.Forget,
			func(ctx context.Context) (int64, error) { return purgeLikes(ctx, o) },
			a.Holds.Purge,
			a.Sessions.Tidy,
		), a.clock),
		guarded(jobs.Finish(func(ctx context.Context) (finished int64, err error) {
			// The boards have all increments of a final event once they are reconciled.
			if finished, err = a.Catalog.Buckets.Finish(ctx); finished > 0 && err == nil {
				_, err = reconcile(ctx)
			}
			return finished, err
		}), a.clock),
		jobs.Reviews(a.Reviews.Find),
		guarded(jobs.Holds(a.Holds.Write), a.clock),
		guarded(jobs.Competitions(a.Competitions.Run), a.clock),
		guarded(jobs.Erase(a.Erasure.Run), a.clock),
	)
	if a.outbox.Wants(models.OutcomeBoardFinal) {
		events := results.NewEvents(a.outbox, o.Stores.Jobs.Gorm, o.Clock)
		list = append(list, o.Traces.jobs(guarded(jobs.Results(events.Announce), a.clock))...)
	}
	if o.Config.Jobs.DigestCron != "" && a.outbox.Wants(models.OutcomeDigestReady) {
		due, err := jobs.FirstFiring(o.Config.Jobs.DigestCron)
		if err != nil {
			return fmt.Errorf("jobs.digest_cron: %w", err)
		}
		run := func(ctx context.Context) (int64, error) { return a.digests.Run(ctx, due) }
		list = append(list, o.Traces.jobs(guarded(jobs.Digest(run), a.clock))...)
	}
	if every := o.Config.Passed.Every; every > 0 {
		list = append(list, o.Traces.jobs(guarded(jobs.Passed(every, a.passed.Run), a.clock))...)
	}
	for i := range list {
		list[i].MetricsOnly = !o.Roles.Jobs
	}
	list = append(list, a.backing.jobs(a)...)
	scheduler := jobs.New(a.leases, o.Clock, o.Log, a.registry, list...)
	if o.Roles != (Roles{}) {
		a.scheduler = scheduler
		a.reporter = a.newReporter(o)
		scheduler.Ended = a.reporter.JobEnded
	}
	return nil
}

// purgeLikes deletes the likes of days that the archive has dropped.
func purgeLikes(ctx context.Context, o Options) (int64, error) {
	if o.Config.Archive.RetainMonths == 0 {
		return 0, nil
	}
	return likes.NewStore(o.Stores.Jobs.Gorm, nil).Purge(ctx, archive.FirstKept(o.Clock(), o.Config.Archive.RetainMonths))
}
