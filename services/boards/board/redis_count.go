package board

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// countScript counts the entries of one shard.
//
//	KEYS    the shard's readKeys
//	result  the number of entries
const countScript = selectKey + `return redis.call('ZCARD', key)`

// Counts returns the number of entries of each of the buckets, by position. One command for
// each shard, all in one round trip. CodeUnavailable.
func (s *Store) Counts(ctx context.Context, buckets []*models.Bucket) ([]int64, error) {
	counts := make([]int64, len(buckets))
	pipe := s.rdb.Pipeline()
	cmds := make([][]*redis.Cmd, len(buckets))
	now := s.clock()
	for i, b := range buckets {
		for shard := range b.Shards {
			cmds[i] = append(cmds[i], pipe.Eval(ctx, countScript, s.readKeys(b, shard, now)))
		}
	}
	if pipe.Len() == 0 {
		return counts, nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, models.Unavailable("count entries", err)
	}
	for i, shards := range cmds {
		for _, cmd := range shards {
			n, err := cmd.Int64()
			if err != nil {
				return nil, fmt.Errorf("count the entries of %s %s: %w", buckets[i].Board, buckets[i].Name, err)
			}
			counts[i] += n
		}
	}
	return counts, nil
}
