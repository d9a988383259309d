package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

// A watcher replays one kind of data after a loss. Each has checkpoints of its
// own, because each replays other writes.
const (
	Queue  = "queue"
	Ledger = "ledger"
	Sets   = "sets"
)

// errLostAgain means that Redis has lost more than what was just replayed.
var errLostAgain = errors.New("redis has restarted or was emptied meanwhile")

// RedisDetector finds out that Redis restarted, failed over or was restored, and
// so may have forgotten writes. Safe for concurrent use. A process whose own writes
// the watcher replays needs a WriterDetector.
//
// Its checkpoints are in that same Redis: however long Redis was away, the last
// checkpoint that it has is the moment from which writes may be missing. And a
// checkpoint is written after the writes that it covers: a server that comes
// back without its last writes, for whatever reason, comes back without their
// checkpoint.
type RedisDetector struct {
	rdb  redis.UniversalClient
	keys []string
}

// NewRedisDetector returns the detector of a watcher: Queue, Ledger or Sets.
func NewRedisDetector(rdb redis.UniversalClient, k keys.Builder, watcher string) *RedisDetector {
	d := &RedisDetector{rdb: rdb}
	checkpoints := 1
	if _, ok := rdb.(*redis.ClusterClient); ok {
		checkpoints = keys.Stripes
	}
	for i := range checkpoints {
		d.keys = append(d.keys, k.LossCheckpoint(watcher, i))
	}
	return d
}

// serverID begins the scripts that must know on which server they run. A server's
// id is its replication id, which is another one after each restart and after each
// promotion of a replica. Without the right to INFO the scripts fail: a restart
// would look as if nothing had happened. Only the simulation's, which has no
// such section, runs without an id. It ends with its process. That it was emptied
// is noticed all the same.
const serverID = `
local info = redis.pcall('INFO', 'replication')
local server = 'unknown'
if type(info) == 'string' then
  server = string.match(info, 'master_replid:(%w+)')
  if not server then
    return redis.error_reply('` + noInfo + ` there is no master_replid')
  end
elseif not string.find(info.err, 'is not supported', 1, true) then
  return redis.error_reply('` + noInfo + ` ' .. info.err)
end
`

// noInfo begins the error of a script that does not learn the server's id.
const noInfo = "NOINFO"

// CheckRights returns an error if Redis, or any master of a cluster, does not
// permit the user to run INFO, or if INFO lacks the server's id, without which no
// restart can be detected. One round trip to each master.
func CheckRights(ctx context.Context, rdb redis.UniversalClient) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return checkRights(ctx, master) })
	}
	return checkRights(ctx, rdb)
}

func checkRights(ctx context.Context, rdb redis.Cmdable) error {
	err := rdb.Eval(ctx, serverID+"return server", nil).Err()
	if redis.HasErrorPrefix(err, noInfo) {
		return fmt.Errorf("a restart of Redis is detected by INFO, for which its user needs the right: ACL SETUSER name +info (%w)", err)
	}
	return models.Wrap("ask Redis for its id", err)
}

// detectScript compares the server with the one in the checkpoint. If they
// differ it stores a token, unless one of this server is stored already. With the
// token it stores the moment from which writes to this server would be missing if
// yet another one took its place before the next checkpoint.
//
//	KEYS    the checkpoint
//	ARGV    a random text
//	result  {the server's id, the checkpoint's server, the checkpoint's time in
//	        milliseconds since the epoch, the token}, '' for each that does not
//	        exist
const detectScript = serverID + `
local checkpoint = redis.call('HMGET', KEYS[1], 'server', 'at', 'mark')
if checkpoint[1] == server then
  return {server, server, checkpoint[2], ''}
end
local token = checkpoint[3]
if not token or string.sub(token, 1, #server) ~= server then
  token = server .. '.' .. ARGV[1]
  redis.call('HSET', KEYS[1], 'mark', token)
  if checkpoint[2] then
    redis.call('HSET', KEYS[1], 'left:' .. server, checkpoint[2])
  end
end
return {server, checkpoint[1] or '', checkpoint[2] or '', token}
`

// Detect compares each server with the one that its checkpoints name. On a
// server that has lost something it also stores a token; Checkpoint explains
// what for. The result is for all servers together: the largest extent and the
// oldest checkpoint. One round trip.
func (d *RedisDetector) Detect(ctx context.Context) (Loss, error) {
	replies, err := d.ask(ctx)
	if err != nil {
		return Loss{}, err
	}
	return combine(replies), nil
}

// ask runs detectScript for every checkpoint. One round trip.
func (d *RedisDetector) ask(ctx context.Context) ([]detectReply, error) {
	random := rand.Text()
	pipe := d.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(d.keys))
	for i, key := range d.keys {
		cmds[i] = pipe.Eval(ctx, detectScript, []string{key}, random)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, models.Unavailable("detect what Redis has lost", err)
	}
	replies := make([]detectReply, len(cmds))
	for i, cmd := range cmds {
		var err error
		if replies[i], err = parseDetectReply(cmd); err != nil {
			return nil, fmt.Errorf("read %s: %w", d.keys[i], err)
		}
	}
	return replies, nil
}

// detectReply is the result of detectScript.
type detectReply struct {
	server       string
	checkpointed string    // the server in the checkpoint, "" if it has none
	at           time.Time // the checkpoint's time, zero if it has none
	token        string
}

func parseDetectReply(cmd *redis.Cmd) (detectReply, error) {
	fields, err := cmd.StringSlice()
	if err != nil || len(fields) != 4 {
		return detectReply{}, fmt.Errorf("unexpected reply %v", cmd.Val())
	}
	r := detectReply{server: fields[0], checkpointed: fields[1], token: fields[3]}
	if fields[2] != "" {
		ms, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return detectReply{}, err
		}
		r.at = time.UnixMilli(ms)
	}
	return r, nil
}

// combine returns the loss of all servers together.
func combine(replies []detectReply) Loss {
	var all Loss
	running := make(map[string]bool) // servers that have a checkpoint of their own
	for _, r := range replies {
		running[r.server] = running[r.server] || r.server == r.checkpointed
	}
	for i, r := range replies {
		extent := LastWritesLost
		switch {
		case r.at.IsZero():
			extent = EverythingLost
		case running[r.server] && running[r.checkpointed]:
			// A checkpoint whose slot has moved is on another server than the one
			// that it names, although neither has restarted.
			extent = NothingLost
		}
		all.Extent = max(all.Extent, extent)
		if i == 0 || r.at.Before(all.CheckpointedAt) {
			all.CheckpointedAt = r.at
		}
		all.Servers = append(all.Servers, ServerState{ID: r.server, Token: r.token, Extent: extent})
	}
	return all
}

// checkpointScript stores that the server is complete up to a moment, unless it
// has forgotten something since it was last asked: then it is another server,
// or the token is gone, or, if there was no token, the checkpoint itself. If the
// checkpoint named another server, it also stores up to which moment what was
// written there is known to be here. Of very many such servers it forgets all. If everything was lost, it also stores
// up to which moment everything, wherever it was written, is known to be here.
//
// If a process has come from another server meanwhile, which switchScript appends
// to the token, only the time is stored and the loss remains: that process's last
// writes are to be replayed, too.
//
//	KEYS    the checkpoint
//	ARGV    the server's id; the token or ''; the moment, in milliseconds since
//	        the epoch
//	result  1, or 0 if nothing was stored
const checkpointScript = serverID + `
local checkpoint = redis.call('HMGET', KEYS[1], 'server', 'mark', 'at')
local left, mark = checkpoint[1], checkpoint[2] or ''
if server ~= ARGV[1] or (ARGV[2] == '' and left ~= server) or string.sub(mark, 1, #ARGV[2]) ~= ARGV[2] then
  return 0
end
local ends = ARGV[2] == '' or mark == ARGV[2]
if ends and left and left ~= server then
  if redis.call('HLEN', KEYS[1]) > 100 then
    redis.call('DEL', KEYS[1])
  end
  redis.call('HSET', KEYS[1], 'left:' .. left, ARGV[3])
end
if not checkpoint[3] then
  redis.call('HSET', KEYS[1], 'filled', ARGV[3])
end
if not ends then
  redis.call('HSET', KEYS[1], 'at', ARGV[3])
  return 1
end
redis.call('HSET', KEYS[1], 'server', server, 'at', ARGV[3])
redis.call('HDEL', KEYS[1], 'mark', 'left:' .. server)
return 1
`

// Checkpoint stores that the servers of a loss are complete up to a moment. If
// one of them has forgotten something since Detect, its checkpoint stays as it
// is: writes that were replayed before that would be missing, and nobody would
// notice. That is an error (CodeUnavailable) if the loss had an extent, and
// Detect goes on to report the loss. If nothing had been lost it is no error:
// the next Detect reports it. One round trip.
func (d *RedisDetector) Checkpoint(ctx context.Context, loss Loss, upto time.Time) error {
	pipe := d.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(d.keys))
	for i, key := range d.keys {
		cmds[i] = pipe.Eval(ctx, checkpointScript, []string{key}, loss.Servers[i].ID, loss.Servers[i].Token, upto.UnixMilli())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return models.Unavailable("checkpoint Redis", err)
	}
	for _, cmd := range cmds {
		stored, err := cmd.Bool()
		if err != nil {
			return models.Unavailable("checkpoint Redis", err)
		}
		if !stored && loss.Extent != NothingLost {
			return models.Unavailable("checkpoint Redis", errLostAgain)
		}
	}
	return nil
}
