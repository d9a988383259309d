package board

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Scores of the ledger only rise, except after its database was restored to an
// earlier moment. Then boards hold entries that the ledger has lost. They are found
// by reading the parts of a bucket, and lowered one by one.

// Parts lists the parts of a bucket: its shards, or in a rolling bucket the hours of
// each shard, those included that are to be drained. One round trip.
func (s *Store) Parts(ctx context.Context, bucket *models.Bucket) ([]models.BoardPart, error) {
	var parts []models.BoardPart
	if bucket.WindowHours == 0 {
		for shard := range bucket.Shards {
			parts = append(parts, models.BoardPart{Bucket: bucket, Shard: shard})
		}
		return parts, nil
	}
	pipe := s.rdb.Pipeline()
	hours := make([]*redis.ZSliceCmd, bucket.Shards)
	for shard := range hours {
		hours[shard] = pipe.ZRangeWithScores(ctx, s.keys.BoardHours(bucket, shard), 0, -1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, models.Unavailable("list the parts of a board", err)
	}
	for shard, cmd := range hours {
		for _, z := range cmd.Val() {
			parts = append(parts, models.BoardPart{Bucket: bucket, Shard: shard, Hour: models.Hour(z.Score)})
		}
	}
	return parts, nil
}

// partKey returns the key of a part.
func (s *Store) partKey(p models.BoardPart) string {
	if p.Bucket.WindowHours > 0 {
		return s.keys.BoardHour(p.Bucket, p.Shard, p.Hour)
	}
	return s.keys.Board(p.Bucket, p.Shard)
}

// ReadPart returns up to n entries of a part that rank behind the given one, which
// need not be in it, in ranking order; fewer at the end. Top is before all of them.
// An entry that does not change is returned by one of the calls that go on behind the
// last entry. One round trip, O(log N + n).
func (s *Store) ReadPart(ctx context.Context, p models.BoardPart, behind models.Entry, n int) ([]models.Entry, error) {
	reply, err := s.rdb.Eval(ctx, windowScript, []string{s.partKey(p)}, int64(behind.Composite), int64(behind.User), 0, n+1).Slice()
	if err != nil {
		return nil, models.Unavailable("read a part of a board", err)
	}
	w, err := parseShardWindow(reply)
	return w.behind(behind, n), models.Wrap("read a part of "+p.Bucket.Board+" "+p.Bucket.Name, err)
}

// lowerEntries begins the scripts that lower: of ARGV from the second on it replaces the entries of
// the key `part` that still have the given composites, and lists their members.
const lowerEntries = `
local members = {}
for i = 2, #ARGV, 3 do
  if tonumber(redis.call('ZSCORE', part, ARGV[i]) or 0) == tonumber(ARGV[i + 1]) then
    if ARGV[i + 2] == '0' then
      redis.call('ZREM', part, ARGV[i])
    else
      redis.call('ZADD', part, ARGV[i + 2], ARGV[i])
    end
    members[#members + 1] = ARGV[i]
  end
end
`

// lowerScript replaces entries of a bucket without a window that still have the
// given composites, and writes a change to the stream of the shard if one is given.
//
//	KEYS    Board, Changes
//	ARGV    the change, or "" if the bucket has no change stream; [member, its
//	        composite, the new composite or 0, …]
//	result  how many entries were replaced or removed
const lowerScript = `local part = KEYS[1]` + lowerEntries + `
if #members > 0 and ARGV[1] ~= '' then
  redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', 'c', ARGV[1])
end
return #members
`

// lowerHourScript replaces users' totals of one hour that still have the given
// composites, and computes the sums of these users anew.
//
//	KEYS    Board, BoardHours, BoardHour
//	ARGV    2^T; [member, its composite, the new composite or 0, …]
//	result  how many totals were replaced or removed
//
// It builds the keys of the other hours from BoardHours, as the other scripts do.
const lowerHourScript = `local part = KEYS[3]` + lowerEntries + `
if #members == 0 then
  return 0
end
local unit = tonumber(ARGV[1])
` + sumHours + `
for i, member in ipairs(members) do
  if points[i] then
    redis.call('ZADD', KEYS[1], string.format('%.0f', points[i] + times[i]), member)
  else
    redis.call('ZREM', KEYS[1], member)
  end
end
return #members
`

// lowerChunk is how many entries one call of lowerScript replaces: a millisecond of
// Redis.
const lowerChunk = 500

// loweredOf returns the encoded change that lowers a bucket by arguments of lowerScript or
// correctScript, a user, and two numbers for each; empty if it has no change stream.
func loweredOf(bucket *models.Bucket, args []any) []byte {
	if !bucket.ChangeStream {
		return nil
	}
	users := make([]models.RowID, 0, len(args)/3)
	for i := 0; i < len(args); i += 3 {
		users = append(users, models.RowID(args[i].(int64)))
	}
	return encodeLowered(bucket.Name, users)
}

// Lower replaces or removes entries of a part that have not changed since they were
// read, and returns how many these are. It may be repeated. Followers of the bucket's
// change stream read these entries again. One round trip for each
// lowerChunk, in a rolling bucket for each driftLookups hours of users.
func (s *Store) Lower(ctx context.Context, p models.BoardPart, lowerings []models.Lowering) (lowered int64, err error) {
	script, atOnce, keys := lowerScript, lowerChunk, []string{s.partKey(p), s.keys.Changes(p.Bucket.Board, p.Shard)}
	if p.Bucket.WindowHours > 0 {
		script, atOnce = lowerHourScript, max(1, driftLookups/(p.Bucket.WindowHours+1))
		keys = []string{s.keys.Board(p.Bucket, p.Shard), s.keys.BoardHours(p.Bucket, p.Shard), s.partKey(p)}
	}
	for chunk := range slices.Chunk(lowerings, atOnce) {
		var args []any
		for _, l := range chunk {
			args = append(args, int64(l.Stored.User), int64(l.Stored.Composite), int64(l.Composite))
		}
		if p.Bucket.WindowHours > 0 {
			args = slices.Insert(args, 0, any(int64(1)<<p.Bucket.TimeBits))
		} else {
			args = slices.Insert(args, 0, any(loweredOf(p.Bucket, args)))
		}
		n, err := s.rdb.Eval(ctx, script, keys, args...).Int64()
		if err != nil {
			return lowered, models.Unavailable("lower entries", err)
		}
		lowered += n
	}
	return lowered, nil
}
