package board

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

// Store reads and writes buckets. Safe for concurrent use. Its errors are
// CodeUnavailable if Redis, or some of its servers, did not respond.
type Store struct {
	rdb   redis.UniversalClient
	keys  keys.Builder
	clock models.Clock
	// written is called with what was written to buckets with a change stream; may be nil.
	written Written
	routes  Routes
}

// Routes says where updates go. Implemented by corrections.Rules.
type Routes interface {
	// Route returns the key of a bucket that an update of a user is written to, KeyBoard or
	// KeyReported. ok is false if it is dropped. No I/O.
	Route(bucket *models.Bucket, user models.RowID) (key models.EntryKey, ok bool)
}

// NewStore returns a store over the client. If routes is nil, all updates go to the boards.
func NewStore(rdb redis.UniversalClient, keys keys.Builder, clock models.Clock, routes Routes) *Store {
	return &Store{rdb: rdb, keys: keys, clock: clock, routes: routes}
}

// EntriesAt returns a store over the same keys whose clock stands at a moment, to store what was
// uploaded then.
func (s *Store) EntriesAt(moment time.Time) Entries {
	then := *s
	then.clock = func() time.Time { return moment }
	return &then
}

// readKeys returns the keys to read a shard from: the first of them that
// exists. Once the bucket is cold, the archive's first run may have frozen the
// shard. Entries that appear under the key Board after that came too late, and
// wait for the archive.
func (s *Store) readKeys(bucket *models.Bucket, shard int, now time.Time) []string {
	current := s.keys.Board(bucket, shard)
	if takenOver(bucket, now) {
		return []string{s.keys.Frozen(bucket, shard, 1, models.KeyBoard), current}
	}
	return []string{current}
}

// selectKey begins every script that reads a shard by its readKeys. It sets the
// local `key` to the first of them that exists.
const selectKey = `
local key = KEYS[1]
if KEYS[2] and redis.call('EXISTS', key) == 0 then
  key = KEYS[2]
end
`

// Composites returns the users' composites in the bucket, in the order of the
// users, 0 for a user without one. One ZMSCORE for each shard that has any of
// the users, all in one round trip.
func (s *Store) Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	lists, err := s.CompositesOf(ctx, []*models.Bucket{bucket}, users)
	if err != nil {
		return nil, err
	}
	return lists[0], nil
}

// CompositesOf returns the users' composites in each of the buckets, by position. The
// commands are those of Composites for each bucket, all in one round trip.
func (s *Store) CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error) {
	var (
		lookups []lookup
		now     = s.clock()
		lists   = make([][]models.Composite, len(buckets))
	)
	for i, bucket := range buckets {
		lists[i] = make([]models.Composite, len(users))
		lookups = append(lookups, s.lookups(ctx, bucket, users, lists[i], now)...)
	}
	if err := s.lookUp(ctx, lookups); err != nil {
		return nil, err
	}
	return lists, nil
}

// lookUp runs other commands, and those of lookups, in one round trip, if there are any.
func (s *Store) lookUp(ctx context.Context, lookups []lookup, queued ...redis.Cmder) error {
	for _, l := range lookups {
		queued = append(queued, l.cmd)
	}
	if len(queued) == 0 {
		return nil
	}
	if err := s.process(ctx, queued); err != nil {
		return models.Unavailable("read scores", err)
	}
	for _, l := range lookups {
		for i, value := range l.cmd.Val() {
			l.into[l.at[i]] = models.Composite(value)
		}
	}
	return nil
}

// lookup reads some users' composites in one shard.
type lookup struct {
	cmd  *redis.FloatSliceCmd
	at   []int // the users' places in into
	into []models.Composite
}

// lookups returns a lookup for each shard of the bucket that has any of the users. Their composites
// go into a list, by position.
func (s *Store) lookups(
	ctx context.Context, bucket *models.Bucket, users []models.RowID, into []models.Composite, now time.Time,
) []lookup {
	members := make([][]int64, bucket.Shards)
	lookups := make([]lookup, bucket.Shards)
	if bucket.Shards == 1 {
		members[0] = make([]int64, 0, len(users))
		lookups[0].at = make([]int, 0, len(users))
	}
	for i, user := range users {
		shard := bucket.Shard(user)
		members[shard] = append(members[shard], int64(user))
		lookups[shard].at = append(lookups[shard].at, i)
	}
	used := lookups[:0]
	for shard, l := range lookups {
		if len(l.at) > 0 {
			l.into = into
			l.cmd = redis.NewFloatSliceCmd(ctx, zmscore(s.readKeys(bucket, shard, now), members[shard])...)
			used = append(used, l)
		}
	}
	return used
}

// process runs commands in one round trip.
func (s *Store) process(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 1 {
		return s.rdb.Process(ctx, cmds[0])
	}
	pipe := s.rdb.Pipeline()
	if err := pipe.BatchProcess(ctx, cmds...); err != nil {
		return err
	}
	_, err := pipe.Exec(ctx)
	return err
}

// zmscoreScript is ZMSCORE of a shard by its readKeys.
//
//	KEYS    the shard's readKeys
//	ARGV    members
//	result  the composite of each, nil if it has none
//
// It asks in parts, because Lua limits the arguments of one call.
const zmscoreScript = selectKey + `
local composites = {}
for from = 1, #ARGV, 1000 do
  local part = redis.call('ZMSCORE', key, unpack(ARGV, from, math.min(from + 999, #ARGV)))
  for i = 1, math.min(1000, #ARGV - from + 1) do
    composites[from + i - 1] = part[i]
  end
end
return composites
`

// zmscore builds the command. go-redis returns 0 for a member without a score,
// which no composite is. Pointers into the members save an allocation for each.
func zmscore(keys []string, members []int64) []any {
	args := make([]any, 0, 3+len(keys)+len(members))
	if len(keys) == 1 {
		args = append(args, "zmscore", keys[0])
	} else {
		args = append(args, "eval", zmscoreScript, len(keys), keys[0], keys[1])
	}
	for i := range members {
		args = append(args, &members[i])
	}
	return args
}

// windowScript reads the entries of one shard around a position.
//
//	KEYS    the shard's readKeys
//	ARGV    composite and member of the position; how many entries to read
//	        before it and from it on
//	result  {entries in the shard, entries before the position, entries read
//	        before it, [member, composite, …] in ranking order}
//
// The position need not be an entry of the shard. Entries rank before it that
// have a larger composite, or the same one and a greater member. Among the
// latter a binary search finds the position. O(log N · log ties + read).
const windowScript = selectKey + `
local composite, member = ARGV[1], ARGV[2]
local back, forward = tonumber(ARGV[3]), tonumber(ARGV[4])
local before = redis.call('ZCOUNT', key, '(' .. composite, '+inf')
local upto = before + redis.call('ZCOUNT', key, composite, composite)
while before < upto do
  local middle = math.floor((before + upto) / 2)
  if redis.call('ZREVRANGE', key, middle, middle)[1] > member then
    before = middle + 1
  else
    upto = middle
  end
end
local ahead = math.min(before, back)
local entries = {}
if ahead + forward > 0 then
  entries = redis.call('ZREVRANGE', key, before - ahead, before + forward - 1, 'WITHSCORES')
end
return {redis.call('ZCARD', key), before, ahead, entries}
`

// Window returns the entries of the bucket around a position, which may be an
// entry, the former position of one, or Top: up to `back` entries before it and
// up to `forward` from it on. One script for each shard, all in one round trip;
// O(log N) plus the entries read.
func (s *Store) Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (Window, error) {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.Cmd, bucket.Shards)
	now := s.clock()
	for shard := range cmds {
		cmds[shard] = pipe.Eval(ctx, windowScript, s.readKeys(bucket, shard, now),
			int64(at.Composite), int64(at.User), back, forward)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return Window{}, models.Unavailable("read window", err)
	}
	parts := make([]ShardWindow, len(cmds))
	for i, cmd := range cmds {
		var err error
		if parts[i], err = parseShardWindow(cmd.Val().([]any)); err != nil {
			return Window{}, fmt.Errorf("read window of %s %s: %w", bucket.Board, bucket.Name, err)
		}
	}
	return MergeShards(parts, back, forward), nil
}

// parseShardWindow parses the result of windowScript.
func parseShardWindow(reply []any) (w ShardWindow, err error) {
	w.Total, w.Before, w.Ahead = reply[0].(int64), reply[1].(int64), int(reply[2].(int64))
	flat := reply[3].([]any)
	w.Entries = make([]models.Entry, len(flat)/2)
	for i := range w.Entries {
		if w.Entries[i].User, err = models.ParseRowID(flat[2*i].(string)); err != nil {
			return w, fmt.Errorf("member %q: %w", flat[2*i], err)
		}
		w.Entries[i].Composite = parseComposite(flat[2*i+1])
	}
	return w, nil
}

// parseComposite parses a member's score in the result of a script.
func parseComposite(text any) models.Composite {
	value, _ := strconv.ParseFloat(text.(string), 64) // Redis has written it
	return models.Composite(value)
}

// Server returns the address of the server that an update is written to: the
// master of its shard if Redis is a cluster, otherwise always "". It is "", too,
// if no server of the cluster responds. No I/O, except before the first command
// of a client.
func (s *Store) Server(ctx context.Context, r models.Raise) string {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	// The other keys of the shard are in the same slot.
	master, err := cluster.MasterForKey(ctx, s.keys.Board(r.Bucket, r.Bucket.Shard(r.User)))
	if err != nil {
		return ""
	}
	return master.Options().Addr
}
