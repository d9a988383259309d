package board

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Position is a user's rank and score in a bucket.
type Position struct {
	// Composite and Rank are 0 if the user has no score. Rank counts from 1.
	Composite   models.Composite
	Rank, Total int64
}

// positionScript reads a member's position in its own shard.
//
//	KEYS    the shard's readKeys
//	ARGV    the member
//	result  {composite, rank counted from 1, entries in the shard}; composite and
//	        rank are 0 if the member has no score
const positionScript = selectKey + `
local composite = redis.call('ZSCORE', key, ARGV[1])
local total = redis.call('ZCARD', key)
if not composite then
  return {'0', 0, total}
end
return {composite, redis.call('ZREVRANK', key, ARGV[1]) + 1, total}
`

// position returns the command that reads a user's position in its own shard.
func (s *Store) position(ctx context.Context, bucket *models.Bucket, user models.RowID, now time.Time) *redis.Cmd {
	args := []any{"eval", positionScript}
	keys := s.readKeys(bucket, bucket.Shard(user), now)
	args = append(args, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	return redis.NewCmd(ctx, append(args, int64(user))...)
}

// Positions returns a user's position in each of the buckets. One round trip. A
// second one follows if a bucket has several shards: it
// counts the entries of the other shards that rank before the user. Between the
// two the user's score may change; the rank is then that of the score that is
// returned.
func (s *Store) Positions(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]Position, error) {
	own := make([]*redis.Cmd, len(buckets))
	queued := make([]redis.Cmder, len(buckets))
	now := s.clock()
	for i, b := range buckets {
		own[i] = s.position(ctx, b, user, now)
		queued[i] = own[i]
	}
	if err := s.process(ctx, queued); err != nil {
		return nil, models.Unavailable("read positions", err)
	}
	return s.addShards(ctx, buckets, user, own, now)
}

// CompositesAndPosition returns Composites of some users, and Positions of one, in as many round
// trips as the latter.
func (s *Store) CompositesAndPosition(
	ctx context.Context, bucket *models.Bucket, users []models.RowID, user models.RowID,
) ([]models.Composite, Position, error) {
	now, composites := s.clock(), make([]models.Composite, len(users))
	own := s.position(ctx, bucket, user, now)
	if err := s.lookUp(ctx, s.lookups(ctx, bucket, users, composites, now), own); err != nil {
		return nil, Position{}, err
	}
	positions, err := s.addShards(ctx, []*models.Bucket{bucket}, user, []*redis.Cmd{own}, now)
	if err != nil {
		return nil, Position{}, err
	}
	return composites, positions[0], nil
}

// addShards returns a user's positions in buckets, of which the given commands have read those in
// the user's own shards.
func (s *Store) addShards(
	ctx context.Context, buckets []*models.Bucket, user models.RowID, own []*redis.Cmd, now time.Time,
) ([]Position, error) {
	positions := make([]Position, len(buckets))
	others := s.rdb.Pipeline()
	elsewhere := make([][]*redis.Cmd, len(buckets))
	for i, b := range buckets {
		fields := own[i].Val().([]any)
		positions[i] = Position{Composite: parseComposite(fields[0]), Rank: fields[1].(int64), Total: fields[2].(int64)}
		at := models.Entry{User: user, Composite: positions[i].Composite}
		if at.Composite == 0 {
			at = Top
		}
		for shard := range b.Shards {
			if shard != b.Shard(user) {
				elsewhere[i] = append(elsewhere[i], others.Eval(ctx, windowScript, s.readKeys(b, shard, now),
					int64(at.Composite), int64(at.User), 0, 0))
			}
		}
	}
	if others.Len() == 0 {
		return positions, nil
	}
	if _, err := others.Exec(ctx); err != nil {
		return nil, models.Unavailable("read positions", err)
	}
	for i, b := range buckets {
		for _, cmd := range elsewhere[i] {
			part, err := parseShardWindow(cmd.Val().([]any))
			if err != nil {
				return nil, fmt.Errorf("read position in %s %s: %w", b.Board, b.Name, err)
			}
			positions[i].Rank += part.Before
			positions[i].Total += part.Total
		}
	}
	return positions, nil
}

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
			counts[i] += cmd.Val().(int64)
		}
	}
	return counts, nil
}
