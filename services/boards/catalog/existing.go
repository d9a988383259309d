package catalog

import (
	"context"
	"time"

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
	b, err := s.board(expected.Board)
	if err != nil {
		return nil, err
	}
	// Under another definition it may have been made to close earlier.
	exists, err := b.exists(ctx, s.store, expected.Name)
	if err != nil {
		return nil, models.Unavailable("find buckets", err)
	}
	if _, cached := s.cached(expected.Board, expected.Name); !exists && !cached {
		return nil, ErrNoBucket
	}
	return s.Load(ctx, expected.Board, expected.Name)
}

// exists reports whether a bucket of this name exists, or has by the last refresh. One query the first time after a
// refresh, which concurrent calls share; none afterwards.
func (b *Board) exists(ctx context.Context, store *Store, bucket string) (bool, error) {
	if b.names.Load() == nil {
		_, err := b.reading.Share(ctx, func(ctx context.Context) error {
			if b.names.Load() != nil {
				return nil
			}
			names, err := store.names(ctx, b.Name)
			if err == nil {
				b.names.Store(&names)
			}
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return (*b.names.Load())[bucket], nil
}
