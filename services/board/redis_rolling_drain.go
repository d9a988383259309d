package board

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// drainChunk is how many users one script call drains: a millisecond of Redis
// among 200,000 users, so that others hardly wait for it.
const drainChunk = 200

// drainScript takes users out of an hour that has left the window, and
// subtracts what they had reached in it from their live scores. Who has
// nothing left leaves the board. The hour is struck off once it is empty.
//
//	KEYS    Board, BoardHours, BoardNow, BoardHour
//	ARGV    the hour's name; the caller's hour; 2^T; how many users
//	result  how many users were in the hour; fewer than were asked for: no more
//	        are
//
// All is read before anything is written, and what frees memory is written
// first: Redis lets a script go on that it has let write.
const drainScript = `
local unit, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(redis.call('GET', KEYS[3]) or 0)
local popped = redis.call('ZRANGE', KEYS[4], 0, most - 1, 'WITHSCORES')
local members = {}
for i = 1, #popped, 2 do
  members[#members + 1] = popped[i]
end
if #members > 0 then
  local rest, gone = {}, {}
  for i, was in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(members))) do
    local total = tonumber(popped[2 * i])
    local left = tonumber(was or 0) - (total - total % unit)
    if left < unit then
      gone[#gone + 1] = members[i]
    else
      rest[#rest + 1] = string.format('%.0f', left)
      rest[#rest + 1] = members[i]
    end
  end
  redis.call('ZREMRANGEBYRANK', KEYS[4], 0, #members - 1)
  if #gone > 0 then
    redis.call('ZREM', KEYS[1], unpack(gone))
  end
  if #rest > 0 then
    redis.call('ZADD', KEYS[1], unpack(rest))
  end
end
if #members < most then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if tonumber(ARGV[2]) > now then
  redis.call('SET', KEYS[3], ARGV[2])
end
return #members
`

var drain = redis.NewScript(drainScript)

// Drain takes the hours that have left the window out of a rolling bucket, and
// tells how many totals of users these were; of another bucket there are none.
// It may be stopped at any moment, and run twice at once. One round trip, and
// one for each chunk of users; it rests after each for as long as that has
// taken, so that whoever reads boards meanwhile gets at least half of Redis.
func (s *Store) Drain(ctx context.Context, bucket *models.Bucket) (drained int64, err error) {
	left, err := s.expiredHours(ctx, bucket)
	if err != nil {
		return 0, err
	}
	for _, l := range left {
		keys := []string{
			s.keys.Board(bucket, l.shard), s.keys.BoardHours(bucket, l.shard),
			s.keys.BoardNow(bucket, l.shard), s.keys.BoardHour(bucket, l.shard, l.hour),
		}
		for n := int64(drainChunk); n == drainChunk; {
			start := time.Now()
			n, err = drain.Run(ctx, s.rdb, keys, l.hour.String(), int64(l.now), int64(1)<<bucket.TimeBits, drainChunk).Int64()
			if err != nil {
				return drained, models.Unavailable("drain", err)
			}
			drained += n
			rest := time.NewTimer(time.Since(start))
			select {
			case <-rest.C:
			case <-ctx.Done():
				return drained, models.Unavailable("drain", ctx.Err())
			}
		}
	}
	return drained, nil
}

// Settling tells whether an hour that has left the window is still counted for
// anybody in a rolling bucket. One round trip, O(hours in the window).
func (s *Store) Settling(ctx context.Context, bucket *models.Bucket) (bool, error) {
	left, err := s.expiredHours(ctx, bucket)
	return len(left) > 0, err
}

// expiredHour is an hour that has left the window, in one shard.
type expiredHour struct {
	shard int
	hour  models.Hour
	now   models.Hour // what the shard has seen, or the clock's
}

// expiredHours finds the hours that have left the window, by the clock or by what
// a shard has seen, and are still there: of each shard, oldest first.
func (s *Store) expiredHours(ctx context.Context, bucket *models.Bucket) ([]expiredHour, error) {
	if bucket.WindowHours == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	seen := make([]*redis.StringCmd, bucket.Shards)
	hours := make([]*redis.ZSliceCmd, bucket.Shards)
	for shard := range bucket.Shards {
		seen[shard] = pipe.Get(ctx, s.keys.BoardNow(bucket, shard))
		hours[shard] = pipe.ZRangeWithScores(ctx, s.keys.BoardHours(bucket, shard), 0, -1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, models.Unavailable("look for hours to drain", err)
	}
	var left []expiredHour
	for shard := range bucket.Shards {
		if err := hours[shard].Err(); err != nil {
			return nil, models.Unavailable("look for hours to drain", err)
		}
		now := models.HourOf(s.clock())
		switch hour, err := seen[shard].Int64(); {
		case err == nil:
			now = max(now, models.Hour(hour))
		case !errors.Is(err, redis.Nil):
			return nil, models.Unavailable("look for hours to drain", err)
		}
		for _, z := range hours[shard].Val() {
			if hour := models.Hour(z.Score); hour <= now-models.Hour(bucket.WindowHours) {
				left = append(left, expiredHour{shard, hour, now})
			}
		}
	}
	return left, nil
}
