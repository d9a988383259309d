package board

import (
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

// raiseChunk is how many users one script call raises: a millisecond of Redis
// among 200,000 users, so that others hardly wait for it.
const raiseChunk = 100

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
