package board

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// A bucket with a change stream is copied like this: take the stream's LastChange,
// read the shard with ReadPart, and meanwhile and from then on apply the Changes
// after that mark. Scripts write to the bucket before they write to the stream, and
// entries only rise, so nothing is missed and nothing has to be ordered. Whatever
// lowers or removes entries of the key Board writes a Reset in the same script.
//
// A page with Missing set means that entries were removed from the stream before
// they were read, or that Redis has lost it or went back in time.

// ChangeStream is the change stream of one shard of a board.
type ChangeStream struct {
	Board string
	Shard int
}

// ChangeRead asks for the changes of one stream.
type ChangeRead struct {
	ChangeStream
	// After is the entry that was read last.
	After ChangeMark
	// Count is how many entries to read at most, 1 or more.
	Count int
}

// ChangePage holds the entries of a change stream that follow ChangeRead.After.
type ChangePage struct {
	// Changes holds the changes in their order.
	Changes []Change
	// Last is the entry that was read last, After if nothing followed.
	Last ChangeMark
	// Missing reports that the entry After is not in the stream, so that changes
	// after it may be missing, too. There are no Changes then.
	Missing bool
	// Complete reports that no entry was left in the stream. Every change that was
	// acknowledged before the read was sent has been read.
	Complete bool
	// Err is nil, CodeUnavailable if the server did not respond, or an error about
	// an entry that can't be decoded. Nothing else is set then.
	Err error
}

// changeField is the field that holds the change in an entry of a stream.
const changeField = "c"

// Changes reads change streams: a page for each read, in their order. One XRANGE
// for each stream, all in one round trip; a server that does not respond delays
// the pages of the others until the timeout.
func (s *Store) Changes(ctx context.Context, reads []ChangeRead) []ChangePage {
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.XMessageSliceCmd, len(reads))
	for i, r := range reads {
		// The entry that was read last is read once more.
		cmds[i] = pipe.XRangeN(ctx, s.keys.Changes(r.Board, r.Shard), r.After.ID, "+", int64(r.Count)+1)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	pages := make([]ChangePage, len(reads))
	for i, cmd := range cmds {
		entries, err := cmd.Result()
		if err != nil {
			pages[i].Err = models.Unavailable("read a change stream", err)
			continue
		}
		pages[i] = changePage(reads[i], entries)
	}
	return pages
}

// changePage returns the page that the reply to a read makes.
func changePage(r ChangeRead, entries []redis.XMessage) ChangePage {
	if len(entries) == 0 || markOf(entries[0]) != r.After {
		return ChangePage{Missing: true}
	}
	page := ChangePage{Last: markOf(entries[len(entries)-1]), Complete: len(entries) <= r.Count}
	for _, entry := range entries[1:] {
		change, err := decodeChange(markOf(entry).Content)
		if err != nil {
			return ChangePage{Err: fmt.Errorf("change %s of %v: %w", entry.ID, r.ChangeStream, err)}
		}
		if change.Bucket != "" {
			change.ID = entry.ID
			page.Changes = append(page.Changes, change)
		}
	}
	return page
}

// markOf returns the mark of an entry. Content is empty if the entry has none.
func markOf(entry redis.XMessage) ChangeMark {
	content, _ := entry.Values[changeField].(string)
	return ChangeMark{ID: entry.ID, Content: content}
}

// changesLifetime is how long a change stream is kept after it was last trimmed.
// Nobody follows it then.
const changesLifetime = 10 * time.Minute

// lastChangeScript reads the newest entry of a stream. It begins the stream if that
// has none.
//
//	KEYS    Changes
//	ARGV    the change that begins a stream; lifetime of the stream, milliseconds
//	result  {the entry's id, its change}
const lastChangeScript = `
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest then
  return {newest[1], newest[2][2]}
end
local id = redis.call('XADD', KEYS[1], '*', 'c', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {id, ARGV[1]}
`

// LastChange returns the newest entry of a change stream, from which on it can be
// followed. It begins the stream if nobody follows it: from then on the changes of the
// shard are written, until no ChangeTrimmer has trimmed the stream for ten minutes. One
// round trip.
func (s *Store) LastChange(ctx context.Context, stream ChangeStream) (ChangeMark, error) {
	reply, err := s.rdb.Eval(ctx, lastChangeScript, []string{s.keys.Changes(stream.Board, stream.Shard)},
		encodeBegan(rand.Uint64()), //nolint:gosec // it is no secret
		changesLifetime.Milliseconds()).StringSlice()
	if err != nil {
		return ChangeMark{}, models.Unavailable("read the newest change", err)
	}
	if len(reply) != 2 {
		return ChangeMark{}, fmt.Errorf("read the newest change of %v: unexpected reply %q", stream, reply)
	}
	return ChangeMark{ID: reply[0], Content: reply[1]}, nil
}
