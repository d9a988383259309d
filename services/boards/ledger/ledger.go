package ledger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
	"stepboard/services/platform/batch"
)

const (
	// flushItems is how many increments of several calls one transaction takes.
	flushItems = 1000
	// flushWorkers is how many transactions of short calls may run at a time. It
	// is one: the next transaction gets larger by waiting, and costs less for each
	// increment.
	flushWorkers = 1
	// listWorkers is how many transactions of long calls may run at a time. While
	// one waits for the database's disk, the other one works.
	listWorkers = 2
	// listItems is how many increments make a call a long one.
	listItems = 100
)

// Increment is an amount that is added to a user's score, or a result of which the best is the
// user's score.
type Increment struct {
	User models.UserID
	// Amount is what is added, 1 or more, or 0 on events; or a result, 0 or more.
	Amount int64
	// Result reports whether the amount is a result. It is so on boards that take the best.
	Result bool
	// EventID identifies the increment on its board: 1 to 64 visible ASCII
	// characters. The same id counts once.
	EventID string
	// OccurredAt is when it happened, nil for the moment at which it is accepted. Events only.
	OccurredAt *models.Timestamp
}

// Status says what happened to an increment.
type Status string

// The statuses of an increment.
const (
	// Applied means that it is counted.
	Applied Status = "applied"
	// Duplicate means that the same increment was counted before.
	Duplicate Status = "duplicate"
	// Rejected means that it is not counted, and will not be if it is sent again
	// unchanged.
	Rejected Status = "rejected"
)

// Result is the result of one increment.
type Result struct {
	EventID string
	Status  Status
	// Score and ReachedAt are the user's score after the increment, and when it
	// was reached. A duplicate has those of the first time. Increments of a user
	// that are counted in one transaction all have the time that this leads to and, where the
	// best counts, its score. Both are 0 for a rejected increment.
	Score     int64
	ReachedAt models.Timestamp
	// Unraised reports that the bucket may lack the increment for now.
	Unraised bool
	// Err is the *models.Error that the increment was rejected for, otherwise nil:
	// CodeValidationFailed, CodeEventIDConflict if its id was counted with another
	// user or amount, CodeScoreOutOfRange if the score would pass the board's
	// largest, CodeEventNotOpen outside the event's time, CodeOccurredAtInvalid if it
	// can't have happened then.
	Err error
}

func rejected(eventID string, err *models.Error) Result {
	return Result{EventID: eventID, Status: Rejected, Err: err}
}

// Catalog finds the running totals that increments are added to.
type Catalog interface {
	// ForIncrement returns where an increment counts that is accepted now. Errors:
	// CodeBoardNotFound, CodeBoardKind if the board takes no increments,
	// CodeEventNotOpen before the event's start, CodeUnavailable.
	ForIncrement(ctx context.Context, board string, now time.Time) (models.TotalRange, error)
}

// Service counts increments. Safe for concurrent use.
type Service struct {
	catalog   Catalog
	directory models.Ensurer
	store     *Store
	clock     models.Clock
	log       *slog.Logger
	stats     Stats
	flushes   *batch.Batcher[*pending] // of short calls
	lists     *batch.Batcher[*pending] // of long calls
	locked    *batch.Batcher[*pending] // of users whose rows are locked
	locks     *lockedUsers

	// raises has a lane for each server of the entries, so that one that hangs delays
	// only its own users.
	raises *batch.Lanes[models.Raise]
	// patience is raisePatience, except in tests.
	patience time.Duration
}

// Stats counts the work of this process.
type Stats struct {
	// Applied, Duplicates and Rejected count increments by their status, without
	// malformed ones.
	Applied, Duplicates, Rejected atomic.Int64
	// Flushes counts the transactions that were committed or had nothing to do,
	// Retries those that were tried again.
	Flushes, Retries atomic.Int64
	// Unraised counts the increments of calls that were answered before all of their
	// buckets were raised.
	Unraised atomic.Int64
	// Locked counts the increments that had to wait because another transaction
	// had locked rows of their user.
	Locked atomic.Int64
}

// Stats returns the counters of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// New returns a service. The caller must call Close.
func New(store *Store, catalog Catalog, directory models.Ensurer, entries board.Writer, clock models.Clock, log *slog.Logger) *Service {
	s := &Service{
		catalog: catalog, directory: directory, store: store, clock: clock, log: log, locks: newLockedUsers(), patience: raisePatience,
	}
	s.flushes = batch.New(flushItems, flushWorkers, s.flush)
	s.lists = batch.New(flushItems, listWorkers, s.flush)
	s.locked = batch.New(flushItems, lockedWorkers, s.flushLocked)
	s.raises = batch.NewLanes(raiseItems, raiseWorkers, entries.Server, entries.Raise)
	return s
}

// Close takes no more increments, counts those that were taken, and waits for the
// buckets to be raised.
func (s *Service) Close() {
	s.flushes.Close()
	s.lists.Close()
	s.locked.Close()
	s.raises.Close()
}

// Add counts increments on an event or rolling board and returns one result for
// each of them, in order. They are counted in one transaction, together with
// those of other calls. Their bucket is raised before Add returns, unless Redis
// fails or takes longer than raisePatience; a duplicate's, too, because its first
// call may have failed before that. All this happens even if ctx ends meanwhile.
//
// If another transaction has locked rows of some users, their increments are
// counted later than the others, or not at all if that takes longer than
// lockPatience: then the error is CodeUnavailable, although the increments of the
// other users are counted.
//
// If the error is nil, the applied increments are in the database. After any
// error the caller sends the same ids again. Errors: those of
// Catalog.ForIncrement and CodeUnavailable. An event that is not open is no
// error, because increments that were counted before it ended are still
// duplicates; the others are rejected.
func (s *Service) Add(ctx context.Context, board string, items []Increment) ([]Result, error) {
	now := models.TimestampOf(s.clock())
	totals, err := s.catalog.ForIncrement(ctx, board, now.Time())
	var closed *models.Error
	if err != nil && (!errors.As(err, &closed) || closed.Code != models.CodeEventNotOpen) {
		return nil, err
	}
	codec := score.Of(totals.Bucket)
	results := make([]Result, len(items))
	pendings := make([]pending, len(items)) // one allocation for all
	waiting := make([]*pending, 0, len(items))
	users := make([]models.UserID, 0, len(items))
	for i, item := range items {
		if err := item.check(totals.Bucket); err != nil {
			results[i] = rejected(item.EventID, err)
			continue
		}
		reachedAt := now
		if item.OccurredAt != nil {
			reachedAt = *item.OccurredAt
		}
		if item.Result {
			item.Amount = int64(totals.Bucket.Points(item.Amount))
		}
		users = append(users, item.User)
		pendings[i].result = &results[i]
		pendings[i].increment = increment{
			Increment: item, board: board, totals: totals, closed: closed, acceptedAt: now, reachedAt: codec.Cut(reachedAt),
		}
		waiting = append(waiting, &pendings[i])
	}
	if len(waiting) == 0 {
		return results, nil
	}
	rows, err := s.directory.Ensure(ctx, users...)
	if err != nil {
		return nil, err
	}
	for i, p := range waiting {
		p.row = rows[i]
	}
	// A client that disconnects has its increments counted and shown all the same.
	if err := s.submit(context.WithoutCancel(ctx), waiting); err != nil {
		return nil, err
	}
	for _, p := range waiting {
		if p.result.Status != Rejected {
			p.result.Score = totals.Bucket.Score(models.Points(p.result.Score))
		}
	}
	return results, nil
}

// amountField returns the name of the amount in the API.
func (i Increment) amountField() string {
	if i.Result {
		return "score"
	}
	return "delta"
}

// pending is an increment that waits for its flush.
type pending struct {
	increment
	// result is written by the flush; nobody reads it before the flush is over. It
	// stays empty while the increment is left out because of a lock.
	result *Result
	// total is the increment's element of outcome.totals. It is written like result.
	total balance
}

// check returns an error if the bucket never takes the increment, whatever the time.
func (i Increment) check(bucket *models.Bucket) *models.Error {
	if _, err := models.ParseUserID(string(i.User)); err != nil {
		return models.Invalid("user_id", err.Error())
	}
	switch {
	case i.Result && !bucket.Best:
		return models.Invalid("score", "is for boards that take the best: this one takes delta")
	case !i.Result && bucket.Best:
		return models.Invalid("delta", "is for boards that add up: this one takes score, of which the best counts")
	case i.Result && (i.Amount < 0 || i.Amount > bucket.MaxScore):
		return models.Errorf(models.CodeScoreOutOfRange, "the score is outside 0 … %d", bucket.MaxScore)
	case i.Amount < 0, i.Amount == 0 && !bucket.Event():
		return models.Invalid("delta", "is a whole number, 1 or more; on events also 0")
	case i.OccurredAt != nil && !bucket.Event():
		return models.Errorf(models.CodeOccurredAtInvalid, "only events take occurred_at")
	case !validEventID(i.EventID):
		return models.Invalid("event_id", "has 1 to 64 visible ASCII characters, without spaces")
	default:
		return nil
	}
}

func validEventID(id string) bool {
	return len(id) >= 1 && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Waiting returns the number of calls that wait for their transaction.
func (s *Service) Waiting() int {
	return s.flushes.Waiting() + s.lists.Waiting() + s.locked.Waiting()
}
