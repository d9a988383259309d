package board

import (
	"context"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Remove removes the entries of users from buckets, also those that are kept apart or came
// late, and returns how many it has removed. Entries that an archive run has frozen are
// left to the run. It may be repeated. Two round trips and, for a bucket that has any of
// the users, one more for each shard; a rolling bucket takes as many for each of its hours.
func (s *Store) Remove(ctx context.Context, buckets []*models.Bucket, users []models.RowID) (removed int64, err error) {
	for _, bucket := range buckets {
		parts, err := s.Parts(ctx, bucket)
		if err != nil {
			return removed, err
		}
		n, err := s.removeFrom(ctx, bucket, parts, users)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// removeFrom removes users from the parts of a bucket.
func (s *Store) removeFrom(
	ctx context.Context, bucket *models.Bucket, parts []models.BoardPart, users []models.RowID,
) (removed int64, err error) {
	ofShard := make([][]any, bucket.Shards) // members
	for _, user := range users {
		shard := bucket.Shard(user)
		ofShard[shard] = append(ofShard[shard], int64(user))
	}
	var queued []redis.Cmder
	scores := make([]*redis.FloatSliceCmd, len(parts))
	for i, part := range parts {
		if members := ofShard[part.Shard]; len(members) > 0 {
			scores[i] = redis.NewFloatSliceCmd(ctx, append([]any{"zmscore", s.partKey(part)}, members...)...)
			queued = append(queued, scores[i])
		}
	}
	for shard, members := range ofShard {
		if len(members) == 0 || bucket.FromLedger {
			continue
		}
		for _, key := range []string{s.keys.Reported(bucket, shard), s.keys.Late(bucket, shard)} {
			queued = append(queued, redis.NewIntCmd(ctx, append([]any{"zrem", key}, members...)...))
		}
	}
	if len(queued) == 0 {
		return 0, nil
	}
	if err := s.process(ctx, queued); err != nil {
		return 0, models.Unavailable("remove entries", err)
	}
	for _, cmd := range queued {
		if apart, ok := cmd.(*redis.IntCmd); ok {
			removed += apart.Val()
		}
	}
	for i, part := range parts {
		if scores[i] == nil {
			continue
		}
		var lowerings []models.Lowering
		for j, composite := range scores[i].Val() {
			if composite != 0 {
				stored := models.Entry{User: models.RowID(ofShard[part.Shard][j].(int64)), Composite: models.Composite(composite)}
				lowerings = append(lowerings, models.Lowering{Stored: stored})
			}
		}
		if len(lowerings) == 0 {
			continue
		}
		n, err := s.Lower(ctx, part, lowerings)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// StoredEntry is an entry of a user in Redis.
type StoredEntry struct {
	Bucket *models.Bucket
	// Key says which key has it.
	Key       models.EntryKey
	Composite models.Composite
}

// Stored returns all entries of a user in buckets that are not of the ledger, also those
// that are kept apart or came late, and those that an archive run has frozen. One round trip.
func (s *Store) Stored(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]StoredEntry, error) {
	var entries []StoredEntry
	var cmds []redis.Cmder
	for _, bucket := range buckets {
		if bucket.FromLedger || bucket.WindowHours > 0 {
			continue
		}
		shard := bucket.Shard(user)
		live := map[models.EntryKey]string{
			models.KeyBoard: s.keys.Board(bucket, shard), models.KeyLate: s.keys.Late(bucket, shard),
			models.KeyReported: s.keys.Reported(bucket, shard),
		}
		for _, of := range models.EntryKeys() {
			for _, key := range []string{live[of], s.keys.Frozen(bucket, shard, 1, of)} {
				entries = append(entries, StoredEntry{Bucket: bucket, Key: of})
				cmds = append(cmds, redis.NewFloatSliceCmd(ctx, "zmscore", key, int64(user)))
			}
		}
	}
	if len(cmds) == 0 {
		return nil, nil
	}
	if err := s.process(ctx, cmds); err != nil {
		return nil, models.Unavailable("read scores", err)
	}
	var stored []StoredEntry
	for i, cmd := range cmds {
		if composite := cmd.(*redis.FloatSliceCmd).Val()[0]; composite != 0 {
			entries[i].Composite = models.Composite(composite)
			stored = append(stored, entries[i])
		}
	}
	return stored, nil
}
