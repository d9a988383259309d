package board

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/models"
)

// While a correction of a user's score holds, the key Board has the corrected entry, or
// none, and the key Reported has what the user reports. A process that does not know of
// the correction yet may still raise the Board. Correct repairs that; it is called again
// and again, by any process and in any order, so both keys converge.
//
// Buckets of the ledger have no key Reported, because the running totals in the ledger are
// what was reported. Increments of a corrected user do not raise the Board. Routes decides
// this for every update.

// Reported returns what the users have reported for the bucket while a correction held,
// by position; 0 for those who have reported nothing then. One round trip.
func (s *Store) Reported(
	ctx context.Context, bucket *models.Bucket, users []models.RowID,
) ([]models.Composite, error) {
	pipe := s.rdb.Pipeline()
	cmds := column.Of(users, func(user models.RowID) *redis.FloatSliceCmd {
		return pipe.ZMScore(ctx, s.keys.Reported(bucket, bucket.Shard(user)), user.String())
	})
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, models.Unavailable("read reported scores", err)
	}
	return column.Of(cmds, func(cmd *redis.FloatSliceCmd) models.Composite { return models.Composite(cmd.Val()[0]) }), nil
}

// correctScript puts the entries of corrections that hold on the Board of a shard, and
// what it replaces into Reported.
//
//	KEYS    Board, Reported, Changes, Frozen of the first run
//	ARGV    the change, or "" if the bucket has no change stream; 1 if the bucket is
//	        cold, otherwise 0; [member, the correction's composite or 0, before or 0, …]
//	result  how many entries were replaced, removed or added
//
// If an archive run has taken the entries, nothing is written: the run applies the
// corrections. A full Redis refuses the first write, so nothing is changed then.
const correctScript = `
if redis.call('EXISTS', KEYS[4]) == 1 or (ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 0) then
  return 0
end
local corrected = 0
for i = 3, #ARGV, 3 do
  local member, composite = ARGV[i], tonumber(ARGV[i + 1])
  local stored = tonumber(redis.call('ZSCORE', KEYS[1], member) or 0)
  if stored ~= composite then
    local reported = math.max(stored, tonumber(ARGV[i + 2]))
    if reported > 0 then
      redis.call('ZADD', KEYS[2], 'GT', string.format('%.0f', reported), member)
    end
    if composite == 0 then
      redis.call('ZREM', KEYS[1], member)
    else
      redis.call('ZADD', KEYS[1], ARGV[i + 1], member)
    end
    corrected = corrected + 1
  end
end
if corrected > 0 and ARGV[1] ~= '' then
  redis.call('XADD', KEYS[3], 'NOMKSTREAM', '*', 'c', ARGV[1])
end
return corrected
`

// liftScript raises entries on the Board of a shard to what was reported while a
// correction held.
//
//	KEYS    Board, Changes, Frozen of the first run
//	ARGV    as in correctScript; [composite, member, …]
//	result  how many entries were raised
const liftScript = `
if redis.call('EXISTS', KEYS[3]) == 1 or (ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 0) then
  return 0
end
local raised = redis.call('ZADD', KEYS[1], 'GT', 'CH', unpack(ARGV, 3))
if raised > 0 and ARGV[1] ~= '' then
  redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', 'c', ARGV[1])
end
return raised
`

// correctedShard holds the corrections of one shard of a bucket.
type correctedShard struct {
	bucket *models.Bucket
	shard  int
	// held and lifted are those that hold and those that hold no more.
	held, lifted []models.CorrectedEntry
	// board has the composites of held, and then of lifted; reported those of lifted.
	board, reported *redis.FloatSliceCmd
}

// excludeChunk is how many users one call of excludeScript removes: about a millisecond of
// Redis in a window of a week.
const excludeChunk = 50

// excludeScript removes users from a shard of a rolling bucket, with their totals of all
// hours.
//
//	KEYS    Board, BoardHours
//	ARGV    members
//	result  how many users were removed
//
// It builds the keys of the hours from BoardHours, as the other scripts do.
const excludeScript = `
for _, hour in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  redis.call('ZREM', KEYS[1] .. ':' .. hour, unpack(ARGV))
end
return redis.call('ZREM', KEYS[1], unpack(ARGV))
`

// Correct puts the entries of corrections on the boards where they differ, and what it
// replaces into the keys Reported. Where a correction was lifted, it raises the board to
// what was reported; entries of buckets of the ledger must not be lifted ones, because the
// ledger raises these. It returns how many entries it has changed. It may be repeated.
//
// Finding those that differ takes one command for each shard, and one more if any of them
// were lifted, all in one round trip. A second one follows if any differ. Entries that an
// archive run has taken are left to the run.
func (s *Store) Correct(ctx context.Context, entries []models.CorrectedEntry) (changed int64, err error) {
	shards := groupByShard(entries)
	reads := s.rdb.Pipeline()
	for _, sh := range shards {
		s.readCorrected(ctx, reads, sh)
	}
	if _, err := reads.Exec(ctx); err != nil {
		return 0, models.Unavailable("compare corrections", err)
	}
	now, repairs := s.clock(), s.rdb.Pipeline()
	for _, sh := range shards {
		s.repair(ctx, repairs, sh, now)
	}
	if repairs.Len() == 0 {
		return 0, nil
	}
	failpoint.Hit("corrections.compared")
	cmds, err := repairs.Exec(ctx)
	if err != nil {
		return 0, models.Unavailable("apply corrections", err)
	}
	failpoint.Hit("corrections.applied")
	for _, cmd := range cmds {
		changed += cmd.(*redis.Cmd).Val().(int64)
	}
	return changed, nil
}

// groupByShard groups corrections by the shards of their buckets.
func groupByShard(entries []models.CorrectedEntry) []*correctedShard {
	type key struct {
		bucket *models.Bucket
		shard  int
	}
	var shards []*correctedShard
	of := make(map[key]*correctedShard)
	for _, e := range entries {
		k := key{e.Bucket, e.Bucket.Shard(e.User)}
		sh := of[k]
		if sh == nil {
			sh = &correctedShard{bucket: k.bucket, shard: k.shard}
			of[k] = sh
			shards = append(shards, sh)
		}
		if e.Lifted {
			sh.lifted = append(sh.lifted, e)
		} else {
			sh.held = append(sh.held, e)
		}
	}
	return shards
}

// readCorrected queues the commands that read the entries of a shard.
func (s *Store) readCorrected(ctx context.Context, pipe redis.Pipeliner, sh *correctedShard) {
	read := func(key string, entries ...models.CorrectedEntry) *redis.FloatSliceCmd {
		return pipe.ZMScore(ctx, key, column.Of(entries, func(e models.CorrectedEntry) string { return e.User.String() })...)
	}
	sh.board = read(s.keys.Board(sh.bucket, sh.shard), slices.Concat(sh.held, sh.lifted)...)
	if len(sh.lifted) > 0 {
		sh.reported = read(s.keys.Reported(sh.bucket, sh.shard), sh.lifted...)
	}
}

// repair queues the commands that change what differs in a shard.
func (s *Store) repair(ctx context.Context, pipe redis.Pipeliner, sh *correctedShard, now time.Time) {
	if sh.bucket.FromLedger {
		s.repairLedgers(ctx, pipe, sh)
		return
	}
	var held, lifted []any
	var raised []models.Entry
	stored := sh.board.Val()
	for i, c := range sh.held {
		if models.Composite(stored[i]) != c.Composite {
			held = append(held, int64(c.User), int64(c.Composite), int64(c.Before))
		}
	}
	for i, c := range sh.lifted {
		reported := max(models.Composite(sh.reported.Val()[i]), c.Before)
		if models.Composite(stored[len(sh.held)+i]) < reported {
			lifted = append(lifted, int64(reported), int64(c.User))
			raised = append(raised, models.Entry{User: c.User, Composite: reported})
		}
	}
	board, changes := s.keys.Board(sh.bucket, sh.shard), s.keys.Changes(sh.bucket.Board, sh.shard)
	frozen := s.keys.Frozen(sh.bucket, sh.shard, 1, models.KeyBoard)
	cold := takenOver(sh.bucket, now) // sent as 1 or 0
	for part := range slices.Chunk(held, 3*lowerChunk) {
		pipe.Eval(ctx, correctScript, []string{board, s.keys.Reported(sh.bucket, sh.shard), changes, frozen},
			slices.Concat([]any{loweredOf(sh.bucket, part), cold}, part)...)
	}
	for part := range slices.Chunk(lifted, 2*lowerChunk) {
		n := len(part) / 2
		var change []byte
		if sh.bucket.ChangeStream {
			change = encodeRaised(sh.bucket.Name, raised[:n])
		}
		raised = raised[n:]
		pipe.Eval(ctx, liftScript, []string{board, changes, frozen}, slices.Concat([]any{change, cold}, part)...)
	}
}

// repairLedgers is repair for a bucket of the ledger.
func (s *Store) repairLedgers(ctx context.Context, pipe redis.Pipeliner, sh *correctedShard) {
	board, rolling := s.keys.Board(sh.bucket, sh.shard), sh.bucket.WindowHours > 0
	var args []any
	for i, c := range sh.held {
		switch composite := models.Composite(sh.board.Val()[i]); {
		case composite == c.Composite:
		case rolling:
			args = append(args, int64(c.User))
		default:
			args = append(args, int64(c.User), int64(composite), int64(c.Composite))
		}
	}
	if rolling {
		for part := range slices.Chunk(args, excludeChunk) {
			pipe.Eval(ctx, excludeScript, []string{board, s.keys.BoardHours(sh.bucket, sh.shard)}, part...)
		}
		return
	}
	for part := range slices.Chunk(args, 3*lowerChunk) {
		pipe.Eval(ctx, lowerScript, []string{board, s.keys.Changes(sh.bucket.Board, sh.shard)},
			slices.Concat([]any{loweredOf(sh.bucket, part)}, part)...)
	}
}
