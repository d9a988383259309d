package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

// WriterDetector is the RedisDetector of a process whose own writes the watcher
// replays. There must be one for each watcher and process. Safe for concurrent use.
//
// While two servers are masters at once, a process may go on writing to the old
// one after another process has checkpointed the new one. So the detector also
// remembers which servers it found last. If it finds another one, it sets the
// shared checkpoint back to the moment from which writes to the old server may be
// missing, and Detect reports that loss to every process.
//
// If the new server fails over soon after that, its replica may not have received
// it. So the detector records a server that was left again on each server that it
// finds within replicationLag.
type WriterDetector struct {
	*RedisDetector

	mu   sync.Mutex
	seen []string       // the server of each checkpoint, "" before the first Detect
	left [][]leftServer // by checkpoint, those of the last replicationLag
}

// leftServer is a server in whose place the detector has found another one.
type leftServer struct {
	id string
	at time.Time
}

// replicationLag is how far a replica may be behind that is promoted.
const replicationLag = 10 * time.Minute

// NewWriterDetector returns the detector of a watcher: Queue or Sets. Ledger
// needs none, because its replay reads what any process has written.
func NewWriterDetector(rdb redis.UniversalClient, k keys.Builder, watcher string) *WriterDetector {
	d := &WriterDetector{RedisDetector: NewRedisDetector(rdb, k, watcher)}
	d.seen, d.left = make([]string, len(d.keys)), make([][]leftServer, len(d.keys))
	return d
}

// detectTries bounds how many changes of servers one Detect follows.
const detectTries = 3

// errServersChange means that the servers change faster than they can be asked.
var errServersChange = errors.New("the servers change all the time")

// Detect is RedisDetector.Detect, which also compares each server with the one
// that this detector found last. One round trip, two more if a server has changed.
func (d *WriterDetector) Detect(ctx context.Context) (Loss, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range detectTries {
		replies, err := d.ask(ctx)
		if err != nil {
			return Loss{}, err
		}
		changed := d.changed(replies)
		if err := d.leave(ctx, changed); err != nil {
			return Loss{}, err
		}
		// Only now: after an error the next Detect finds the same changes.
		for i, r := range replies {
			d.seen[i] = r.server
		}
		if len(changed) == 0 {
			return combine(replies), nil
		}
	}
	return Loss{}, models.Unavailable("detect what Redis has lost", errServersChange)
}

// changed returns the indexes of the checkpoints that are on another server now. A
// server that the detector still finds elsewhere has only handed a slot over.
func (d *WriterDetector) changed(replies []detectReply) (changed []int) {
	found := make(map[string]bool)
	for i, r := range replies {
		found[r.server] = found[r.server] || d.seen[i] == r.server
	}
	for i, r := range replies {
		if old := d.seen[i]; old != "" && old != r.server && !found[old] {
			changed = append(changed, i)
		}
	}
	return changed
}

// switchScript records that a process that wrote to another server, the old one,
// writes to this one from now on. Writes to the old one may be missing here: since
// the checkpoint if that names the old one, otherwise since the stored moment at
// which what was written there was last known to be here, or since everything was
// replayed here. The checkpoint is set back to that moment, or loses its time if the
// moment is unknown.
//
// A replay that is under way does not cover what the process has written since it
// began. If it goes back far enough, a character that is appended to its token
// makes checkpointScript keep the loss. Otherwise a new token makes it fail.
//
// Of a server that was left earlier nothing is recorded again that is known here.
//
//	KEYS    the checkpoint
//	ARGV    the old server's id, a random text, 1 if it was left earlier or else 0
//	result  1, or 0 if nothing was stored
const switchScript = serverID + `
local checkpoint = redis.call('HMGET', KEYS[1], 'server', 'at', 'mark', 'left:' .. ARGV[1], 'filled')
local from, at, mark, missing, filled = checkpoint[1], checkpoint[2], checkpoint[3], checkpoint[4], checkpoint[5]
if from == ARGV[1] then
  missing = at
elseif filled and (not missing or tonumber(missing) < tonumber(filled)) then
  missing = filled
end
local back = at and (not missing or tonumber(missing) < tonumber(at))
if ARGV[3] == '1' and not back then
  return 0
end
if not from or from == server then
  redis.call('HSET', KEYS[1], 'server', ARGV[1])
end
if from == server and at then
  redis.call('HSET', KEYS[1], 'left:' .. server, at)
end
if back and missing then
  redis.call('HSET', KEYS[1], 'at', missing)
elseif back then
  redis.call('HDEL', KEYS[1], 'at')
end
if mark and not back then
  redis.call('HSET', KEYS[1], 'mark', mark .. '+')
else
  redis.call('HSET', KEYS[1], 'mark', server .. '.' .. ARGV[2])
end
return 1
`

// leave runs switchScript for the servers of changed checkpoints that were left. They may run in any
// order, because each only sets the checkpoint's moment back.
func (d *WriterDetector) leave(ctx context.Context, changed []int) error {
	if len(changed) == 0 {
		return nil
	}
	now, random := time.Now(), rand.Text()
	pipe := d.rdb.Pipeline()
	for _, i := range changed {
		d.left[i] = slices.DeleteFunc(d.left[i], func(s leftServer) bool {
			return s.id == d.seen[i] || now.Sub(s.at) > replicationLag
		})
		pipe.Eval(ctx, switchScript, []string{d.keys[i]}, d.seen[i], random, 0)
		for _, s := range d.left[i] {
			pipe.Eval(ctx, switchScript, []string{d.keys[i]}, s.id, random, 1)
		}
		d.left[i] = append(d.left[i], leftServer{d.seen[i], now})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return models.Unavailable("record that Redis is another server", err)
	}
	return nil
}
