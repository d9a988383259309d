package board

import (
	"context"

	"stepboard/internal/column"
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
	key := s.partKey(p)
	reply, err := s.rdb.Eval(ctx, copyScript, []string{key, key, s.keys.Changes(p.Bucket.Board, p.Shard)},
		int64(behind.Composite), int64(behind.User), 0, n+1).Slice()
	if err != nil {
		return nil, "", models.Unavailable("copy a part of a board", err)
	}
	w, err := parseShardWindow(reply)
	return w.behind(behind, n), reply[4].(string), models.Wrap("copy a part of "+p.Bucket.Board+" "+p.Bucket.Name, err)
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
	members := column.Of(users, func(user models.RowID) any { return int64(user) })
	reply, err := s.rdb.Eval(ctx, copyRowsScript, []string{s.partKey(p), s.keys.Changes(p.Bucket.Board, p.Shard)}, members...).Slice()
	if err != nil {
		return nil, "", models.Unavailable("copy entries of a board", err)
	}
	for i, text := range reply[0].([]any) {
		if text != nil {
			entries = append(entries, models.Entry{User: users[i], Composite: parseComposite(text)})
		}
	}
	return entries, reply[1].(string), nil
}

// behind returns the first n entries of a window around a position that rank behind it.
func (w ShardWindow) behind(position models.Entry, n int) []models.Entry {
	entries := w.Entries
	if len(entries) > 0 && entries[0] == position {
		entries = entries[1:]
	}
	return entries[:min(n, len(entries))]
}
