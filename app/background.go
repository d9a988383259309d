package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"stepboard/internal/pause"
	"stepboard/internal/shipping"
	"stepboard/jobs"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/results"
	"stepboard/services/people/directory"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/cursor"
	"stepboard/services/rankings/likes"
)

// task is work that a process repeats in the background.
type task struct {
	name string
	// round does the work once; nil for a loop whose parts have rounds of their own.
	round func(context.Context) error
	// every is the time between two rounds, and failed the text of the log for a round that
	// fails; empty for none.
	every  time.Duration
	failed string
	// built reports that Build has done the first round.
	built bool
	// loop repeats the work until ctx ends, if it decides itself when; then every is 0.
	loop func(ctx context.Context)
}

// background returns the background work of the process's roles.
func (a *App) background() []task {
	tasks := []task{
		{name: "users", round: a.Directory.Follow, every: directory.FollowEvery, failed: "changes of users by other processes are not seen"},
		{name: "cursors", built: true, round: a.cursors.Refresh, every: cursor.RefreshEvery, failed: "the keys of cursors could not be read"},
	}
	if keys := a.verifier.Keys(); keys != nil { // it logs its errors
		tasks = append(tasks, task{name: "jwks", built: true, round: keys.Refresh, every: auth.RefreshEvery})
	}
	tasks = append(tasks, a.backing.tasks(a)...)
	if a.refresh {
		tasks = append(tasks,
			task{name: "boards", built: true, round: a.Catalog.Definitions.Refresh, every: catalog.RefreshEvery, failed: "the board catalog could not be refreshed"},
			task{name: "corrections", built: true, round: a.Corrections.Refresh, every: corrections.RefreshEvery, failed: "corrections could not be read"},
		)
	}
	if a.shipping != nil { // it logs its errors
		tasks = append(tasks,
			task{name: "shipping", round: a.shipping.Step, every: a.shipEvery},
			task{name: "copies", round: a.shipping.Tend, every: shipping.TendEvery},
		)
	}
	if a.deliver {
		tasks = append(tasks, task{name: "webhooks", round: a.deliverer.Round, loop: a.deliverer.Run})
	}
	if a.reporter != nil {
		tasks = append(tasks, task{name: "status", round: a.reporter.Report, loop: a.reporter.Run})
	}
	if a.consumer != nil {
		tasks = append(tasks, task{name: "consumer", round: a.consumer.Round, loop: a.consumer.Run})
	}
	if a.scheduler != nil {
		tasks = append(tasks, task{name: "scheduler", loop: a.scheduler.Run})
		for name, round := range a.scheduler.Rounds() {
			tasks = append(tasks, task{name: name, round: round})
		}
	}
	return tasks
}

// run repeats a task until ctx ends.
func (t task) run(ctx context.Context, log *slog.Logger) {
	if t.loop != nil {
		t.loop(ctx)
		return
	}
	if t.built && pause.For(ctx, t.every) != nil {
		return
	}
	pause.Every(ctx, t.every, func() {
		if err := t.round(ctx); err != nil && ctx.Err() == nil && t.failed != "" {
			log.WarnContext(ctx, t.failed, "error", err)
		}
	})
}

// Start starts the background work. It runs until Close, even if ctx ends before. Requests,
// uploads and increments need it. Further calls do nothing.
func (a *App) Start(ctx context.Context) {
	a.starting.Do(func() {
		ctx := a.startBackground(ctx)
		for _, t := range a.background() {
			if t.every > 0 || t.loop != nil {
				a.running.Go(func() { t.run(ctx, a.log) })
			}
		}
	})
}

// StartByRounds is Start without the work that repeats. It returns a function for each part
// of that work, by name, which does it once; those of jobs have their names. The caller calls
// them, one at a time. So the simulation decides what happens when.
func (a *App) StartByRounds(ctx context.Context) map[string]func(ctx context.Context) error {
	a.startBackground(ctx)
	rounds := make(map[string]func(ctx context.Context) error)
	for _, t := range a.background() {
		if t.round != nil {
			rounds[t.name] = t.round
		}
	}
	return rounds
}

// startBackground returns the context of the background work.
func (a *App) startBackground(ctx context.Context) (background context.Context) {
	background, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	return background
}

// RotateCursors makes a new key that seals cursors, which processes use within a minute. Those of
// the key before it are accepted for another day.
func (a *App) RotateCursors(ctx context.Context) error {
	return cursor.Rotate(ctx, cursor.NewStore(a.stores.Gorm))
}

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
