// Package status reports the state of the whole service to operators: its processes, its
// jobs, the work that waits, and the buckets of each board.
package status

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

const (
	// reportEvery is the time between two reports of a process.
	reportEvery = 10 * time.Second
	// reportTimeout bounds one report.
	reportTimeout = 5 * time.Second
	// goneAfter is how long a process counts as running after its last report.
	goneAfter = time.Minute
	// keptMinutes is how many minutes the figures of processes are kept.
	keptMinutes = 60
	// refusedOver is the time in which refused calls are counted, in reports.
	refusedOver = int(time.Minute / reportEvery)
)

// Source returns the figures of this process. All are safe for concurrent use.
type Source struct {
	// Streams returns how many streams are open.
	Streams func() int
	// Refused returns how many calls rate limits have refused since the start.
	Refused func() int64
	// Latency returns the calls since the start, as models.ProcessMinute has them.
	Latency func() []int64
	// QueueAge returns how long the oldest message in the queue has waited; 0 without one.
	QueueAge func(ctx context.Context) time.Duration
}

// Reporter reports this process and the runs of its jobs. Safe for concurrent use.
type Reporter struct {
	store  *Store
	source Source
	clock  models.Clock
	log    *slog.Logger

	mu      sync.Mutex
	process models.Process
	// jobs holds what has changed since the last report.
	jobs map[string]models.JobRun
	// refused holds the counts of refused calls at the last reports, oldest first.
	refused []int64
	// minute has the counts since the start, as of the beginning of a minute whose row is not
	// stored; those of the zero time are unknown.
	minute models.ProcessMinute
}

// NewReporter returns a reporter of a process with these roles, such as "api,jobs".
func NewReporter(store *Store, version, roles string, source Source, clock models.Clock, log *slog.Logger) *Reporter {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &Reporter{
		store: store, source: source, clock: clock, log: log, jobs: make(map[string]models.JobRun),
		process: models.Process{ID: rand.Text(), Host: host, Version: version, Roles: roles, StartedAt: clock().UTC()},
	}
}

// JobEnded notes a run of a job, which the next report stores. An error of nil is a
// success. A start of the zero time only makes the job known.
func (r *Reporter) JobEnded(name string, start time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.jobs[name]
	run.Name = name
	if !start.IsZero() {
		began, now := start.UTC(), r.clock().UTC()
		run.StartedAt = &began
		if err == nil {
			run.SucceededAt = &now
		} else {
			run.FailedAt, run.Error = &now, err.Error()
		}
	}
	r.jobs[name] = run
}

// Run reports every reportEvery until ctx ends, and then removes the process.
func (r *Reporter) Run(ctx context.Context) {
	pause.Every(ctx, reportEvery, func() {
		if err := r.Report(ctx); err != nil && ctx.Err() == nil {
			r.log.DebugContext(ctx, "the state of this process could not be stored", "error", err)
		}
	})
	r.end(context.WithoutCancel(ctx))
}

// Report stores the state of this process and of the jobs that have ended since the last
// report, and removes processes that have reported nothing for a minute. Two statements,
// one more for jobs, and once a minute two more for its figures. What could not be stored is
// stored by the next report.
func (r *Reporter) Report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	process, jobs := r.take()
	if err := r.store.report(ctx, process, jobs, process.SeenAt.Add(-goneAfter)); err != nil {
		return err
	}
	r.forget(jobs)
	return r.reportMinute(ctx, process.SeenAt)
}

// reportMinute stores the figures of the minute that has ended, if one has.
func (r *Reporter) reportMinute(ctx context.Context, now time.Time) error {
	began := r.minute
	if !now.Truncate(time.Minute).After(began.Minute) {
		return nil
	}
	counts := models.ProcessMinute{
		Minute: now.Truncate(time.Minute), Process: r.process.ID, Refused: r.source.Refused(), Latency: r.source.Latency(),
	}
	if began.Minute.IsZero() {
		r.minute = counts
		return nil
	}
	row := models.ProcessMinute{
		Minute: began.Minute, Process: r.process.ID, Refused: counts.Refused - began.Refused,
		Latency: make([]int64, len(counts.Latency)), QueueMS: r.source.QueueAge(ctx).Milliseconds(),
	}
	for i, n := range counts.Latency {
		row.Latency[i] = n - began.Latency[i]
		row.Calls += row.Latency[i]
	}
	if err := r.store.reportMinute(ctx, row, now.Add(-keptMinutes*time.Minute)); err != nil {
		return err
	}
	r.minute = counts
	return nil
}

// take returns what a report stores.
func (r *Reporter) take() (models.Process, []models.JobRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := r.source.Refused()
	r.refused = append(r.refused, total)
	if len(r.refused) > refusedOver+1 {
		r.refused = r.refused[1:]
	}
	p := r.process
	p.SeenAt, p.Streams, p.Refused = r.clock().UTC(), int64(r.source.Streams()), total-r.refused[0]
	return p, slices.Collect(maps.Values(r.jobs))
}

// forget removes runs that are stored, except those of jobs that have run again.
func (r *Reporter) forget(jobs []models.JobRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.jobs, func(_ string, run models.JobRun) bool { return slices.Contains(jobs, run) })
}

// end stores the last runs of jobs and removes the process.
func (r *Reporter) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, jobs := r.take(); len(jobs) > 0 {
		if err := r.store.storeJobs(ctx, jobs); err != nil {
			r.log.DebugContext(ctx, "the last runs of jobs could not be stored", "error", err)
		}
	}
	if err := r.store.removeProcess(ctx, r.process.ID); err != nil {
		r.log.DebugContext(ctx, "this process could not be removed from the list of processes", "error", err)
	}
}

// Work counts what waits, and what somebody should look at.
type Work struct {
	// ArchiveDue are the buckets that have been cold for an hour and are not archived;
	// ArchiveFailed are those whose last run failed.
	ArchiveDue    int `gorm:"-"`
	ArchiveFailed int64
	DeadLetters   int64
	// DeliveriesWaiting and DeliveriesFailed are those of webhooks; failed ones were
	// given up.
	DeliveriesWaiting, DeliveriesFailed int64
	// ReviewsOpen are scores that nobody has looked at.
	ReviewsOpen int64
	// HoldsOpen are held totals about which nobody has decided.
	HoldsOpen int64
	// CorrectionsPending are corrections that the archive has not applied yet.
	CorrectionsPending int64
}

// Overview is the state of the whole service.
type Overview struct {
	// Processes are those that have reported within the last minute, oldest first.
	Processes []models.Process
	// Jobs are ordered by name.
	Jobs []models.JobRun
	Work Work
	// LastHour has the last sixty minutes that have ended, oldest first.
	LastHour []Minute
}

// Archive counts the buckets that wait for their first run. Implemented by archive.Service.
type Archive interface {
	Unfinished(ctx context.Context) (int, error)
}

// Service reads what processes have reported. Safe for concurrent use.
type Service struct {
	store   *Store
	archive Archive
	boards  *catalog.Definitions
	counter Counter
	clock   models.Clock
}

// New returns a service over a store.
func New(store *Store, archive Archive, boards *catalog.Definitions, counter Counter, clock models.Clock) *Service {
	return &Service{store: store, archive: archive, boards: boards, counter: counter, clock: clock}
}

// Overview returns the state of the whole service. Five queries, one of which counts
// rows. CodeUnavailable.
func (s *Service) Overview(ctx context.Context) (Overview, error) {
	now := s.clock().UTC()
	o, err := s.store.overview(ctx, now)
	if err == nil {
		o.Work.ArchiveDue, err = s.archive.Unfinished(ctx)
	}
	if err == nil {
		o.LastHour, err = s.lastHour(ctx, now)
	}
	return o, models.Public("read the state of the service", err)
}
