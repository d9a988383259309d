package cache

import (
	"context"
	"fmt"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// DropStale returns the recovery.Replay of the cached sets of all kinds. It drops
// those on each server that may have forgotten that one was removed: it has
// restarted, another server has taken its place, or an earlier state was restored.
// Otherwise such a set would be believed until it expires. Sets are loaded again on
// their next read. Its rows are the stripes whose sets were dropped. Safe to run
// twice at once, and to cut off.
func (s *Store) DropStale(clock models.Clock) recovery.Replay {
	return func(ctx context.Context, loss recovery.Loss) (dropped int64, upto time.Time, err error) {
		upto = clock()
		var stripes []int
		for stripe := range keys.Stripes {
			if loss.Includes(stripe) {
				stripes = append(stripes, stripe)
			}
		}
		if len(stripes) > 0 {
			err = s.drop(ctx, stripes)
			failpoint.Hit("caches.dropped")
		}
		return int64(len(stripes)), upto, err
	}
}

// DropAll drops the sets of all kinds and owners, which are loaded again on their next
// read. Two round trips.
func (s *Store) DropAll(ctx context.Context) error {
	stripes := make([]int, keys.Stripes)
	for i := range stripes {
		stripes[i] = i
	}
	return s.drop(ctx, stripes)
}

// drop begins a new generation in each of the stripes: all of their sets count as
// missing, and so will those that readers are loading. The streams of changes name it
// after that. Two round trips.
func (s *Store) drop(ctx context.Context, stripes []int) error {
	pipe := s.rdb.Pipeline()
	for _, stripe := range stripes {
		pipe.Set(ctx, s.keys.SetsGeneration(stripe), newGeneration(), 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("drop cached sets: %w", err)
	}
	pipe = s.rdb.Pipeline()
	s.queueDropped(ctx, pipe, stripes)
	return models.Wrap("announce that cached sets were dropped", execAppends(ctx, pipe))
}
