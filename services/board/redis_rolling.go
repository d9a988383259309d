package board

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
	"stepboard/services/score"
)

// A rolling bucket is kept in a sorted set for each of its hours, and in the
// live set, under the key of every other bucket and read like it: a user's live
// composite is that of the sum of the user's totals in all hours that are
// there, and of the last moment at which any of them was reached. Scripts on
// one shard's slot keep it so, so that a crash between any two leaves it true.
//
// An hour that leaves the window is drained: its users are popped in chunks,
// each subtracted from the live set. Until that is over the hour still counts
// for those who wait for it, and the bucket is said to be settling.
//
// Scripts reach the sets of hours that have left the window by names that they
// read in BoardHours. These share the declared keys' hash tag and so their slot
// and their server, be it one Redis, Sentinel's master or a node of a cluster.

const (
	// raiseChunk and drainChunk are how many users one script call raises or
	// drains: a millisecond of Redis among 200,000 users, so that others hardly
	// wait for it.
	raiseChunk, drainChunk = 100, 200
	// driftLookups is how many places one script call looks up, which takes
	// about as long.
	driftLookups = 600
)

// raiseHourScript sets users' totals of one hour, and adds what they have
// gained to their live scores. It does nothing for an hour that has left the
// window, and nothing for a total that is no larger than the one that stands.
//
//	KEYS    Board, BoardHours, BoardNow, BoardHour
//	ARGV    the hour's name and number; the caller's hour; hours in the window;
//	        2^T; the largest score; [member, composite, …], no member twice
//	result  how many members were raised
//
// The ledger keeps the sum over the window in bounds. Together with hours that
// are still to be drained it may be larger than what fits beside the time, so a
// member whose sum would pass the largest score is drained of these first. Only
// such a member is: after an outage a day is left, and draining 100 users of 24
// hours takes 10 ms.
//
// All is read before anything is written, and what Redis refuses when it is
// out of memory is written first: the script fails whole or not at all. Points
// are scores that are shifted as in a composite.
const raiseHourScript = `
local name, hour = ARGV[1], tonumber(ARGV[2])
local window, unit, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = tonumber(redis.call('GET', KEYS[3]) or 0)
local told = math.max(hour, tonumber(ARGV[3]))
if told > now then
  now = told
  redis.call('SET', KEYS[3], now)
end
if hour <= now - window then
  return 0
end

local members = {}
for i = 7, #ARGV, 2 do
  members[#members + 1] = ARGV[i]
end
local totals = redis.call('ZMSCORE', KEYS[4], unpack(members))
local raised, points, times, hourly = {}, {}, {}, {}
for i, member in ipairs(members) do
  local old, new = tonumber(totals[i] or 0), tonumber(ARGV[6 + 2 * i])
  if new > old then
    local n = #raised + 1
    raised[n], times[n] = member, new % unit
    points[n] = (new - new % unit) - (old - old % unit)
    hourly[2 * n - 1], hourly[2 * n] = ARGV[6 + 2 * i], member
  end
end
if #raised == 0 then
  return 0
end

local over = {}
for i, was in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(raised))) do
  if was then
    was = tonumber(was)
    points[i] = points[i] + (was - was % unit)
    times[i] = math.min(times[i], was % unit)
  end
  if points[i] > most * unit then
    over[#over + 1] = i
  end
end
local drained = {}
if #over > 0 then
  for _, left in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - window)) do
    local key = KEYS[1] .. ':' .. left
    for _, i in ipairs(over) do
      local total = tonumber(redis.call('ZSCORE', key, raised[i]) or 0)
      if total > 0 then
        points[i] = points[i] - (total - total % unit)
        drained[#drained + 1] = {key, raised[i]}
      end
    end
  end
end

redis.call('ZADD', KEYS[2], hour, name)
redis.call('ZADD', KEYS[4], unpack(hourly))
for _, d in ipairs(drained) do
  redis.call('ZREM', d[1], d[2])
end
local live = {}
for i, member in ipairs(raised) do
  live[2 * i - 1], live[2 * i] = string.format('%.0f', points[i] + times[i]), member
end
redis.call('ZADD', KEYS[1], unpack(live))
return #raised
`

// addHourRaises adds the commands for the updates, named by their indexes, that
// carry a user's total of one hour: one for each hour, shard and chunk of
// users. Of several updates of one user's hour only the largest is sent.
func (s *Store) addHourRaises(commands [][]any, commandOf []int, raises []models.Raise, hourly []int) [][]any {
	type key struct {
		bucket *models.Bucket
		shard  int
		hour   models.Hour
	}
	type member struct {
		bucket *models.Bucket
		hour   models.Hour
		user   models.UserID
	}
	type place struct{ command, composite int }
	const head = 13 // arguments before the members
	open := make(map[key]int, 1)
	at := make(map[member]place, len(hourly))
	now := models.HourOf(s.clock())
	for _, i := range hourly {
		r := &raises[i]
		_, reachedAt := score.Of(r.Bucket).Decode(r.Composite)
		hour := models.HourOf(reachedAt.Time())
		m := member{r.Bucket, hour, r.User}
		if p, ok := at[m]; ok {
			args := commands[p.command]
			args[p.composite] = max(args[p.composite].(int64), int64(r.Composite))
			commandOf[i] = p.command
			continue
		}
		k := key{r.Bucket, r.Bucket.Shard(r.User), hour}
		command, ok := open[k]
		if !ok || len(commands[command]) == head+2*raiseChunk {
			command = len(commands)
			open[k] = command
			commands = append(commands, s.raiseHour(k.bucket, k.shard, hour, now))
		}
		args := append(commands[command], int64(r.User), int64(r.Composite))
		commands[command], commandOf[i], at[m] = args, command, place{command, len(args) - 1}
	}
	return commands
}

// raiseHour is the beginning of a call of raiseHourScript.
func (s *Store) raiseHour(bucket *models.Bucket, shard int, hour, now models.Hour) []any {
	return []any{
		"eval", raiseHourScript, 4,
		s.keys.Board(bucket, shard), s.keys.BoardHours(bucket, shard), s.keys.BoardNow(bucket, shard), s.keys.BoardHour(bucket, shard, hour),
		hour.String(), int64(hour), int64(now), bucket.WindowHours, int64(1) << bucket.TimeBits, bucket.MaxScore,
	}
}

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

// driftScript compares the live composites of a random sample of users with
// what follows from their hours.
//
//	KEYS    Board, BoardHours
//	ARGV    2^T; how many users of the live set; how many users of one of the
//	        hours, who may be missing in the live set
//	result  {users, those of them whose live composite is not what follows}
const driftScript = `
local unit = tonumber(ARGV[1])
local hours = redis.call('ZRANGE', KEYS[2], 0, -1)
local samples = {redis.call('ZRANDMEMBER', KEYS[1], ARGV[2])}
for _, hour in ipairs(redis.call('ZRANDMEMBER', KEYS[2], 1)) do
  samples[2] = redis.call('ZRANDMEMBER', KEYS[1] .. ':' .. hour, ARGV[3])
end
local members, known = {}, {}
for _, sample in ipairs(samples) do
  for _, member in ipairs(sample) do
    if not known[member] then
      known[member] = true
      members[#members + 1] = member
    end
  end
end
if #members == 0 then
  return {0, 0}
end

local points, times = {}, {}
for _, hour in ipairs(hours) do
  for i, total in ipairs(redis.call('ZMSCORE', KEYS[1] .. ':' .. hour, unpack(members))) do
    if total then
      total = tonumber(total)
      points[i] = (points[i] or 0) + (total - total % unit)
      times[i] = math.min(times[i] or unit, total % unit)
    end
  end
end
local drifted = 0
for i, was in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(members))) do
  if tonumber(was or 0) ~= (points[i] or 0) + (times[i] or 0) then
    drifted = drifted + 1
  end
end
return {#members, drifted}
`

var drift = redis.NewScript(driftScript)

// Drift compares a random sample of users of each shard of a rolling bucket,
// half of them from the live set and half from an hour, with what follows from
// their hours. It tells how many users it has checked, which are fewer where
// the halves share some, and how many of them have a wrong live score: none,
// ever. One round trip for each 600 lookups, of which a user takes as many as
// there are hours.
func (s *Store) Drift(ctx context.Context, bucket *models.Bucket, sample int) (checked, drifted int, err error) {
	if bucket.WindowHours == 0 {
		return 0, 0, nil
	}
	atOnce := max(1, driftLookups/(bucket.WindowHours+1))
	for shard := range bucket.Shards {
		keys := []string{s.keys.Board(bucket, shard), s.keys.BoardHours(bucket, shard)}
		for rest := sample; rest > 0; rest -= atOnce {
			n := min(rest, atOnce)
			counts, err := drift.Run(ctx, s.rdb, keys, int64(1)<<bucket.TimeBits, (n+1)/2, n/2).Int64Slice()
			if err != nil {
				return 0, 0, models.Unavailable("look for drift", err)
			}
			if len(counts) != 2 {
				return 0, 0, fmt.Errorf("look for drift in %s %s: unexpected reply %v", bucket.Board, bucket.Name, counts)
			}
			checked += int(counts[0])
			drifted += int(counts[1])
		}
	}
	return checked, drifted, nil
}
