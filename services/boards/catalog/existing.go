package catalog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/reading"
	"stepboard/models"
)

// settles is how long after its closing a bucket may still be made by an upload: clocks of
// processes differ, and what one has accepted takes a moment to be stored.
const settles = time.Minute

// Existing returns the bucket that exists in place of one that Resolve has returned. It is
// for reads: however many calls ask for what does not exist, they cost few queries. Errors:
// those of Load.
//
// A bucket that takes uploads is found as soon as it exists; calls that arrive during a query
// share the next one. Whether any other exists is read once for the whole board between two
// refreshes, so a day that another process imports may be missing for three more seconds.
func (s *Buckets) Existing(ctx context.Context, expected *models.Bucket) (*models.Bucket, error) {
	if bucket, ok := s.cached(expected.Board, expected.Name); ok {
		return bucket, nil
	}
	now := s.clock()
	if !now.Before(expected.StartsAt) && now.Before(expected.ClosesAt.Add(settles)) {
		if _, err := s.opened.Share(ctx, s.loadOpen); err != nil {
			return nil, models.Unavailable("find open buckets", err)
		}
	}
	// Under another definition it may have been made to close earlier.
	exists, err := s.names.Load().of(expected.Board).contain(ctx, s.store, expected.Name)
	if err != nil {
		return nil, models.Unavailable("find buckets", err)
	}
	if _, cached := s.cached(expected.Board, expected.Name); !exists && !cached {
		return nil, ErrNoBucket
	}
	return s.Load(ctx, expected.Board, expected.Name)
}

// forgetNames lets the names of buckets be read again when they are needed.
func (s *Buckets) forgetNames() { s.names.Store(&bucketNames{}) }

// bucketNames holds the names of the buckets of boards since a refresh. Safe for
// concurrent use.
type bucketNames struct {
	boards sync.Map // from the name of a board to its *boardNames
}

// boardNames holds the names of the buckets of a board, once they were read.
type boardNames struct {
	board   string
	reading *reading.Shared
	known   atomic.Pointer[map[string]struct{}]
}

// of returns the names of a board.
func (n *bucketNames) of(board string) *boardNames {
	names, ok := n.boards.Load(board)
	if !ok {
		names, _ = n.boards.LoadOrStore(board, &boardNames{board: board, reading: reading.New(refreshTimeout)})
	}
	return names.(*boardNames)
}

// contain reports whether a bucket is among the names. One query the first time, none
// afterwards.
func (n *boardNames) contain(ctx context.Context, store *Store, bucket string) (bool, error) {
	if n.known.Load() == nil {
		_, err := n.reading.Share(ctx, func(ctx context.Context) error {
			if n.known.Load() != nil {
				return nil
			}
			names, err := store.names(ctx, n.board)
			if err == nil {
				n.known.Store(&names)
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	_, exists := (*n.known.Load())[bucket]
	return exists, nil
}
