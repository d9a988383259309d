// Package ledger counts increments: gifts, points, minutes, everything that is
// added to a score and not reported as a total. They are like money: an
// increment that was acknowledged is counted, once, whatever crashes and
// however often it is sent. The truth is in SQL: each increment by its id, and
// the running totals that it was added to, in one transaction. The buckets in
// Redis are raised with those totals afterwards, and can be made anew from them
// at any time: that is the Reconciler's work.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/batch"
	"stepboard/services/score"
)

const (
	// flushItems is how many increments one transaction takes of several calls.
	flushItems = 1000
	// flushWorkers is how many transactions of short calls may be under way: one,
	// as the next is the larger for waiting, and cheaper for each increment. Of
	// lists from listItems on, listWorkers may be: while one waits for the
	// database's disk, the other one's work is done.
	flushWorkers = 1
	listWorkers  = 2
	listItems    = 100
	// attempts bounds how often a transaction is tried: again where another
	// replica was faster, which it can't be for ever.
	attempts = 10
	// raisePatience is how long an answer waits for the buckets to be raised. A
	// Redis that hangs must not hold up what is counted already.
	raisePatience = 500 * time.Millisecond
	// raisesAtOnce is how many raises may hang; those behind them are left to the
	// reconciler.
	raisesAtOnce = 2
	// raiseTimeout bounds raising the buckets.
	raiseTimeout = 5 * time.Second
)

// Increment is something that is added to a user's score.
type Increment struct {
	User models.UserID
	// Delta is what is added, 1 or more.
	Delta int64
	// EventID names it, 1 to 64 visible ASCII characters: on one board the same
	// id counts once.
	EventID string
}

// Status is what became of an increment.
type Status string

// What may become of an increment.
const (
	// Applied: it is counted.
	Applied Status = "applied"
	// Duplicate: it was counted before, as it is.
	Duplicate Status = "duplicate"
	// Rejected: it is not counted, and will not be if it is sent again as it is.
	Rejected Status = "rejected"
)

// Result is what became of one increment.
type Result struct {
	EventID string
	Status  Status
	// Score and ReachedAt are the user's score that the increment led to, and
	// when; of a duplicate as they were the first time. Increments of a user
	// that are counted in one transaction all have the time of the latest. They
	// are 0 where the increment was rejected.
	Score     int64
	ReachedAt models.Timestamp
	// Err is a *models.Error that says why the increment was rejected, else nil:
	// CodeValidationFailed, CodeEventIDConflict where its id was counted with
	// another user or delta, CodeScoreOutOfRange where the score would pass the
	// board's largest, CodeEventNotOpen outside of the event's time.
	Err error
}

// Catalog knows where increments count.
type Catalog interface {
	// ForIncrement is where an increment counts that is accepted now.
	// CodeBoardNotFound, CodeBoardKind on a board that takes none,
	// CodeEventNotOpen outside of the event's time, CodeUnavailable.
	ForIncrement(ctx context.Context, board string, now time.Time) (models.TotalRange, error)
}

// Boards are the buckets in Redis.
type Boards interface {
	// Raise raises buckets. It answers nil if all are raised, else one error for
	// each raise.
	Raise(ctx context.Context, raises []models.Raise) []error
}

// Service counts increments. Safe for concurrent use.
type Service struct {
	catalog Catalog
	boards  Boards
	store   *Store
	clock   models.Clock
	log     *slog.Logger
	stats   Stats
	flushes *batch.Batcher[*pending]
	lists   *batch.Batcher[*pending]

	// raising has a place for each call of Boards.Raise that is under way.
	raising chan struct{}
	raises  sync.WaitGroup
	// behind says that the last raise has failed.
	behind atomic.Bool
}

// Stats counts what this process has done.
type Stats struct {
	// Applied, Duplicates and Rejected are increments by what became of them;
	// malformed ones are not among them.
	Applied, Duplicates, Rejected atomic.Int64
	// Flushes is the number of transactions that were committed or had nothing
	// to do, Retries how often one was tried again.
	Flushes, Retries atomic.Int64
	// Unraised is the number of totals that were counted and did not reach Redis
	// at once: the reconciler brings them there.
	Unraised atomic.Int64
}

// Stats is what this process has done so far.
func (s *Service) Stats() *Stats { return &s.stats }

// New returns a service. Add waits until Start has been called.
func New(store *Store, catalog Catalog, boards Boards, clock models.Clock, log *slog.Logger) *Service {
	s := &Service{catalog: catalog, boards: boards, store: store, clock: clock, log: log, raising: make(chan struct{}, raisesAtOnce)}
	s.flushes = batch.New(flushItems, flushWorkers, s.flush)
	s.lists = batch.New(flushItems, listWorkers, s.flush)
	return s
}

// Start starts the workers that flush increments, which run until Close. It must
// be called once.
func (s *Service) Start() {
	s.flushes.Start()
	s.lists.Start()
}

// Close counts what was let in, lets nothing more in, and waits for the buckets
// to be raised.
func (s *Service) Close() {
	s.flushes.Close()
	s.lists.Close()
	s.raises.Wait()
}

// Add counts increments on an event or rolling board and answers for each of
// them, in their order. They are counted in one transaction, together with
// those of other calls, and reach the bucket in Redis before the answer where
// Redis is there; ctx ending does not take them back. A nil error promises that
// what was applied is in the database. After an error nobody knows: the caller
// sends the same ids again. Errors: those of Catalog.Counting, except that of
// an event that is not open, as ids that were counted before it ended are
// duplicates all the same; CodeUnavailable.
func (s *Service) Add(ctx context.Context, board string, items []Increment) ([]Result, error) {
	now := models.TimestampOf(s.clock())
	slot, err := s.catalog.ForIncrement(ctx, board, now.Time())
	var closed *models.Error
	if err != nil && (!errors.As(err, &closed) || closed.Code != models.CodeEventNotOpen) {
		return nil, err
	}
	reachedAt := now
	if closed == nil {
		reachedAt = score.Of(slot.Bucket).Cut(now)
	}
	results := make([]Result, len(items))
	queued := make([]pending, 0, len(items)) // never moves, as it is pointed into
	flushed := make([]*pending, 0, len(items))
	for i, item := range items {
		results[i].EventID = item.EventID
		if err := item.check(); err != nil {
			results[i].reject(err)
			continue
		}
		queued = append(queued, pending{
			Increment: item, board: board, totals: slot, closed: closed,
			acceptedAt: now, reachedAt: reachedAt, result: &results[i],
		})
		flushed = append(flushed, &queued[len(queued)-1])
	}
	if len(flushed) == 0 {
		return results, nil
	}
	flushes := s.flushes
	if len(flushed) >= listItems {
		flushes = s.lists
	}
	if err := flushes.Submit(ctx, flushed); err != nil {
		return nil, err // the results may still be written to
	}
	return results, nil
}

// check is what every increment must be, whatever its board.
func (i Increment) check() *models.Error {
	switch {
	case !i.User.Valid():
		return models.Invalid("user_id", fmt.Sprintf("is a whole number from 1 to %d", models.MaxUserID))
	case i.Delta < 1:
		return models.Invalid("delta", "is a whole number, 1 or more")
	case !validEventID(i.EventID):
		return models.Invalid("event_id", "has 1 to 64 visible ASCII characters, without spaces")
	default:
		return nil
	}
}

func validEventID(id string) bool {
	if len(id) < 1 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

func (r *Result) reject(err *models.Error) {
	r.Status, r.Score, r.ReachedAt, r.Err = Rejected, 0, 0, err
}

// flush counts the increments of several calls.
func (s *Service) flush(ctx context.Context, items []*pending) []error {
	f, err := s.count(ctx, items)
	if err != nil {
		return slices.Repeat([]error{models.Unavailable("count increments", err)}, len(items))
	}
	s.stats.count(items)
	s.raise(ctx, s.raisesOf(ctx, f))
	return nil
}

func (s *Stats) count(items []*pending) {
	var applied, duplicates, rejected int64
	for _, p := range items {
		switch p.result.Status {
		case Applied:
			applied++
		case Duplicate:
			duplicates++
		default:
			rejected++
		}
	}
	s.Applied.Add(applied)
	s.Duplicates.Add(duplicates)
	s.Rejected.Add(rejected)
	s.Flushes.Add(1)
}

var (
	// errDuplicateID says that an id of the transaction was counted meanwhile.
	errDuplicateID = errors.New("an event id was counted by somebody else meanwhile")
	// errConflict says that the database has ended a transaction because of
	// another one.
	errConflict = errors.New("the transaction has met another one")
	// errOverMax says that a score would pass the largest.
	errOverMax = errors.New("a score passes the largest")
)

// count writes the increments down and their results.
func (s *Service) count(ctx context.Context, items []*pending) (*plan, error) {
	careful := false
	var err error
	for range attempts {
		var f *plan
		f, err = s.attempt(ctx, items, careful)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, errOverMax):
			careful = true
		case !errors.Is(err, errDuplicateID) && !errors.Is(err, errConflict):
			return nil, err
		}
		s.stats.Retries.Add(1)
	}
	return nil, fmt.Errorf("tried %d times: %w", attempts, err)
}

// attempt writes the increments down in one transaction. It takes for granted
// that none of them passes the largest score, and answers errPast where one
// does; a careful attempt looks at the totals first, and rejects such ones.
func (s *Service) attempt(ctx context.Context, items []*pending, careful bool) (f *plan, err error) {
	err = s.store.transactor.transact(ctx, func(tx transaction) error {
		known, err := tx.known(ctx, keysOf(items))
		if err != nil {
			return fmt.Errorf("look for known event ids: %w", err)
		}
		f = newPlan(items, known)
		if careful {
			if err := tx.lock(ctx, f.sortedRows(), f.windows); err != nil {
				return fmt.Errorf("lock totals: %w", err)
			}
		}
		if f.accept(careful); len(f.accepted) == 0 {
			return nil
		}
		if err := tx.add(ctx, f.sortedRows(), f.windows); err != nil {
			return fmt.Errorf("add to totals: %w", err)
		}
		if !f.assignScores() {
			return errOverMax
		}
		if err := tx.finish(ctx, f.events()); err != nil {
			return fmt.Errorf("store increments: %w", err)
		}
		return nil
	})
	return f, err
}

// raisesOf is what the flush makes of the buckets: of each total that has
// changed, all of it, so that it may be raised in any order and again.
func (s *Service) raisesOf(ctx context.Context, f *plan) []models.Raise {
	raises := make([]models.Raise, 0, len(f.rows))
	for _, r := range f.rows {
		if r.added == 0 || r.sumUp {
			continue
		}
		composite, err := score.Of(r.bucket).Encode(r.score, r.reachedAt)
		if err != nil {
			s.log.ErrorContext(ctx, "a total can't be in its bucket", "board", r.board, "total", r.total, "error", err)
			continue
		}
		raises = append(raises, models.Raise{Bucket: r.bucket, Entry: models.Entry{User: r.user, Composite: composite}})
	}
	return raises
}

// raise raises the buckets, and waits for it as long as an answer may wait. What
// does not reach Redis is left to the reconciler.
func (s *Service) raise(ctx context.Context, raises []models.Raise) {
	if len(raises) == 0 {
		return
	}
	select {
	case s.raising <- struct{}{}:
	default: // those before hang
		s.stats.Unraised.Add(int64(len(raises)))
		return
	}
	done := make(chan struct{})
	s.raises.Go(func() {
		defer close(done)
		defer func() { <-s.raising }()
		// The answer may be given up; the raise goes on.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), raiseTimeout)
		defer cancel()
		s.recordRaise(ctx, s.boards.Raise(ctx, raises))
	})
	patience := time.NewTimer(raisePatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

// recordRaise counts what was not raised, and says so once until it works again.
func (s *Service) recordRaise(ctx context.Context, errs []error) {
	var failed int64
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			first = err
		}
	}
	s.stats.Unraised.Add(failed)
	if was := s.behind.Swap(failed > 0); failed > 0 && !was {
		s.log.WarnContext(ctx, "increments are counted and do not reach Redis; they will be brought there later", "error", first)
	} else if failed == 0 && was {
		s.log.InfoContext(ctx, "increments reach Redis again")
	}
}

// Waiting is the number of calls that wait for the next transaction.
func (s *Service) Waiting() int { return s.flushes.Waiting() + s.lists.Waiting() }
