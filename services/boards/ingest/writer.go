package ingest

import (
	"context"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/platform/batch"
)

const (
	// writeBatch is how many updates are written at once, to the queue or to the
	// boards: about a millisecond of Redis.
	writeBatch = 1000
	// uploadWriters is how many writes of users' uploads to one server may run at
	// the same time. With one, the next write is larger for having waited.
	uploadWriters = 1
	// batchWriters is how many writes of batches to one server may run at the same
	// time. They are large by themselves: while Redis executes one, the next is
	// encoded.
	batchWriters = 2
)

// Store stores updates. It returns nil if all of them are stored, otherwise one error for each,
// nil for those that are.
type Store = func(context.Context, []models.Raise) []error

// Boards are the boards that a writer raises. Implemented by board.Store and board.Local.
type Boards interface {
	Entries
	// Server returns the name of the server that an update is written to.
	Server(ctx context.Context, raise models.Raise) string
}

// Writer stores updates that were accepted, on the boards or in a queue before them. Safe for
// concurrent use.
type Writer struct {
	store  Store
	queued bool
	// uploads batches the uploads of users, batches those of backends; each with a
	// lane for each server that they are written to.
	uploads, batches *batch.Lanes[models.Raise]
}

// Direct returns a writer to the boards. traced puts a trace around each write.
func Direct(boards Boards, traced func(Store) Store) *Writer {
	return newWriter(traced(boards.Raise), boards.Server, false)
}

// Queued returns a writer to a queue. traced puts a trace around each write.
func Queued(q Queue, traced func(Store) Store) *Writer {
	oneQueue := func(context.Context, models.Raise) string { return "" }
	return newWriter(traced(enqueue(q)), oneQueue, true)
}

func newWriter(store Store, server func(context.Context, models.Raise) string, queued bool) *Writer {
	return &Writer{
		store: store, queued: queued,
		uploads: batch.NewLanes(writeBatch, uploadWriters, server, store),
		batches: batch.NewLanes(writeBatch, batchWriters, server, store),
	}
}

// Raise stores updates at once, in one write; see Store.
func (w *Writer) Raise(ctx context.Context, raises []models.Raise) []error {
	return w.store(ctx, raises)
}

// Close writes what was accepted, and takes no more.
func (w *Writer) Close() {
	w.uploads.Close()
	w.batches.Close()
}

// enqueue returns a function that appends updates to a queue. Its errors are CodeUnavailable.
func enqueue(q Queue) Store {
	return func(ctx context.Context, raises []models.Raise) []error {
		if len(raises) == 0 {
			return nil
		}
		errs := q.Append(ctx, column.Of(raises, updateOf))
		for i, err := range errs {
			if err != nil {
				errs[i] = models.Unavailable("append to the queue", err)
			}
		}
		return errs
	}
}
