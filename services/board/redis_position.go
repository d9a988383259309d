package board

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Position is a user's place in a bucket.
type Position struct {
	// Composite is 0 without a score; the rest says nothing then.
	Composite models.Composite
	Rank      int64
	Total     int64
}

// positionScript reads a member's place in its own shard.
//
//	KEYS    the shard's readKeys
//	ARGV    the member
//	result  {composite, entries before the member, entries in the shard}; nil
//	        for who is not there
const positionScript = selectKey + `
local composite = redis.call('ZSCORE', key, ARGV[1])
if not composite then
  return false
end
return {composite, redis.call('ZREVRANK', key, ARGV[1]), redis.call('ZCARD', key)}
`

// Positions reads a user's place in each of the buckets. One round trip; one
// more where a bucket in which the user has a score has other shards, which
// are asked how many stand before it. Between the two the user may have moved
// on: the rank is then that of the score that is answered.
func (s *Store) Positions(ctx context.Context, buckets []*models.Bucket, user models.UserID) ([]Position, error) {
	pipe := s.rdb.Pipeline()
	own := make([]*redis.Cmd, len(buckets))
	now := s.clock()
	for i, b := range buckets {
		own[i] = pipe.Eval(ctx, positionScript, s.readKeys(b, b.Shard(user), now), int64(user))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, models.Unavailable("read standings", err)
	}
	standings := make([]Position, len(buckets))
	others := s.rdb.Pipeline()
	elsewhere := make([][]*redis.Cmd, len(buckets))
	for i, b := range buckets {
		err := own[i].Err()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, models.Unavailable("read standings", err)
		}
		if standings[i], err = parsePosition(own[i].Val()); err != nil {
			return nil, fmt.Errorf("read standing in %s %s: %w", b.Board, b.Name, err)
		}
		for shard := range b.Shards {
			if shard != b.Shard(user) {
				elsewhere[i] = append(elsewhere[i], others.Eval(ctx, windowScript, s.readKeys(b, shard, now),
					int64(standings[i].Composite), int64(user), 0, 0))
			}
		}
	}
	if others.Len() == 0 {
		return standings, nil
	}
	if _, err := others.Exec(ctx); err != nil {
		return nil, models.Unavailable("read standings", err)
	}
	for i, cmds := range elsewhere {
		for _, cmd := range cmds {
			part, err := parseShardWindow(cmd.Val())
			if err != nil {
				return nil, fmt.Errorf("read standing in %s %s: %w", buckets[i].Board, buckets[i].Name, err)
			}
			standings[i].Rank += part.before
			standings[i].Total += part.total
		}
	}
	return standings, nil
}

// parsePosition reads the result of standingScript.
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
