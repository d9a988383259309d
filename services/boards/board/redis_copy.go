package board

import (
	"context"
	"fmt"

	"stepboard/models"
)

// copyScript reads entries of one shard as windowScript does, and the id of the newest
// entry of its change stream at the same moment.
//
//	KEYS    Board twice, Changes
//	ARGV    those of windowScript
//	result  that of windowScript; and the id, "" if the stream has no entries
const copyScript = `
local function window()` + windowScript + `end
local part = window()
local newest = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
part[#part + 1] = newest and newest[1] or ''
return part
`

// CopyPart is ReadPart of a bucket with a change stream. It also returns the id of the
// newest entry of the stream at the moment of the read, "" if it has none. All that the
// entries show was written to the stream up to there, or before the stream began.
func (s *Store) CopyPart(
	ctx context.Context, p models.BoardPart, behind models.Entry, n int,
) (entries []models.Entry, newest string, err error) {
	fail := func(err error) ([]models.Entry, string, error) {
		return nil, "", fmt.Errorf("copy a part of %s %s: %w", p.Bucket.Board, p.Bucket.Name, err)
	}
	key := s.partKey(p)
	reply, err := s.rdb.Eval(ctx, copyScript, []string{key, key, s.keys.Changes(p.Bucket.Board, p.Shard)},
		int64(behind.Composite), int64(behind.User), 0, n+1).Slice()
	if err != nil {
		return nil, "", models.Unavailable("copy a part of a board", err)
	}
	if len(reply) != 5 {
		return fail(fmt.Errorf("unexpected reply %v", reply))
	}
	w, err := parseShardWindow(reply[:4])
	if err != nil {
		return fail(err)
	}
	newest, ok := reply[4].(string)
	if !ok {
		return fail(fmt.Errorf("unexpected id %v", reply[4]))
	}
	return w.behind(behind, n), newest, nil
}

// copyRowsScript reads entries of one shard, and the id of the newest entry of its change
// stream at the same moment.
//
//	KEYS    Board, Changes
//	ARGV    members
//	result  {[the composite of each, nil if it has none], the id, "" if the stream has no entries}
const copyRowsScript = `
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
return {redis.call('ZMSCORE', KEYS[1], unpack(ARGV)), newest and newest[1] or ''}
`

// CopyRows is CopyPart of some users, of whom there may be up to 5,000. Entries of those
// without a score are left out.
func (s *Store) CopyRows(
	ctx context.Context, p models.BoardPart, users []models.RowID,
) (entries []models.Entry, newest string, err error) {
	members := make([]any, len(users))
	for i, user := range users {
		members[i] = int64(user)
	}
	reply, err := s.rdb.Eval(ctx, copyRowsScript, []string{s.partKey(p), s.keys.Changes(p.Bucket.Board, p.Shard)}, members...).Slice()
	if err != nil {
		return nil, "", models.Unavailable("copy entries of a board", err)
	}
	composites, ok1 := reply[0].([]any)
	newest, ok2 := reply[1].(string)
	if !ok1 || !ok2 || len(composites) != len(users) {
		return nil, "", fmt.Errorf("copy entries of %s %s: unexpected reply %v", p.Bucket.Board, p.Bucket.Name, reply)
	}
	for i, text := range composites {
		if text == nil {
			continue
		}
		entry, err := parseEntry(users[i].String(), text)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, entry)
	}
	return entries, newest, nil
}

// behind returns the first n entries of a window around a position that rank behind it.
func (w ShardWindow) behind(position models.Entry, n int) []models.Entry {
	entries := w.Entries
	if len(entries) > 0 && entries[0] == position {
		entries = entries[1:]
	}
	return entries[:min(n, len(entries))]
}
