package board

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Position is a user's rank and score in a bucket.
type Position struct {
	// Composite is 0 if the user has no score. The other fields are 0 then, too.
	Composite models.Composite
	// Rank counts from 1, among Total users.
	Rank, Total int64
}

// positionScript reads a member's position in its own shard.
//
//	KEYS    the shard's readKeys
//	ARGV    the member
//	result  {composite, entries before the member, entries in the shard}; nil
//	        if the member has no score
const positionScript = selectKey + `
local composite = redis.call('ZSCORE', key, ARGV[1])
if not composite then
  return false
end
return {composite, redis.call('ZREVRANK', key, ARGV[1]), redis.call('ZCARD', key)}
`

// Positions returns a user's position in each of the buckets. One round trip. A
// second one follows if the user has a score in a bucket of several shards: it
// counts the entries of the other shards that rank before the user. Between the
// two the user's score may change; the rank is then that of the score that is
// returned.
func (s *Store) Positions(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]Position, error) {
	pipe := s.rdb.Pipeline()
	own := make([]*redis.Cmd, len(buckets))
	now := s.clock()
	for i, b := range buckets {
		own[i] = pipe.Eval(ctx, positionScript, s.readKeys(b, b.Shard(user), now), int64(user))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, models.Unavailable("read positions", err)
	}
	positions := make([]Position, len(buckets))
	others := s.rdb.Pipeline()
	elsewhere := make([][]*redis.Cmd, len(buckets))
	for i, b := range buckets {
		err := own[i].Err()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, models.Unavailable("read positions", err)
		}
		if positions[i], err = parsePosition(own[i].Val()); err != nil {
			return nil, fmt.Errorf("read position in %s %s: %w", b.Board, b.Name, err)
		}
		for shard := range b.Shards {
			if shard != b.Shard(user) {
				elsewhere[i] = append(elsewhere[i], others.Eval(ctx, windowScript, s.readKeys(b, shard, now),
					int64(positions[i].Composite), int64(user), 0, 0))
			}
		}
	}
	if others.Len() == 0 {
		return positions, nil
	}
	if _, err := others.Exec(ctx); err != nil {
		return nil, models.Unavailable("read positions", err)
	}
	for i, cmds := range elsewhere {
		for _, cmd := range cmds {
			part, err := parseShardWindow(cmd.Val())
			if err != nil {
				return nil, fmt.Errorf("read position in %s %s: %w", buckets[i].Board, buckets[i].Name, err)
			}
			positions[i].Rank += part.before
			positions[i].Total += part.total
		}
	}
	return positions, nil
}

// parsePosition parses the result of positionScript.
func parsePosition(reply any) (Position, error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 3 {
		return Position{}, fmt.Errorf("unexpected reply %v", reply)
	}
	text, ok1 := fields[0].(string)
	before, ok2 := fields[1].(int64)
	total, ok3 := fields[2].(int64)
	composite, err := strconv.ParseFloat(text, 64)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return Position{}, fmt.Errorf("unexpected reply %v", reply)
	}
	return Position{Composite: models.Composite(composite), Rank: before + 1, Total: total}, nil
}
