package board

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Raise applies updates: a user's composite in a bucket becomes the given one,
// unless the stored one is larger. Of several updates of one user only the
// largest is sent. It sends one variadic ZADD GT for each key, or one script if
// the bucket has a change stream, all in one round trip. Updates of a bucket that
// is cold go to the key Late, where no reader sees them, and wait for the archive.
// Updates of users whose score in the bucket is corrected go to the key Reported, or
// change nothing if the bucket is one of the ledger, which has them.
// Updates of a rolling bucket carry a user's total of one hour and go through
// raiseHourScript; if the hour has left the window they change nothing. Raise
// returns nil if every update is in Redis, otherwise one error for each update,
// nil for those that are.
// Updates of users who were erased are dropped, and have no error.
func (s *Store) Raise(ctx context.Context, raises []models.Raise) []error {
	kept, positions := s.existing(raises)
	errs := s.raise(ctx, kept)
	if positions == nil || errs == nil {
		return errs
	}
	all := make([]error, len(raises))
	for i, err := range errs {
		all[positions[i]] = err
	}
	return all
}

// raise is Raise for users who exist.
func (s *Store) raise(ctx context.Context, raises []models.Raise) []error {
	if len(raises) == 0 {
		return nil
	}
	commands, commandOf := s.raiseCommands(raises)
	cmds, err := s.doAll(ctx, commands)
	s.notifyWritten(raises, commandOf, commands, cmds)
	if err == nil {
		return nil
	}
	errs := make([]error, len(raises))
	for i, command := range commandOf {
		if command == noCommand {
			continue
		}
		if err := cmds[command].Err(); err != nil {
			errs[i] = models.Unavailable("raise", err)
		}
	}
	return errs
}

// raiseAllChunk is how many updates RaiseAll sends at once.
const raiseAllChunk = 5000

// RaiseAll raises many entries, most of which the boards already have. It
// returns how many entries have changed, or fewer if a connection broke and
// updates were sent again. After an error any part of the updates may be in
// Redis. One round trip for each 5,000.
func (s *Store) RaiseAll(ctx context.Context, raises []models.Raise) (changed int64, err error) {
	raises, _ = s.existing(raises)
	for chunk := range slices.Chunk(raises, raiseAllChunk) {
		commands, commandOf := s.raiseCommands(chunk)
		cmds, err := s.doAll(ctx, commands)
		s.notifyWritten(chunk, commandOf, commands, cmds)
		if err != nil {
			return changed, models.Unavailable("raise all", err)
		}
		for _, cmd := range cmds {
			raised, err := parseRaised(cmd)
			if err != nil {
				return changed, fmt.Errorf("raise all: %w", err)
			}
			changed += raised.changed
		}
	}
	return changed, nil
}

// doAll runs commands in one round trip.
func (s *Store) doAll(ctx context.Context, commands [][]any) ([]*redis.Cmd, error) {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(commands))
	for i, args := range commands {
		cmds[i] = pipe.Do(ctx, args...)
	}
	_, err := pipe.Exec(ctx)
	return cmds, err
}

// noCommand is the index of the command of an update that changes nothing.
const noCommand = -1

// raiseCommands merges updates into one command for each key. commandOf is the
// index of the command that carries each update, or noCommand. Pointers into the raises
// save an allocation for each argument.
func (s *Store) raiseCommands(raises []models.Raise) (commands [][]any, commandOf []int) {
	type key struct {
		bucket *models.Bucket
		shard  int
		apart  bool
	}
	commandOf = make([]int, len(raises))
	ofKey := make(map[key]int, 1)
	var at []map[models.RowID]int // for each command, the index of a user's composite in its arguments
	now := s.clock()
	var last key // the next update often has the same
	command := -1
	var hourly []int // updates of rolling buckets
	for i := range raises {
		r := &raises[i]
		corrected := s.corrected(r)
		if corrected && r.Bucket.FromLedger {
			commandOf[i] = noCommand
			continue
		}
		if r.Bucket.WindowHours > 0 {
			hourly = append(hourly, i)
			continue
		}
		if k := (key{r.Bucket, r.Bucket.Shard(r.User), corrected}); command < 0 || k != last {
			var ok bool
			if command, ok = ofKey[k]; !ok {
				command = len(commands)
				ofKey[k] = command
				expected := (len(raises) - i) / r.Bucket.Shards
				commands = append(commands, s.beginRaise(k.bucket, k.shard, k.apart, now, expected))
				at = append(at, make(map[models.RowID]int, expected))
			}
			last = k
		}
		commandOf[i] = command
		args := commands[command]
		if j, ok := at[command][r.User]; ok {
			if int64(r.Composite) > *args[j].(*int64) {
				args[j] = (*int64)(&r.Composite)
			}
			continue
		}
		at[command][r.User] = len(args)
		commands[command] = append(args, (*int64)(&r.Composite), (*int64)(&r.User))
	}
	for k, command := range ofKey {
		completeRaise(k.bucket, commands[command])
	}
	if hourly != nil {
		commands = s.addHourRaises(commands, commandOf, raises, hourly)
	}
	return commands, commandOf
}

// raiseScript raises entries of a shard, and writes to its change stream if that
// changes anything and if the stream exists, which it does while any process
// follows it.
//
//	KEYS    Board, Changes
//	ARGV    the change; [composite, member, …]
//	result  {how many entries have changed, id of the newest entry of the stream or ''}
//
// The change names all the entries: which of them have changed is not known. If
// none has, the earlier changes that have raised them are in the stream, or are
// older than it. It raises in parts, because Lua limits the arguments of one call.
// The stream is written last: a process that has read a change finds its entries on
// the board. A full Redis refuses the first write, so nothing is changed then.
const raiseScript = `
local changed = 0
for from = 2, #ARGV, 1000 do
  changed = changed + redis.call('ZADD', KEYS[1], 'GT', 'CH', unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
if changed > 0 then
  return {changed, redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', 'c', ARGV[1]) or ''}
end
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
return {changed, newest and newest[1] or ''}
`

// The arguments of a call of raiseScript.
const (
	raiseScriptChange  = 5
	raiseScriptEntries = 6
)

// beginRaise returns the beginning of the command that raises entries of a shard, to
// which composites and users are appended: ZADD, or raiseScript if the bucket has a
// change stream. Late updates are not in the stream, as no reader sees them, nor are those
// that are kept apart while a correction holds.
func (s *Store) beginRaise(bucket *models.Bucket, shard int, apart bool, now time.Time, expected int) []any {
	args := make([]any, 0, raiseScriptEntries+2*expected)
	switch {
	case takenOver(bucket, now):
		return append(args, "zadd", s.keys.Late(bucket, shard), "gt", "ch")
	case apart:
		return append(args, "zadd", s.keys.Reported(bucket, shard), "gt", "ch")
	case bucket.ChangeStream:
		return append(args, "eval", raiseScript, 2, s.keys.Board(bucket, shard), s.keys.Changes(bucket.Board, shard), nil)
	default:
		return append(args, "zadd", s.keys.Board(bucket, shard), "gt", "ch")
	}
}

// completeRaise sets the change of a call of raiseScript. It does not change other
// commands.
func completeRaise(bucket *models.Bucket, args []any) {
	if args[0] != "eval" {
		return
	}
	pairs := args[raiseScriptEntries:]
	args[raiseScriptChange] = encodeRaised(bucket.Name, len(pairs)/2, func(i int) models.Entry {
		return models.Entry{Composite: models.Composite(*pairs[2*i].(*int64)), User: models.RowID(*pairs[2*i+1].(*int64))}
	})
}

// takenOver reports whether the archive may have taken a bucket's entries from the
// key Board. It takes a bucket of the ledger from the ledger, and readers must see
// what is written to it until then.
func takenOver(bucket *models.Bucket, now time.Time) bool {
	return bucket.Cold(now) && !bucket.FromLedger
}
