// Package jobs runs recurring work: a scheduler, and the jobs.
//
// Each run has a lease and a deadline, a log line and metrics, and its panics are recovered.
// Schedules fire in every zone that a board has, on the service's clock; a firing that a clock
// change skips comes right after it. A job looks for unfinished work and never for "yesterday",
// so a night when nothing ran is made up for by the next.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"stepboard/models"
	"stepboard/services/platform/lease"
)

// Job is recurring work. A run looks for unfinished work, so runs may be
// missed, cut off or repeated.
type Job struct {
	// Name is unique. It labels metrics and log lines, and the lease is named
	// "job/" and this.
	Name string
	// Schedule returns when the job runs, in real time: Zoned or cron.Every. It also runs
	// when the scheduler starts.
	Schedule cron.Schedule
	// Deadline bounds a run, including the taking of its lease. More than 0.
	Deadline time.Duration
	// Frequent logs a run that had nothing to do at debug level only.
	Frequent bool
	// Transient logs a failed run as a warning, because the next run follows
	// within seconds.
	Transient bool
	// OwnLease means that Run takes a lease itself, and only if it has work that needs
	// one. The scheduler then takes none, so a run without work costs no connection to
	// Postgres, and every process runs the job. If Run returns lease.ErrHeld the
	// job counts as running on another replica.
	OwnLease bool
	// MetricsOnly shows the job's metrics, all zero, and never runs it: the
	// process has another role.
	MetricsOnly bool
	Run         Work
}

// Scheduler runs jobs on their schedules.
type Scheduler struct {
	// Ended is called after each run that counts, and once at the start for each job
	// that this process runs, with a start of the zero time. New leaves it nil, which
	// calls nothing.
	Ended func(job string, start time.Time, err error)

	leases  *lease.Service // let one replica at a time run a job
	clock   models.Clock
	log     *slog.Logger
	metrics *metrics
	tasks   []*task
}

// task is a job and a lock that keeps it from overlapping itself in one
// process.
type task struct {
	Job
	running sync.Mutex
}

// New returns a scheduler and registers its metrics. The clock is used for the
// metrics only; the schedules have their own.
func New(leases *lease.Service, clock models.Clock, log *slog.Logger, registry prometheus.Registerer, jobs ...Job) *Scheduler {
	s := &Scheduler{leases: leases, clock: clock, log: log, metrics: newMetrics(registry)}
	for _, job := range jobs {
		s.tasks = append(s.tasks, &task{Job: job})
		s.metrics.initialize(job.Name)
	}
	return s
}

// Run runs the jobs until ctx ends, and returns when the runs in progress have
// ended. These see the end in their own context. It must be called once.
func (s *Scheduler) Run(ctx context.Context) {
	timetable := cron.New(cron.WithLogger(cron.DiscardLogger))
	var starting sync.WaitGroup
	for _, t := range s.tasks {
		if t.MetricsOnly {
			continue
		}
		s.ended(t.Name, time.Time{}, nil)
		timetable.Schedule(t.Schedule, cron.FuncJob(func() { _ = s.run(ctx, t) }))
		starting.Go(func() { _ = s.run(ctx, t) })
	}
	timetable.Start()
	<-ctx.Done()
	<-timetable.Stop().Done()
	starting.Wait()
}

// Rounds returns a function for each job that Run would run, by its name. The function
// runs the job once, as its schedule would, and returns the error of the run; nil if
// another replica runs the job. It is for a caller who decides when jobs run, instead of Run.
func (s *Scheduler) Rounds() map[string]func(ctx context.Context) error {
	rounds := make(map[string]func(ctx context.Context) error)
	for _, t := range s.tasks {
		if !t.MetricsOnly {
			rounds[t.Name] = func(ctx context.Context) error { return s.run(ctx, t) }
		}
	}
	return rounds
}

// run runs a job once, logs one line, records metrics, and returns the error of the run. It
// records nothing if another run of the job is in progress, here or on another replica.
func (s *Scheduler) run(ctx context.Context, t *task) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !t.running.TryLock() {
		s.log.DebugContext(ctx, "job is still running", "job", t.Name)
		return nil
	}
	defer t.running.Unlock()
	start, began := time.Now(), s.clock()
	o := s.attempt(ctx, t.Job)
	if o.elsewhere {
		s.log.DebugContext(ctx, "job is running on another replica", "job", t.Name)
		return nil
	}
	// A run that the end of the service has cut off is no failure.
	failed := o.err != nil && (ctx.Err() == nil || o.stack != "")
	if o.err == nil || failed {
		s.ended(t.Name, began, o.err)
	}
	elapsed := time.Since(start)
	s.metrics.duration.WithLabelValues(t.Name).Observe(elapsed.Seconds())
	s.metrics.rows.WithLabelValues(t.Name).Add(float64(max(0, o.rows)))
	if o.err == nil {
		s.metrics.succeeded.WithLabelValues(t.Name).Set(float64(s.clock().UnixMilli()) / 1000)
	}
	if failed {
		s.metrics.failures.WithLabelValues(t.Name).Inc()
	}
	s.report(ctx, t.Job, elapsed, o, failed)
	return o.err
}

func (s *Scheduler) ended(job string, start time.Time, err error) {
	if s.Ended != nil {
		s.Ended(job, start, err)
	}
}

// report logs the line of a run.
func (s *Scheduler) report(ctx context.Context, job Job, elapsed time.Duration, o outcome, failed bool) {
	level := slog.LevelInfo
	switch {
	case failed && job.Transient:
		level = slog.LevelWarn
	case failed:
		level = slog.LevelError
	case job.Frequent && o.rows == 0:
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("job", job.Name),
		slog.Float64("ms", float64(elapsed.Microseconds())/1000),
		slog.Int64("rows", o.rows),
	}
	if o.err != nil {
		attrs = append(attrs, slog.String("error", o.err.Error()))
	}
	if o.stack != "" {
		attrs = append(attrs, slog.String("stack", o.stack))
	}
	s.log.LogAttrs(ctx, level, "job", attrs...)
}

// outcome is the result of a run.
type outcome struct {
	rows      int64
	err       error
	stack     string // the stack of a panic
	elsewhere bool   // another replica holds the lease
}

// attempt runs a job within its deadline, under its lease unless the job takes
// one itself. A panic becomes an error.
func (s *Scheduler) attempt(ctx context.Context, job Job) (o outcome) {
	defer func() {
		if crash := recover(); crash != nil {
			o.err, o.stack = fmt.Errorf("panic: %v", crash), string(debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, job.Deadline)
	defer cancel()
	began := false
	run := func(ctx context.Context) (err error) {
		began = true
		s.log.DebugContext(ctx, "job begins", "job", job.Name)
		defer s.log.DebugContext(ctx, "job ends", "job", job.Name)
		o.rows, err = job.Run(ctx)
		return err
	}
	if job.OwnLease {
		o.err = run(ctx)
	} else {
		o.err = s.leases.Hold(ctx, "job/"+job.Name, run)
	}
	// A leased job that takes a further lease fails if that one is held.
	o.elsewhere = errors.Is(o.err, lease.ErrHeld) && (!began || job.OwnLease)
	return o
}
