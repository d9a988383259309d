package app

import (
	"context"
	"log/slog"
	"time"

	"stepboard/internal/pause"
	"stepboard/internal/shipping"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/people/directory"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/cursor"
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
