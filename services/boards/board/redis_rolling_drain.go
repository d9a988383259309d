package board

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/pause"
	"stepboard/models"
)

// drainChunk is how many users one script call drains: a millisecond of Redis
// among 200,000 users, so that others hardly wait for it.
const drainChunk = 200

// drainScript removes users from an hour that has left the window, and subtracts
// their totals of that hour from their sums. Users with nothing left are removed
// from the board. Once the hour is empty it is removed from BoardHours.
//
//	KEYS    Board, BoardHours, BoardNow, BoardHour
//	ARGV    the hour's name; the caller's hour; 2^T; how many users
//	result  how many users were removed from the hour; if these are fewer than
//	        asked for, the hour is empty
//
// The script reads everything before it writes. Its first write frees memory, so
// that Redis allows it when it is out of memory; a script that has written may
// complete.
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

// Drain removes the hours that have left the window from a rolling bucket. It
// returns how many users' totals these were, 0 for another bucket. It may be
// cut off, or run twice at once. One round trip, and one for each chunk of
// users. After each chunk it pauses for as long as that took, so that readers
// of boards get at least half of Redis.
func (s *Store) Drain(ctx context.Context, bucket *models.Bucket) (drained int64, err error) {
	expired, err := s.expiredHours(ctx, bucket)
	if err != nil {
		return 0, err
	}
	for _, l := range expired {
		keys := []string{
			s.keys.Board(bucket, l.shard), s.keys.BoardHours(bucket, l.shard),
			s.keys.BoardNow(bucket, l.shard), s.keys.BoardHour(bucket, l.shard, l.hour),
		}
		for n := int64(drainChunk); n == drainChunk; {
			start := time.Now()
			n, err = s.rdb.Eval(ctx, drainScript, keys, l.hour.String(), int64(l.now), int64(1)<<bucket.TimeBits, drainChunk).Int64()
			if err != nil {
				return drained, models.Unavailable("drain", err)
			}
			drained += n
			if err := pause.For(ctx, time.Since(start)); err != nil {
				return drained, models.Unavailable("drain", err)
			}
		}
	}
	return drained, nil
}

// Settling reports whether a rolling bucket still counts an hour that has left
// the window, for any user. One round trip, O(hours in the window).
func (s *Store) Settling(ctx context.Context, bucket *models.Bucket) (bool, error) {
	expired, err := s.expiredHours(ctx, bucket)
	return len(expired) > 0, err
}

// expiredHour is an hour that has left the window and is not drained yet, in
// one shard.
type expiredHour struct {
	shard int
	hour  models.Hour
	now   models.Hour // the latest hour that the shard has seen, or the clock's
}

// expiredHours returns the hours that have left the window and are not drained
// yet, oldest first within each shard. The current hour is the clock's, or the
// latest that a shard has seen. One round trip.
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
	var expired []expiredHour
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
				expired = append(expired, expiredHour{shard, hour, now})
			}
		}
	}
	return expired, nil
}
