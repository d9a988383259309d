package board

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Written is called when entries were written to a shard of a bucket with a change
// stream, before the call that has written them returns. What they have changed is in
// the stream up to the newest entry, whose id is "" if the stream has no entries.
type Written func(bucket *models.Bucket, shard int, newest string, entries []models.Entry)

// NotifyWritten makes the store call a function. It must be called before the store is
// used.
func (s *Store) NotifyWritten(written Written) { s.written = written }

// notifyWritten calls s.written for the commands of raises that have succeeded.
func (s *Store) notifyWritten(raises []models.Raise, commandOf []int, commands [][]any, cmds []*redis.Cmd) {
	if s.written == nil {
		return
	}
	notified := make([]bool, len(commands))
	for i, r := range raises {
		command := commandOf[i]
		if command == noCommand || notified[command] || !r.Bucket.ChangeStream || commands[command][0] != "eval" {
			continue
		}
		notified[command] = true
		if raised, err := parseRaised(cmds[command]); err == nil {
			s.written(r.Bucket, r.Bucket.Shard(r.User), raised.newest, raisedEntries(commands[command]))
		}
	}
}

// raised is the reply to a command that raises entries.
type raised struct {
	changed int64
	newest  string // of raiseScript
}

// parseRaised parses the reply to ZADD or to a script that raises entries.
func parseRaised(cmd *redis.Cmd) (raised, error) {
	reply, err := cmd.Result()
	if err != nil {
		return raised{}, err
	}
	switch reply := reply.(type) {
	case int64:
		return raised{changed: reply}, nil
	case []any:
		if len(reply) == 2 {
			changed, ok1 := reply[0].(int64)
			newest, ok2 := reply[1].(string)
			if ok1 && ok2 {
				return raised{changed, newest}, nil
			}
		}
	}
	return raised{}, fmt.Errorf("unexpected reply %v", reply)
}

// raisedEntries returns the entries that a call of raiseScript raises.
func raisedEntries(args []any) []models.Entry {
	pairs := args[raiseScriptEntries:]
	entries := make([]models.Entry, len(pairs)/2)
	for i := range entries {
		entries[i].Composite = models.Composite(*pairs[2*i].(*int64))
		entries[i].User = models.RowID(*pairs[2*i+1].(*int64))
	}
	return entries
}
