// Package jobs runs what the service does again and again: a scheduler, and
// the work itself, one file for each job.
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
	"stepboard/services/lease"
)

// Job is a piece of work that is done again and again. It looks for what is
// unfinished: a run may be missed, cut off or repeated.
type Job struct {
	// Name is unique: of the metrics, the log lines and, behind "job/", the
	// lease.
	Name string
	// Schedule says when it runs, in real time: Zoned or cron.Every.
	Schedule cron.Schedule
	// Deadline bounds a run, the taking of its lease included. More than 0.
	Deadline time.Duration
	// AtStart runs it also once when the service starts.
	AtStart bool
	// Frequent logs a run that had nothing to do at debug level only.
	Frequent bool
	// Transient logs a failed run as a warning, because the next run follows
	// within seconds.
	Transient bool
	// OwnLease means that Run takes a lease itself, and only if it has work. The
	// scheduler then takes none, so a run without work costs no connection to
	// Postgres, and every process runs the job. If Run returns lease.ErrHeld the
	// job counts as running on another replica.
	OwnLease bool
	// MetricsOnly shows the job's metrics, all zero, and never runs it: the
	// process has another role.
	MetricsOnly bool
	// Run does the work and answers how many rows of whatever it works on were
	// done, also where it fails. It ends soon after ctx.
	Run func(ctx context.Context) (rows int64, err error)
}

// Leases keep the replicas from doing the same job at once.
type Leases interface {
	// Hold runs fn under a lease, or answers lease.ErrHeld.
	Hold(ctx context.Context, name string, fn func(ctx context.Context) error) error
}

// Scheduler runs jobs.
type Scheduler struct {
	leases  Leases
	clock   models.Clock
	log     *slog.Logger
	metrics *metrics
	tasks   []*task
}

// task is a job that never overlaps itself in one process.
type task struct {
	Job
	running sync.Mutex
}

// New makes a scheduler and registers its metrics. The clock is for those
// alone; the schedules have their own.
func New(leases Leases, clock models.Clock, log *slog.Logger, registry prometheus.Registerer, jobs ...Job) *Scheduler {
	s := &Scheduler{leases: leases, clock: clock, log: log, metrics: newMetrics(registry)}
	for _, job := range jobs {
		s.tasks = append(s.tasks, &task{Job: job})
		s.metrics.initialize(job.Name)
	}
	return s
}

// Run runs the jobs until ctx ends, and returns when those under way have
// ended too, which hear of it by their own context. It runs once.
func (s *Scheduler) Run(ctx context.Context) {
	timetable := cron.New(cron.WithLogger(cron.DiscardLogger))
	var starting sync.WaitGroup
	for _, t := range s.tasks {
		if t.MetricsOnly {
			continue
		}
		timetable.Schedule(t.Schedule, cron.FuncJob(func() { s.run(ctx, t) }))
		if t.AtStart {
			starting.Go(func() { s.run(ctx, t) })
		}
	}
	timetable.Start()
	<-ctx.Done()
	<-timetable.Stop().Done()
	starting.Wait()
}

// run does a job once, and leaves one log line and its measurements. A run
// that another one stands in the way of, here or on another replica, is none.
func (s *Scheduler) run(ctx context.Context, t *task) {
	if ctx.Err() != nil {
		return
	}
	if !t.running.TryLock() {
		s.log.DebugContext(ctx, "job is still running", "job", t.Name)
		return
	}
	defer t.running.Unlock()
	start := time.Now()
	o := s.attempt(ctx, t.Job)
	if o.elsewhere {
		s.log.DebugContext(ctx, "job is running on another replica", "job", t.Name)
		return
	}
	// A run that stopping the service has cut off is no failure.
	failed := o.err != nil && (ctx.Err() == nil || o.stack != "")
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
}

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

// outcome is what became of a run.
type outcome struct {
	rows      int64
	err       error
	stack     string // where it panicked
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
	// A job that takes a further lease below the scheduler's fails if that one is
	// held.
	o.elsewhere = errors.Is(o.err, lease.ErrHeld) && (!began || job.OwnLease)
	return o
}
