package board

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
	"stepboard/services/platform/changes"
)

const (
	// keepChanges is how long entries of a change stream are kept at least. A
	// follower that is further behind starts over.
	keepChanges = time.Minute
	// trimAtOnce is about how many entries one command removes: a millisecond of
	// Redis.
	trimAtOnce = 10_000
)

// ChangeTrimmer removes old entries of change streams, and keeps the streams alive.
// Every follower has one and calls Trim every few seconds. Not safe for concurrent use.
//
// It removes entries that are older than one which it has read a minute ago. This
// minute is measured by its own monotonic clock. The ids hold the time of Redis, which
// may jump with a failover, and would then empty the stream or stop the trimming.
type ChangeTrimmer struct {
	store *Store
	now   func() time.Time
	read  map[ChangeStream][]readChange
}

// readChange is the newest entry of a stream at the time when it was read.
type readChange struct {
	id string
	at time.Time
}

// NewChangeTrimmer returns a trimmer that has read nothing. now is time.Now, except in
// tests.
func NewChangeTrimmer(store *Store, now func() time.Time) *ChangeTrimmer {
	return &ChangeTrimmer{store: store, now: now, read: map[ChangeStream][]readChange{}}
}

// trimScript trims a stream that still has the given entry, and renews its lifetime.
//
//	KEYS    Changes
//	ARGV    id of the oldest entry to keep, or "-" to trim nothing; how many entries
//	        to remove at most; lifetime of the stream, milliseconds
//	result  {entries removed, id of the newest entry or ""}
//
// If the entry is not in the stream, this is another stream than the one that it was
// read from, or a trimmer has removed it. It begins by removing, so that a full Redis
// permits it.
const trimScript = `
local removed = 0
if ARGV[1] ~= '-' and #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) > 0 then
  removed = redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[1], 'LIMIT', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return {removed, newest and newest[1] or ''}
`

// Trim trims the given streams, and forgets all others. It returns how many entries it
// has removed. One round trip, and one more for each 10,000 entries of the stream that
// has most to remove.
func (t *ChangeTrimmer) Trim(ctx context.Context, streams []ChangeStream) (removed int64, err error) {
	read := make(map[ChangeStream][]readChange, len(streams))
	for _, stream := range streams {
		read[stream] = t.read[stream]
	}
	t.read = read
	for left := streams; len(left) > 0; {
		left, err = t.trim(ctx, left, &removed)
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// trim calls trimScript once for each stream. It returns the streams that may have more
// to remove.
func (t *ChangeTrimmer) trim(ctx context.Context, streams []ChangeStream, removed *int64) ([]ChangeStream, error) {
	now := t.now()
	pipe := t.store.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(streams))
	for i, stream := range streams {
		t.read[stream] = forget(t.read[stream], now)
		cmds[i] = pipe.Eval(ctx, trimScript, []string{t.store.keys.Changes(stream.Board, stream.Shard)},
			oldestKept(t.read[stream], now), trimAtOnce, changes.Lifetime.Milliseconds())
	}
	_, failed := pipe.Exec(ctx)
	var left []ChangeStream
	for i, cmd := range cmds {
		reply, err := cmd.Slice()
		if err != nil {
			continue // failed says so
		}
		if len(reply) != 2 {
			return nil, fmt.Errorf("trim a change stream: unexpected reply %v", reply)
		}
		n, ok1 := reply[0].(int64)
		newest, ok2 := reply[1].(string)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("trim a change stream: unexpected reply %v", reply)
		}
		*removed += n
		if n > 0 {
			left = append(left, streams[i])
		}
		if newest != "" {
			t.read[streams[i]] = append(t.read[streams[i]], readChange{newest, now})
		}
	}
	if failed != nil {
		return nil, models.Unavailable("trim change streams", failed)
	}
	return left, nil
}

// oldestKept returns the id of the newest entry that was read keepChanges ago or earlier,
// or "-" if there is none.
func oldestKept(read []readChange, now time.Time) string {
	if len(read) == 0 || now.Sub(read[0].at) < keepChanges {
		return "-"
	}
	return read[0].id
}

// forget removes all entries before the one that oldestKept returns.
func forget(read []readChange, now time.Time) []readChange {
	for len(read) > 1 && now.Sub(read[1].at) >= keepChanges {
		read = read[1:]
	}
	return read
}
