package board

import (
	"stepboard/models"
)

// A rolling bucket has a sorted set for each of its hours, and one of sums. The
// sums are under the key Board, as the entries of every other bucket, and are
// read like these. A user's sum is the composite of the user's totals in all
// stored hours added up, and of the last moment at which any of them was
// reached. Every script keeps it so, on one shard's slot, so that a crash
// between two scripts leaves the sums true.
//
// An hour that has left the window is drained: its users are removed in chunks,
// and their totals are subtracted from the sums. Until then the hour still counts
// for the users that are left in it, and the bucket is settling.
//
// Scripts build the keys of hours that have left the window from names that they
// read in BoardHours. These keys have the hash tag of the declared ones, and so
// their slot and server: one Redis, Sentinel's master or a node of a cluster.

// raiseChunk is how many users one script call raises: a millisecond of Redis
// among 200,000 users, so that others hardly wait for it.
const raiseChunk = 100

// raiseHourScript sets users' totals of one hour, and adds what they gained to
// their sums. It changes nothing if the hour has left the window, or if a total
// is not larger than the stored one.
//
//	KEYS    Board, BoardHours, BoardNow, BoardHour
//	ARGV    the hour's name and number; the caller's hour; hours in the window;
//	        2^T; the largest score; [member, composite, …], no member twice
//	result  how many members were raised
//
// The ledger keeps the sum over the window in bounds. With hours that are still
// to be drained it may exceed the score bits of a composite. So if a member's sum
// would exceed the largest score, the member's totals of these hours are removed
// first. Other members are not touched: after an outage a whole day is left, and
// draining 100 users of 24 hours takes 10 ms.
//
// The script reads everything before it writes. Its first write is the one that
// Redis refuses when it is out of memory, so it either fails before any change or
// completes. Points are scores that are shifted as in a composite.
const raiseHourScript = `
local name, hour = ARGV[1], tonumber(ARGV[2])
local window, unit, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now = tonumber(redis.call('GET', KEYS[3]) or 0)
local latest = math.max(hour, tonumber(ARGV[3]))
if latest > now then
  now = latest
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
  for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - window)) do
    local key = KEYS[1] .. ':' .. expired
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
local sums = {}
for i, member in ipairs(raised) do
  sums[2 * i - 1], sums[2 * i] = string.format('%.0f', points[i] + times[i]), member
end
redis.call('ZADD', KEYS[1], unpack(sums))
return #raised
`

// raiseHour returns the arguments of a call of raiseHourScript, without its
// members.
func (s *Store) raiseHour(k raiseKey, now models.Hour) []any {
	return []any{
		"eval", raiseHourScript, 4, s.keys.Board(k.bucket, k.shard), s.keys.BoardHours(k.bucket, k.shard),
		s.keys.BoardNow(k.bucket, k.shard), s.keys.BoardHour(k.bucket, k.shard, k.hour),
		k.hour.String(), int64(k.hour), int64(now), k.bucket.WindowHours, int64(1) << k.bucket.TimeBits, k.bucket.MaxScore,
	}
}
