package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/platform/lease"
)

// archiveDelay is the time between the moment when a bucket turns cold and its
// first run. In this time processes with slow clocks also stop writing to it.
const archiveDelay = time.Hour

const (
	// maxRuns is how many runs a process makes at a time. Each holds a connection
	// to Postgres for as long as it copies rows.
	maxRuns = 2
	// runDeadline bounds a run.
	runDeadline = 6 * time.Hour
)

// maxMerges is how many runs one call of Archive makes at most. Entries that keep
// arriving wait for the next call.
const maxMerges = 3

// errDeadline is the cause of a run's context that has passed its deadline.
var errDeadline = errors.New("the run has passed its deadline")

// failTimeout bounds the statement that records the failure of a run.
const failTimeout = 5 * time.Second

// ErrVerification reports that the stored rows differ from the entries read.
// Nothing of the run is shown, and the hot store still has all entries.
var ErrVerification = errors.New("verification failed")

// HotStore is Redis, which holds buckets until they are archived.
type HotStore interface {
	Freeze(ctx context.Context, bucket *models.Bucket, run int) error
	FrozenParts(ctx context.Context, bucket *models.Bucket, upto int) ([]models.FrozenPart, error)
	ReadFrozen(ctx context.Context, bucket *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error)
	DropFrozen(ctx context.Context, bucket *models.Bucket, parts []models.FrozenPart) error
	Unarchived(ctx context.Context, buckets []*models.Bucket, runs []int) ([]bool, error)
}

// Memory holds a copy of what table hot_scores has of buckets that are not archived.
type Memory interface {
	// Drop removes the copy of a bucket, if there is one: the archive has it.
	Drop(bucket *models.Bucket)
	// Settle stores in the table what was reported before the call.
	Settle(ctx context.Context) error
}

// Source is where entries are until a run moves them: in Redis, or in table hot_scores.
type Source struct {
	hot      HotStore // nil if the table has them
	recovery Recovery // nil if nothing is ever applied again
	memory   Memory   // nil if Redis has them
}

// FromRedis is the source of an archive in Postgres. recovery may be nil, which means that what
// Redis has lost is lost for good.
func FromRedis(hot HotStore, recovery Recovery) Source { return Source{hot: hot, recovery: recovery} }

// FromTable is the source of an archive in SQLite, whose table hot_scores has the entries.
func FromTable(memory Memory) Source { return Source{memory: memory} }

// Recovery knows whether the hot store is complete.
type Recovery interface {
	// Complete returns an error while the hot store may lack updates that will be
	// applied again.
	Complete(ctx context.Context) error
}

// Leases lets one replica at a time work on a bucket.
type Leases interface {
	Hold(ctx context.Context, name string, fn func(context.Context) error) error
}

// Service is the archive. Safe for concurrent use.
type Service struct {
	Source

	store  *Store
	leases Leases
	clock  models.Clock
	log    *slog.Logger
	// complete maps the bucketKey of each bucket known to be archived to true.
	// An archived bucket stays archived.
	complete sync.Map
	stats    Stats
	// runs holds one element for each run under way.
	runs chan struct{}
	// deadline bounds a run.
	deadline time.Duration
	// progressEvery is the number of rows between two reports of progress.
	progressEvery int64

	open    context.Context //nolint:containedctx // of the runs begun by Start; close ends it
	close   context.CancelFunc
	running sync.WaitGroup
}

// Stats counts the work of this process.
type Stats struct {
	// Complete and Failed count runs. Unverified counts the failed runs whose
	// verification failed.
	Complete, Failed, Unverified atomic.Int64
	// Moved counts the entries moved by complete runs.
	Moved atomic.Int64
	// Due is the number of buckets that the last call of Due found.
	Due atomic.Int64
}

// Stats returns the counters of this process.
func (s *Service) Stats() *Stats { return &s.stats }

type bucketKey struct{ Board, Bucket string }

// New returns a service that moves buckets from their source. The caller must call Close.
func New(store *Store, source Source, leases Leases, clock models.Clock, log *slog.Logger) *Service {
	s := &Service{
		Source: source, store: store, leases: leases, clock: clock, log: log,
		runs: make(chan struct{}, maxRuns), deadline: runDeadline, progressEvery: progressEvery,
	}
	s.open, s.close = context.WithCancel(context.Background())
	return s
}

// Close cancels the runs begun by Start and waits for them. The next call of
// Archive resumes them.
func (s *Service) Close() {
	s.close()
	s.running.Wait()
}

// Archive archives one bucket, or merges the entries that arrived since it was
// archived. If entries arrive during the run, it makes a further run at once. It
// returns the last run, with the entries that all of its runs have moved; if
// nothing is left to do, that is the run that was last before.
// It calls progress with the number of entries moved so far. Its memory does not grow with the
// bucket. While two other buckets are
// being archived in this process, it waits for one of them to be done. A run that
// takes longer than runDeadline fails, and the next call resumes it.
//
// Errors: CodeBoardKind for a bucket of a rolling board, which is never
// archived; CodeBucketHot for a bucket that may not be archived yet;
// CodeArchiveRunning if another caller is archiving it; ErrVerification if the
// stored rows differ from the entries read; the error of Recovery.Complete while
// Redis may lack updates, unless the bucket is the ledger's. After any error the hot store still
// has every entry that was not committed.
func (s *Service) Archive(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (run models.ArchiveRun, err error) {
	if err := s.checkCold(bucket); err != nil {
		return run, err
	}
	select {
	case s.runs <- struct{}{}:
	case <-ctx.Done():
		return run, context.Cause(ctx)
	}
	defer func() { <-s.runs }()
	return s.archiveUnderLease(ctx, bucket, progress)
}

// checkCold returns an error if the bucket may not be archived at this time.
func (s *Service) checkCold(bucket *models.Bucket) error {
	if bucket.WindowHours > 0 {
		return models.Errorf(models.CodeBoardKind, "board %s is a rolling board: its hours are dropped, not archived", bucket.Board)
	}
	if from := bucket.ColdAt.Add(archiveDelay); s.clock().Before(from) {
		return models.Errorf(models.CodeBucketHot, "%s of board %s stays in Redis until %s",
			bucket.Day, bucket.Board, from.UTC().Format(time.RFC3339))
	}
	if bucket.Event() && bucket.FinalAt == nil {
		return models.Errorf(models.CodeBucketHot, "%s is not final yet", bucket.Board)
	}
	return nil
}

// archiveUnderLease makes one run. The caller has put an element into s.runs.
func (s *Service) archiveUnderLease(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (run models.ArchiveRun, err error) {
	err = s.leases.Hold(ctx, "archive/"+bucket.Board+"/"+bucket.Name, func(ctx context.Context) error {
		run, err = s.archive(ctx, bucket, progress)
		return err
	})
	if errors.Is(err, lease.ErrHeld) {
		return run, models.Errorf(models.CodeArchiveRunning, "%s of board %s is being archived already", bucket.Day, bucket.Board)
	}
	return run, err
}

// Start is Archive in the background. It returns once the run has begun or has
// failed to begin. It does not wait for other runs: CodeArchiveRunning while this
// process is archiving two buckets. CodeUnavailable if a store did not answer.
func (s *Service) Start(ctx context.Context, bucket *models.Bucket) (run models.ArchiveRun, err error) {
	if err := s.checkCold(bucket); err != nil {
		return run, err
	}
	select {
	case s.runs <- struct{}{}:
	default:
		return run, models.Errorf(models.CodeArchiveRunning, "%d buckets are being archived, and no more at a time: try again when one of them is complete", maxRuns)
	}
	// The run continues after the caller's request has ended.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan error, 1)
	s.running.Go(func() {
		defer func() { <-s.runs }()
		defer cancel()
		defer context.AfterFunc(s.open, cancel)() //nolint:contextcheck // of the service, which Close ends
		var once sync.Once
		_, err := s.archiveUnderLease(running, bucket, func(int64) { once.Do(func() { begun <- nil }) })
		once.Do(func() {
			begun <- err
			err = nil // Start returns it
		})
		if err != nil {
			s.log.ErrorContext(running, "a bucket could not be archived", "board", bucket.Board, "bucket", bucket.Name, "error", err)
		}
	})
	if err = <-begun; err == nil {
		// The run may have ended already, so its row is read.
		run, err = s.store.lastRun(ctx, bucket.Board, bucket.Name)
	}
	return run, models.Public("start the archival", err)
}

// archive makes runs until nothing of the bucket is left. The caller holds the
// bucket's lease.
func (s *Service) archive(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (run models.ArchiveRun, err error) {
	if err := s.store.storage.tidy(ctx, bucket); err != nil {
		return run, err
	}
	var moved int64
	for made := range maxMerges {
		run, err = s.beginRun(ctx, bucket)
		if err == nil && run.State == models.ArchiveComplete {
			switch {
			case s.hot == nil:
				s.memory.Drop(bucket)
			case bucket.FromLedger:
				err = s.dropKeys(ctx, bucket, run.Run)
			}
			if made > 0 {
				run.Moved = moved
			}
			return run, err
		}
		if err == nil {
			run, err = s.makeRun(ctx, bucket, run, progress)
		}
		moved += run.Moved
		if err != nil {
			return run, err
		}
	}
	run.Moved = moved
	return run, nil
}

// makeRun carries out a run that was recorded, and drops what it has moved.
func (s *Service) makeRun(ctx context.Context, bucket *models.Bucket, run models.ArchiveRun, progress func(moved int64)) (models.ArchiveRun, error) {
	failpoint.Hit("archive.recorded")
	progress(0)
	ctx, cancel := context.WithTimeoutCause(ctx, s.deadline, errDeadline)
	defer cancel()
	parts, err := s.executeRun(ctx, bucket, &run, progress)
	if err == nil {
		failpoint.Hit("outcomes.result_committed")
		failpoint.Hit("archive.committed")
	}
	s.stats.count(run, err)
	if err != nil {
		s.recordFailure(ctx, &run, err)
		return run, fmt.Errorf("archive %s of board %s: %w", bucket.Day, bucket.Board, err)
	}
	s.complete.Store(bucketKey{bucket.Board, bucket.Name}, true)
	return run, notDropped(bucket, s.drop(ctx, bucket, parts))
}

// notDropped returns the error of dropping what was moved.
func notDropped(bucket *models.Bucket, err error) error {
	return models.Wrap(fmt.Sprintf("archive %s of board %s: it is archived, but", bucket.Day, bucket.Board), err)
}

// drop removes what a complete run has moved. If parts can't be dropped now, the next run merges
// them again, which changes nothing, and then drops them.
func (s *Service) drop(ctx context.Context, bucket *models.Bucket, parts []models.FrozenPart) error {
	switch {
	case s.hot == nil:
		s.memory.Drop(bucket)
	case len(parts) > 0:
		if err := s.hot.DropFrozen(ctx, bucket, parts); err != nil {
			return err
		}
		failpoint.Hit("archive.dropped")
	}
	return s.store.storage.tidy(ctx, bucket)
}

func (s *Stats) count(run models.ArchiveRun, err error) {
	switch {
	case err == nil:
		s.Complete.Add(1)
		s.Moved.Add(run.Moved)
	case errors.Is(err, ErrVerification):
		s.Unverified.Add(1)
		fallthrough
	default:
		s.Failed.Add(1)
	}
}

// Next returns the run that Archive would begin now: the last run again if it was not
// finished, or a new run if entries have arrived since or corrections are pending. If
// nothing is left to do, it returns the last run, which is complete. It changes nothing.
// CodeBoardKind and CodeBucketHot as for Archive; CodeUnavailable.
func (s *Service) Next(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	if err := s.checkCold(bucket); err != nil {
		return models.ArchiveRun{}, err
	}
	next, err := s.nextRun(ctx, bucket)
	return next, models.Public("look for the next archive run", err)
}

// nextRun is Next for a bucket that is cold.
func (s *Service) nextRun(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	if err := s.settle(ctx); err != nil {
		return models.ArchiveRun{}, err
	}
	last, err := s.store.lastRun(ctx, bucket.Board, bucket.Name)
	if err != nil && !errors.Is(err, errNoRun) {
		return last, err
	}
	next := models.ArchiveRun{Board: bucket.Board, Bucket: bucket.Name, Run: max(1, last.Run), Shards: bucket.Shards, Attempts: last.Attempts + 1}
	if last.State == models.ArchiveComplete {
		if again, err := s.needsRun(ctx, bucket, last.Run); err != nil || !again {
			return last, err
		}
		next.Run, next.Attempts = last.Run+1, 1
	}
	next.State, next.StartedAt = models.ArchiveRunning, s.clock().UTC()
	return next, nil
}

// settle completes table hot_scores, if it is the source.
func (s *Service) settle(ctx context.Context) error {
	if s.memory == nil {
		return nil
	}
	return s.memory.Settle(ctx)
}

// beginRun records the next run and returns it, unless nothing is left to do.
func (s *Service) beginRun(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	next, err := s.nextRun(ctx, bucket)
	if err != nil || next.State == models.ArchiveComplete {
		return next, err
	}
	recorded, err := s.store.recordRun(ctx, &next)
	if err == nil && !recorded {
		// Meanwhile a process that has lost its lease completed the run.
		return s.beginRun(ctx, bucket)
	}
	return next, err
}

// needsRun reports whether entries of an archived bucket have arrived after its
// last run, or corrections are to be applied. What Redis has of a bucket of the ledger does not
// matter: no increment comes later.
func (s *Service) needsRun(ctx context.Context, bucket *models.Bucket, last int) (bool, error) {
	if !bucket.FromLedger && s.hot != nil {
		unarchived, err := s.hot.Unarchived(ctx, []*models.Bucket{bucket}, []int{last})
		if err != nil || unarchived[0] {
			return err == nil, err
		}
	}
	if news, err := s.store.storage.news(ctx, bucket); err != nil || news {
		return news, err
	}
	pending, err := s.store.pendingCorrections(ctx)
	return slices.Contains(pending, bucketKey{bucket.Board, bucket.Name}), err
}

// executeRun carries out the run up to and including its commit. It returns the
// frozen parts, which may be dropped then.
func (s *Service) executeRun(ctx context.Context, bucket *models.Bucket, run *models.ArchiveRun, progress func(moved int64)) ([]models.FrozenPart, error) {
	if err := s.store.storage.ensurePartition(ctx, bucket.Day); err != nil {
		return nil, err
	}
	m := &move{bucket: bucket, run: run.Run, progressEvery: s.progressEvery, progress: func(moved int64) {
		progress(moved)
		s.store.storeProgress(ctx, run, moved)
	}}
	if bucket.FromLedger || s.hot == nil {
		return nil, s.storeRun(ctx, m, run)
	}
	var err error
	if m.rows, err = openRows(ctx, s.hot, s.recovery, bucket, run.Run, m.progressEvery, m.progress); err != nil {
		return nil, err
	}
	defer m.rows.close()
	err = s.storeRun(ctx, m, run)
	return m.rows.frozen, err
}

// dropKeys removes what Redis has of an archived bucket of the ledger.
func (s *Service) dropKeys(ctx context.Context, bucket *models.Bucket, run int) error {
	if err := s.hot.Freeze(ctx, bucket, run); err != nil {
		return notDropped(bucket, err)
	}
	parts, err := s.hot.FrozenParts(ctx, bucket, run)
	if err == nil && len(parts) > 0 {
		err = s.hot.DropFrozen(ctx, bucket, parts)
	}
	return notDropped(bucket, err)
}

// recordFailure records why a run has failed, even if ctx has ended. If it
// can't be recorded, the run looks as if its process had died, and is resumed
// all the same.
func (s *Service) recordFailure(ctx context.Context, run *models.ArchiveRun, cause error) {
	if why := context.Cause(ctx); why != nil && !errors.Is(cause, why) {
		cause = fmt.Errorf("%w: %w", why, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	now := s.clock().UTC()
	run.State, run.FinishedAt, run.Error = models.ArchiveFailed, &now, cause.Error()
	if err := s.store.recordFailure(ctx, run); err != nil {
		s.log.DebugContext(ctx, "the failure of an archive run could not be recorded", "board", run.Board, "bucket", run.Bucket, "run", run.Run, "error", err)
	}
}

// Due returns the buckets that Archive has work for: first those that have been
// cold for an hour and are not complete, oldest first, then archived buckets
// with entries that arrived later, with pending corrections, or with something left behind by a run
// that was cut off. Four queries, and one command of Redis for each shard of every archived bucket.
func (s *Service) Due(ctx context.Context) ([]*models.Bucket, error) {
	due, err := s.store.unfinished(ctx, s.clock().Add(-archiveDelay))
	if err != nil {
		return nil, err
	}
	archived, runs, err := s.store.archived(ctx)
	if err != nil {
		return nil, err
	}
	unarchived := make([]bool, len(archived))
	if s.hot != nil {
		if unarchived, err = s.hot.Unarchived(ctx, archived, runs); err != nil {
			return nil, err
		}
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	pending, err := s.store.pendingCorrections(ctx)
	if err != nil {
		return nil, err
	}
	left, err := s.store.storage.left(ctx)
	if err != nil {
		return nil, err
	}
	left = append(left, pending...)
	for i, b := range archived {
		if unarchived[i] || slices.Contains(left, bucketKey{b.Board, b.Name}) {
			due = append(due, b)
		}
	}
	s.stats.Due.Store(int64(len(due)))
	return due, nil
}

// Unfinished returns how many buckets have been cold for an hour and are not archived. It is
// the first part of Due. One query.
func (s *Service) Unfinished(ctx context.Context) (int, error) {
	buckets, err := s.store.unfinished(ctx, s.clock().Add(-archiveDelay))
	return len(buckets), err
}

// monthOf returns the first day of the day's month.
func monthOf(day models.Date) time.Time {
	t := day.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// EnsurePartitions creates the partitions of this month and the next, so that
// no run has to wait for them. Partitions that exist cost one query each.
func (s *Service) EnsurePartitions(ctx context.Context) error {
	first := monthOf(models.DateOf(s.clock().UTC()))
	for _, month := range []time.Time{first, first.AddDate(0, 1, 0)} {
		if err := s.store.storage.ensurePartition(ctx, models.DateOf(month)); err != nil {
			return err
		}
	}
	return nil
}

// DropExpired drops whole months, those more than the given number of months
// before this one, and none from that of a needed day on, unless it is nil. It returns how many it
// dropped; of SQLite, how many rows. If months is 0, it drops nothing.
func (s *Service) DropExpired(ctx context.Context, months int, needed *models.Date) (int, error) {
	if months == 0 {
		return 0, nil
	}
	before := FirstKept(s.clock(), months)
	if needed != nil {
		before = min(before, *needed)
	}
	return s.store.storage.dropMonths(ctx, before)
}

// FirstKept returns the first day that is kept of the given number of months before this one.
func FirstKept(now time.Time, months int) models.Date {
	return models.DateOf(monthOf(models.DateOf(now.UTC())).AddDate(0, -months, 0))
}
