package board

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// freezeScript renames the keys of a shard that exist, unless their new name is taken. If it has
// renamed the Board, it writes the change to the stream of the shard.
//
//	KEYS    Board, Late, Reported; the Frozen of each; Changes
//	ARGV    the change, or "" if the bucket has no change stream
//	result  how many keys were renamed
//
// Even a full Redis permits the change, because renaming takes no memory.
const freezeScript = `
local renamed = 0
for i = 1, 3 do
  if redis.call('EXISTS', KEYS[i]) == 1 and redis.call('RENAMENX', KEYS[i], KEYS[i + 3]) == 1 then
    renamed = renamed + 1
    if i == 1 and ARGV[1] ~= '' then
      redis.call('XADD', KEYS[7], 'NOMKSTREAM', '*', 'c', ARGV[1])
    end
  end
end
return renamed
`

// Freeze claims a bucket for one run of its archival. It renames the keys Board, Late
// and Reported of each shard, so that nothing writes to them any more. A key that
// this run has frozen before stays as it is, and so do entries that arrived
// since. Followers of the bucket's change stream notice that the entries are gone.
// O(1) for each shard, all in one round trip.
func (s *Store) Freeze(ctx context.Context, bucket *models.Bucket, run int) error {
	pipe := s.rdb.Pipeline()
	for shard := range bucket.Shards {
		var change []byte
		if bucket.ChangeStream {
			change = encodeReset(bucket.Name)
		}
		pipe.Eval(ctx, freezeScript, []string{
			s.keys.Board(bucket, shard), s.keys.Late(bucket, shard), s.keys.Reported(bucket, shard),
			s.keys.Frozen(bucket, shard, run, models.KeyBoard), s.keys.Frozen(bucket, shard, run, models.KeyLate),
			s.keys.Frozen(bucket, shard, run, models.KeyReported), s.keys.Changes(bucket.Board, shard),
		}, change)
	}
	_, err := pipe.Exec(ctx)
	return models.Public("freeze a bucket", err)
}

// FrozenParts lists the parts of a bucket that the runs up to the given one
// have frozen. Three commands for each shard and run, all in one round trip.
func (s *Store) FrozenParts(ctx context.Context, bucket *models.Bucket, upto int) ([]models.FrozenPart, error) {
	pipe := s.rdb.Pipeline()
	var (
		parts []models.FrozenPart
		cmds  []*redis.IntCmd
	)
	for shard := range bucket.Shards {
		for run := 1; run <= upto; run++ {
			for _, of := range models.EntryKeys() {
				parts = append(parts, models.FrozenPart{Shard: shard, Run: run, Of: of})
				cmds = append(cmds, pipe.ZCard(ctx, s.keys.Frozen(bucket, shard, run, of)))
			}
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, models.Unavailable("list frozen parts", err)
	}
	for i, cmd := range cmds {
		parts[i].Entries = cmd.Val()
	}
	return slices.DeleteFunc(parts, func(p models.FrozenPart) bool { return p.Entries == 0 }), nil
}

// ReadFrozen returns n entries of a frozen part in ranking order, from the
// given index on. One round trip, O(log N + n).
func (s *Store) ReadFrozen(ctx context.Context, bucket *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	zs, err := s.rdb.ZRevRangeWithScores(ctx, s.frozenKey(bucket, p), from, from+int64(n)-1).Result()
	if err != nil {
		return nil, models.Unavailable("read a frozen part", err)
	}
	entries := make([]models.Entry, len(zs))
	for i, z := range zs {
		user, err := models.ParseRowID(z.Member.(string))
		if err != nil {
			return nil, fmt.Errorf("member %q of %s: %w", z.Member, s.frozenKey(bucket, p), err)
		}
		entries[i] = models.Entry{User: user, Composite: models.Composite(z.Score)}
	}
	return entries, nil
}

// DropFrozen removes frozen parts; Redis frees their memory in the background.
// One round trip.
func (s *Store) DropFrozen(ctx context.Context, bucket *models.Bucket, parts []models.FrozenPart) error {
	pipe := s.rdb.Pipeline()
	for _, p := range parts {
		pipe.Unlink(ctx, s.frozenKey(bucket, p))
	}
	_, err := pipe.Exec(ctx)
	return models.Public("drop frozen parts", err)
}

func (s *Store) frozenKey(bucket *models.Bucket, p models.FrozenPart) string {
	return s.keys.Frozen(bucket, p.Shard, p.Run, p.Of)
}

// unarchivedShards is how many shards one round trip checks.
const unarchivedShards = 1000

// Unarchived reports for each bucket whether Redis holds any entries of it:
// current, late, reported, or frozen by one of the given number of runs. One command for
// each shard, a thousand in a round trip.
func (s *Store) Unarchived(ctx context.Context, buckets []*models.Bucket, runs []int) ([]bool, error) {
	type shardOf struct{ bucket, shard int }
	var shards []shardOf
	for i, b := range buckets {
		for shard := range b.Shards {
			shards = append(shards, shardOf{i, shard})
		}
	}
	found := make([]bool, len(buckets))
	for chunk := range slices.Chunk(shards, unarchivedShards) {
		pipe := s.rdb.Pipeline()
		cmds := make([]*redis.IntCmd, len(chunk))
		for i, at := range chunk {
			b := buckets[at.bucket]
			keys := []string{s.keys.Board(b, at.shard), s.keys.Late(b, at.shard), s.keys.Reported(b, at.shard)}
			for run := 1; run <= runs[at.bucket]; run++ {
				for _, of := range models.EntryKeys() {
					keys = append(keys, s.keys.Frozen(b, at.shard, run, of))
				}
			}
			cmds[i] = pipe.Exists(ctx, keys...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, models.Unavailable("look for unarchived entries", err)
		}
		for i, cmd := range cmds {
			if cmd.Val() > 0 {
				found[chunk[i].bucket] = true
			}
		}
	}
	return found, nil
}
