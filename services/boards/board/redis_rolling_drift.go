package board

import (
	"context"

	"stepboard/models"
)

// driftLookups is how many scores one script call looks up: about a millisecond
// of Redis.
const driftLookups = 600

// sumHours is a part of scripts: it adds up the hours, of BoardHours, of the listed members, by their positions in the
// list. unit is 2^T.
const sumHours = `
local points, times = {}, {}
for _, hour in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  for i, total in ipairs(redis.call('ZMSCORE', KEYS[1] .. ':' .. hour, unpack(members))) do
    if total then
      total = tonumber(total)
      points[i] = (points[i] or 0) + (total - total % unit)
      times[i] = math.min(times[i] or unit, total % unit)
    end
  end
end
`

// driftScript recomputes the sums of a random sample of users from their hours.
//
//	KEYS    Board, BoardHours
//	ARGV    2^T; how many users with a sum; how many users of one of the hours,
//	        who may lack a sum
//	result  {users, those of them whose stored sum is wrong}
const driftScript = `
local unit = tonumber(ARGV[1])
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
` + sumHours + `
local drifted = 0
for i, was in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(members))) do
  if tonumber(was or 0) ~= (points[i] or 0) + (times[i] or 0) then
    drifted = drifted + 1
  end
end
return {#members, drifted}
`

// Drift recomputes the sums of a random sample of users of each shard of a
// rolling bucket. Half of the sample are users with a sum, half are users of
// one hour. It returns how many users it has checked, which are fewer if the
// halves overlap, and how many of them have a wrong sum, which should always be
// none. One round trip for each driftLookups; each user takes one for each hour.
func (s *Store) Drift(ctx context.Context, bucket *models.Bucket, sample int) (checked, drifted int, err error) {
	if bucket.WindowHours == 0 {
		return 0, 0, nil
	}
	atOnce := max(1, driftLookups/(bucket.WindowHours+1))
	for shard := range bucket.Shards {
		keys := []string{s.keys.Board(bucket, shard), s.keys.BoardHours(bucket, shard)}
		for rest := sample; rest > 0; rest -= atOnce {
			n := min(rest, atOnce)
			counts, err := s.rdb.Eval(ctx, driftScript, keys, int64(1)<<bucket.TimeBits, (n+1)/2, n/2).Int64Slice()
			if err != nil {
				return 0, 0, models.Unavailable("look for drift", err)
			}
			checked += int(counts[0])
			drifted += int(counts[1])
		}
	}
	return checked, drifted, nil
}
