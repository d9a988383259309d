// Package archive moves buckets that have turned cold from Redis to SQL, and
// reads them back.
//
// A bucket moves in runs. A run is recorded, then the bucket's keys are set
// aside under the run's number, so that nobody writes to them any more; they
// are read in ranking order, stored, compared with what was read, and
// committed as one; only then are the keys dropped. Whoever finds a run that
// was not finished takes it up: nothing was dropped, and storing again changes
// nothing. What came late is set aside and merged by a later run, where the
// larger composite of a user wins and ranks are made right again.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/lease"
)

// archiveDelay is how long after it has turned cold a bucket is left alone, so that
// processes whose clocks are behind have turned away from it too.
const archiveDelay = time.Hour

// failTimeout bounds the note that a run has failed.
const failTimeout = 5 * time.Second

// ErrVerification says that what was stored is not what was read. Nothing was
// committed, and Redis still has all of it.
var ErrVerification = errors.New("verification failed")

// HotStore is where cold buckets still are.
type HotStore interface {
	Freeze(ctx context.Context, bucket *models.Bucket, run int) error
	FrozenParts(ctx context.Context, bucket *models.Bucket, upto int) ([]models.FrozenPart, error)
	ReadFrozen(ctx context.Context, bucket *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error)
	DropFrozen(ctx context.Context, bucket *models.Bucket, pieces []models.FrozenPart) error
	Unarchived(ctx context.Context, buckets []*models.Bucket, runs []int) ([]bool, error)
}

// Leases let one replica at a time work on a bucket.
type Leases interface {
	Hold(ctx context.Context, name string, fn func(context.Context) error) error
}

// storage is what differs by database.
type storage interface {
	// ensurePartition makes room for a day.
	ensurePartition(ctx context.Context, day models.Date) error
	// storeRun stores the rows of a run, merging them with what the archive has of
	// the bucket, verifies them and completes the run, all as one. Where merge
	// is not set, no user comes twice.
	storeRun(ctx context.Context, bucket *models.Bucket, run int, rows *rowReader, merge bool, now time.Time) (totals, error)
	// composites looks up users in a bucket, in their order.
	composites(ctx context.Context, bucket *models.Bucket, users []models.UserID) ([]models.Composite, error)
	// dropMonths drops the months before the given day's and tells how many.
	dropMonths(ctx context.Context, before models.Date) (int, error)
	// reportProgress shows how far a run has come, if it can.
	reportProgress(ctx context.Context, run *models.ArchiveRun, moved int64)
	// userText is the user id of row s as text, in the order of ties.
	userText() string
}

// Service is the archive. Safe for concurrent use.
type Service struct {
	store  *Store
	hot    HotStore
	leases Leases
	clock  models.Clock
	log    *slog.Logger
	// complete maps bucketKey to true: what is archived stays so.
	complete sync.Map
	stats    Stats

	stop    chan struct{} // closed by Close
	running sync.WaitGroup
}

// Stats counts what this process has done.
type Stats struct {
	// Complete and Failed are runs; Unverified are those of the failed ones in
	// which the two sides did not agree.
	Complete, Failed, Unverified atomic.Int64
	// Moved is the number of entries moved by complete runs.
	Moved atomic.Int64
	// Due is how many buckets were due when that was asked last.
	Due atomic.Int64
}

// Stats is what this process has done so far.
func (s *Service) Stats() *Stats { return &s.stats }

type bucketKey struct{ board, name string }

// New makes a service; Close must follow.
func New(store *Store, hot HotStore, leases Leases, clock models.Clock, log *slog.Logger) *Service {
	return &Service{store: store, hot: hot, leases: leases, clock: clock, log: log, stop: make(chan struct{})}
}

// Close ends what Start has started, and waits for it. The next run takes it
// up.
func (s *Service) Close() {
	close(s.stop)
	s.running.Wait()
}

// Archive moves one bucket, or merges what has come since it was moved; where
// there is nothing to do it answers the last run. Errors: CodeBoardKind for a
// bucket that is never archived, CodeBucketHot for one before its time, CodeArchiveRunning if somebody else is at it, ErrVerification if
// what was stored is not what was read; then, and on any other error, Redis
// still has all of it. progress is told how many entries have moved. Reads the bucket once; memory does not grow with it.
func (s *Service) Archive(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (run models.ArchiveRun, err error) {
	if bucket.WindowHours > 0 {
		return run, models.Errorf(models.CodeBoardKind, "board %s is a rolling one: its hours are dropped, not archived", bucket.Board)
	}
	if from := bucket.ColdAt.Add(archiveDelay); s.clock().Before(from) {
		return run, models.Errorf(models.CodeBucketHot, "%s of board %s stays in Redis until %s",
			bucket.Day, bucket.Board, from.UTC().Format(time.RFC3339))
	}
	err = s.leases.Hold(ctx, "archive/"+bucket.Board+"/"+bucket.Name, func(ctx context.Context) error {
		run, err = s.move(ctx, bucket, progress)
		return err
	})
	if errors.Is(err, lease.ErrHeld) {
		return run, models.Errorf(models.CodeArchiveRunning, "%s of board %s is being archived already", bucket.Day, bucket.Board)
	}
	return run, err
}

// Start is Archive in the background. It answers once the run has begun, or
// could not; CodeUnavailable where a store did not answer.
func (s *Service) Start(ctx context.Context, bucket *models.Bucket) (run models.ArchiveRun, err error) {
	// The run goes on when the caller has gone.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan error, 1)
	s.running.Go(func() {
		defer cancel()
		var once sync.Once
		_, err := s.Archive(running, bucket, func(int64) { once.Do(func() { begun <- nil }) })
		told := false
		once.Do(func() {
			begun <- err
			told = true
		})
		if err != nil && !told {
			s.log.ErrorContext(running, "a bucket could not be archived", "board", bucket.Board, "bucket", bucket.Name, "error", err)
		}
	})
	s.running.Go(func() {
		select {
		case <-s.stop:
			cancel()
		case <-running.Done():
		}
	})
	if err = <-begun; err == nil {
		// It may be over by now.
		run, err = s.store.last(ctx, bucket.Board, bucket.Name)
	}
	if models.CodeOf(err) == models.CodeInternal {
		err = models.Unavailable("start the archival", err)
	}
	return run, err
}

// move makes one run, under the bucket's lease.
func (s *Service) move(ctx context.Context, bucket *models.Bucket, progress func(moved int64)) (models.ArchiveRun, error) {
	run, err := s.begin(ctx, bucket)
	if err != nil || run.State == models.ArchiveComplete {
		return run, err
	}
	progress(0)
	pieces, err := s.moveRun(ctx, bucket, &run, progress)
	s.stats.count(run, err)
	if err != nil {
		s.fail(ctx, &run, err)
		return run, fmt.Errorf("archive %s of board %s: %w", bucket.Day, bucket.Board, err)
	}
	s.complete.Store(bucketKey{bucket.Board, bucket.Name}, true)
	if len(pieces) > 0 {
		// What can't be dropped now is merged again by the next run, which
		// changes nothing, and dropped then.
		if err := s.hot.DropFrozen(ctx, bucket, pieces); err != nil {
			return run, fmt.Errorf("archive %s of board %s: it is archived, but: %w", bucket.Day, bucket.Board, err)
		}
	}
	return run, nil
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

// begin records the run that is next: the last one again if it was not
// finished, a new one if something has come since. Where there is nothing to
// do it answers the last run, which is complete.
func (s *Service) begin(ctx context.Context, bucket *models.Bucket) (models.ArchiveRun, error) {
	last, err := s.store.last(ctx, bucket.Board, bucket.Name)
	if err != nil && !errors.Is(err, errNoRun) {
		return last, err
	}
	next := models.ArchiveRun{Board: bucket.Board, Bucket: bucket.Name, Run: max(1, last.Run), Shards: bucket.Shards, Attempts: last.Attempts + 1}
	if last.State == models.ArchiveComplete {
		found, err := s.hot.Unarchived(ctx, []*models.Bucket{bucket}, []int{last.Run})
		if err != nil || !found[0] {
			return last, err
		}
		next.Run, next.Attempts = last.Run+1, 1
	}
	next.State, next.StartedAt = models.ArchiveRunning, s.clock().UTC()
	recorded, err := s.store.put(ctx, &next)
	if err == nil && !recorded {
		// Somebody who has lost the lease has completed the run meanwhile.
		return s.begin(ctx, bucket)
	}
	return next, err
}

// moveRun does the run's work up to its commit, and answers what may be
// dropped then.
func (s *Service) moveRun(ctx context.Context, bucket *models.Bucket, run *models.ArchiveRun, progress func(moved int64)) ([]models.FrozenPart, error) {
	if err := s.hot.Freeze(ctx, bucket, run.Run); err != nil {
		return nil, err
	}
	pieces, err := s.hot.FrozenParts(ctx, bucket, run.Run)
	if err != nil {
		return nil, err
	}
	if err := s.store.storage.ensurePartition(ctx, bucket.Day); err != nil {
		return nil, err
	}
	rows, err := openRows(ctx, s.hot, bucket, pieces, func(moved int64) {
		progress(moved)
		s.store.storage.reportProgress(ctx, run, moved)
	})
	if err != nil {
		return nil, err
	}
	defer rows.close()
	now := s.clock().UTC()
	kept, err := s.store.storage.storeRun(ctx, bucket, run.Run, rows, mayRepeat(pieces), now)
	run.Moved = rows.totals.rows
	if err != nil {
		return nil, err
	}
	run.State, run.FinishedAt = models.ArchiveComplete, &now
	run.Entries, run.ScoreSum, run.Hash = kept.rows, kept.scoreSum, kept.hash
	return pieces, nil
}

// mayRepeat tells whether a user may come twice: only where several pieces of
// one shard were set aside.
func mayRepeat(pieces []models.FrozenPart) bool {
	seen := make(map[int]bool, len(pieces))
	for _, p := range pieces {
		if seen[p.Shard] {
			return true
		}
		seen[p.Shard] = true
	}
	return false
}

// fail notes why a run has failed, also when its context has ended. Where that
// can't be noted the run looks as if its process had died, and is taken up all
// the same.
func (s *Service) fail(ctx context.Context, run *models.ArchiveRun, cause error) {
	if why := context.Cause(ctx); why != nil && !errors.Is(cause, why) {
		cause = fmt.Errorf("%w: %w", why, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
	defer cancel()
	now := s.clock().UTC()
	run.State, run.FinishedAt, run.Error = models.ArchiveFailed, &now, cause.Error()
	if err := s.store.fail(ctx, run); err != nil {
		s.log.DebugContext(ctx, "that a run of the archive has failed could not be noted", "board", run.Board, "bucket", run.Bucket, "run", run.Run, "error", err)
	}
}

// Due lists the buckets that are to be archived now: those that are cold for
// an hour and not complete, oldest first, then those of which Redis still
// holds something that came late. Two queries, and a look at every shard of
// every archived bucket.
func (s *Service) Due(ctx context.Context) ([]*models.Bucket, error) {
	unfinished, err := s.store.unfinished(ctx, s.clock().Add(-archiveDelay))
	if err != nil {
		return nil, err
	}
	archived, runs, err := s.store.archived(ctx)
	if err != nil {
		return nil, err
	}
	late, err := s.hot.Unarchived(ctx, archived, runs)
	if err != nil {
		return nil, err
	}
	due := unfinished
	for i, b := range archived {
		if late[i] {
			due = append(due, b)
		}
	}
	s.stats.Due.Store(int64(len(due)))
	return due, nil
}

// Runs lists runs, newest first, behind the given one. One query.
func (s *Service) Runs(ctx context.Context, q RunsQuery) ([]models.ArchiveRun, error) {
	return s.store.runs(ctx, q)
}

// monthOf is the first day of the day's month.
func monthOf(day models.Date) time.Time {
	t := day.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// EnsurePartitions makes room ahead of need, for this month and the next. Cheap where
// it is there already.
func (s *Service) EnsurePartitions(ctx context.Context) error {
	first := monthOf(models.DateOf(s.clock().UTC()))
	for _, month := range []time.Time{first, first.AddDate(0, 1, 0)} {
		if err := s.store.storage.ensurePartition(ctx, models.DateOf(month)); err != nil {
			return err
		}
	}
	return nil
}

// DropExpired drops the months that are more than `months` months past, whole, and
// tells how many. 0 keeps everything.
func (s *Service) DropExpired(ctx context.Context, months int) (int, error) {
	if months == 0 {
		return 0, nil
	}
	first := monthOf(models.DateOf(s.clock().UTC()))
	return s.store.storage.dropMonths(ctx, models.DateOf(first.AddDate(0, -months, 0)))
}
