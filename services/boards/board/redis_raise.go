package board

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/concurrent"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

// Raise applies updates: a user's composite in a bucket becomes the given one,
// unless the stored one is larger. Of several updates of one user only the
// largest is sent. It sends one variadic ZADD GT for each key, in a transaction with its
// change if the bucket has a change stream, all at the same time: one round trip. Updates
// of a bucket that is cold go to the key Late, where no reader sees them, and wait for the archive.
// Routes sends updates of users whose score is corrected to the key Reported, and drops
// some, which have no error.
// Updates of a rolling bucket carry a user's total of one hour and go through
// raiseHourScript; if the hour has left the window they change nothing. Raise
// returns nil if every update is in Redis, otherwise one error for each update,
// nil for those that are.
func (s *Store) Raise(ctx context.Context, raises []models.Raise) []error {
	if len(raises) == 0 {
		return nil
	}
	commands, commandOf := s.raiseCommands(raises)
	results := s.runRaises(ctx, commands)
	if !slices.ContainsFunc(results, func(r raised) bool { return r.err != nil }) {
		return nil
	}
	errs := make([]error, len(raises))
	for i, command := range commandOf {
		if command == noCommand {
			continue
		}
		if err := results[command].err; err != nil {
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
// Redis. One round trip for each raiseAllChunk, and one more for each of their buckets with a change
// stream, to which it writes only entries that the bucket lacks.
func (s *Store) RaiseAll(ctx context.Context, raises []models.Raise) (changed int64, err error) {
	for chunk := range slices.Chunk(raises, raiseAllChunk) {
		chunk, err := s.lacking(ctx, chunk)
		if err != nil {
			return changed, err
		}
		commands, _ := s.raiseCommands(chunk)
		for _, result := range s.runRaises(ctx, commands) {
			if result.err != nil {
				return changed, models.Unavailable("raise all", result.err)
			}
			changed += result.changed
		}
	}
	return changed, nil
}

// lacking returns the raises without those that change nothing in a bucket with a change
// stream.
func (s *Store) lacking(ctx context.Context, raises []models.Raise) ([]models.Raise, error) {
	var lacked, streamed []models.Raise
	for _, r := range raises {
		if r.Bucket.ChangeStream {
			streamed = append(streamed, r)
		} else {
			lacked = append(lacked, r)
		}
	}
	if len(streamed) == 0 {
		return raises, nil
	}
	stored, err := s.CompositesBefore(ctx, streamed)
	if err != nil {
		return nil, err
	}
	for i, r := range streamed {
		if r.Composite > stored[i] {
			lacked = append(lacked, r)
		}
	}
	return lacked, nil
}

// CompositesBefore returns the composites that the raises' users have in their buckets, by
// position; 0 for a user without one. One ZMSCORE for each shard, all in one round trip.
func (s *Store) CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	users := make(map[*models.Bucket][]models.RowID)
	positions := make(map[*models.Bucket][]int)
	for i, r := range raises {
		users[r.Bucket] = append(users[r.Bucket], r.User)
		positions[r.Bucket] = append(positions[r.Bucket], i)
	}
	stored := make([]models.Composite, len(raises))
	var lookups []lookup
	now := s.clock()
	for bucket, ids := range users {
		for _, l := range s.lookups(ctx, bucket, ids, stored, now) {
			for i, at := range l.at {
				l.at[i] = positions[bucket][at]
			}
			lookups = append(lookups, l)
		}
	}
	return stored, s.lookUp(ctx, lookups)
}

// raiseCommand raises entries of one key.
type raiseCommand struct {
	// args are those of ZADD, or of a call of raiseHourScript, which takes the member first.
	args        []any
	memberFirst bool
	entries     []models.Entry
	// bucket and shard are those of the entries, if the change is to be written to the
	// shard's change stream; otherwise bucket is nil.
	bucket *models.Bucket
	shard  int
}

// raised is the result of a raiseCommand: how many entries have changed, or an error.
type raised struct {
	changed int64
	err     error
}

// runRaises runs commands at the same time.
func (s *Store) runRaises(ctx context.Context, commands []raiseCommand) []raised {
	results := make([]raised, len(commands))
	cmds := make([]*redis.Cmd, len(commands))
	pipe := s.rdb.Pipeline()
	var transactions sync.WaitGroup
	for i := range commands {
		if commands[i].bucket == nil {
			cmds[i] = pipe.Do(ctx, commands[i].args...)
			continue
		}
		run := func() { results[i].changed, results[i].err = s.raiseWithChange(ctx, &commands[i]) }
		if len(commands) == 1 {
			run()
		} else {
			concurrent.Go(ctx, &transactions, run)
		}
	}
	if pipe.Len() > 0 {
		_, _ = pipe.Exec(ctx) // each command has its error
	}
	transactions.Wait()
	for i, cmd := range cmds {
		if cmd != nil {
			results[i].changed, results[i].err = cmd.Int64()
		}
	}
	return results
}

// raiseWithChange raises entries of a shard, and writes them to its change stream if that
// exists, which it does while any process follows it. It returns how many entries have
// changed.
//
// Both commands are one transaction: a process that has read a change finds its entries on
// the board, a failover loses both or none, and a full Redis refuses both. A script could
// leave out a change of entries that the board has already, but it costs Redis a quarter more
// or above for a thousand entries, because Lua copies each argument twice.
func (s *Store) raiseWithChange(ctx context.Context, c *raiseCommand) (changed int64, err error) {
	transaction := s.rdb.TxPipeline()
	zadd := transaction.Do(ctx, c.args...)
	xadd := transaction.XAdd(ctx, &redis.XAddArgs{
		Stream: s.keys.Changes(c.bucket.Board, c.shard), NoMkStream: true,
		Values: []any{changes.Field, encodeRaised(c.bucket.Name, c.entries)},
	})
	if _, err := transaction.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	if s.written != nil {
		s.written(c.bucket, c.shard, xadd.Val(), c.entries)
	}
	return zadd.Int64()
}

// noCommand is the index of the command of an update that changes nothing.
const noCommand = -1

// route returns where routes, which may be nil, send an update.
func route(routes Routes, bucket *models.Bucket, user models.RowID) (key models.EntryKey, ok bool) {
	if routes == nil {
		return models.KeyBoard, true
	}
	return routes.Route(bucket, user)
}

// raiseKey is what updates of one key have in common.
type raiseKey struct {
	bucket *models.Bucket
	shard  int
	apart  bool        // while a correction holds
	hour   models.Hour // of a rolling bucket, whose updates each carry a user's total of one hour
}

// raiseGroup holds the updates of a key.
type raiseGroup struct {
	command int // the one that takes further entries
	at      map[models.RowID]raisePlace
}

// raisePlace is where a user's entry is.
type raisePlace struct{ command, entry int }

// raiseCommands merges updates into one command for each key, in a rolling bucket one for each
// raiseChunk users of an hour. Of several updates of a user only the largest is sent. commandOf is
// the index of the command that carries each update, or noCommand.
func (s *Store) raiseCommands(raises []models.Raise) (commands []raiseCommand, commandOf []int) {
	commandOf = make([]int, len(raises))
	groups := make(map[raiseKey]*raiseGroup, 1)
	now := s.clock()
	var last raiseKey // the next update often has the same
	var group *raiseGroup
	for i := range raises {
		r := &raises[i]
		routed, ok := route(s.routes, r.Bucket, r.User)
		if !ok {
			commandOf[i] = noCommand
			continue
		}
		rolling := r.Bucket.WindowHours > 0
		k := raiseKey{bucket: r.Bucket, shard: r.Bucket.Shard(r.User), apart: routed == models.KeyReported && !rolling}
		if rolling {
			k.hour = hourOf(r.Bucket, r.Composite)
		}
		expected := (len(raises) - i) / r.Bucket.Shards
		if group == nil || k != last {
			if group = groups[k]; group == nil {
				group = &raiseGroup{command: len(commands), at: make(map[models.RowID]raisePlace, expected)}
				groups[k] = group
				commands = append(commands, s.beginRaise(k, now, expected))
			}
			last = k
		}
		if at, ok := group.at[r.User]; ok {
			entry := &commands[at.command].entries[at.entry]
			entry.Composite = max(entry.Composite, r.Composite)
			commandOf[i] = at.command
			continue
		}
		if rolling && len(commands[group.command].entries) == raiseChunk {
			group.command = len(commands)
			commands = append(commands, s.beginRaise(k, now, expected))
		}
		c := &commands[group.command]
		group.at[r.User] = raisePlace{group.command, len(c.entries)}
		commandOf[i] = group.command
		c.entries = append(c.entries, r.Entry)
	}
	for i := range commands {
		commands[i].addEntries()
	}
	return commands, commandOf
}

// addEntries appends the entries to the arguments. Pointers save an allocation for each.
func (c *raiseCommand) addEntries() {
	c.args = slices.Grow(c.args, 2*len(c.entries))
	for i := range c.entries {
		first, second := (*int64)(&c.entries[i].Composite), (*int64)(&c.entries[i].User)
		if c.memberFirst {
			first, second = second, first
		}
		c.args = append(c.args, first, second)
	}
}

// beginRaise returns the command that raises entries of a key, with room for the expected
// number of entries but without any. Late updates are not in the change stream, as no
// reader sees them, nor are those that are kept apart while a correction holds.
func (s *Store) beginRaise(k raiseKey, now time.Time, expected int) raiseCommand {
	if k.bucket.WindowHours > 0 {
		return raiseCommand{
			args: s.raiseHour(k, models.HourOf(now)), memberFirst: true, entries: make([]models.Entry, 0, min(expected, raiseChunk)),
		}
	}
	c := raiseCommand{entries: make([]models.Entry, 0, expected)}
	key := ""
	switch {
	case takenOver(k.bucket, now):
		key = s.keys.Late(k.bucket, k.shard)
	case k.apart:
		key = s.keys.Reported(k.bucket, k.shard)
	default:
		key = s.keys.Board(k.bucket, k.shard)
		if k.bucket.ChangeStream {
			c.bucket, c.shard = k.bucket, k.shard
		}
	}
	c.args = []any{"zadd", key, "gt", "ch"}
	return c
}

// takenOver reports whether the archive may have taken a bucket's entries from the
// key Board. It takes a bucket of the ledger from the ledger, and readers must see
// what is written to it until then.
func takenOver(bucket *models.Bucket, now time.Time) bool {
	return bucket.Cold(now) && !bucket.FromLedger
}
