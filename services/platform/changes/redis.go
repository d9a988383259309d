// Package changes follows streams of changes, which let a process keep a copy of something in
// Redis. Such a stream is written only while somebody follows it: its writers append with
// NOMKSTREAM, a follower creates it, and it expires Lifetime after the last follower has renewed
// it. So without followers no memory is used, processes may run with different settings, and no job has to trim.
//
// A follower reads from the entry on that it read last. If the stream does not begin with that
// entry any more, content included, entries may be missing: they were removed before they were
// read, or Redis has lost the stream or went back in time. Then it begins again. A reply that
// ends with the stream's last entry proves that the follower knows all that was acknowledged
// before the read was sent.
//
// Followers trim: they remove the entries before the one that they themselves read a minute ago,
// by their own monotonic clock. The ids of entries have Redis's time, which may jump at a
// failover and would then empty the stream or stop the trimming.
package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Lifetime is how long a stream is kept after a follower has renewed it.
const Lifetime = 10 * time.Minute

// Field is the field of an entry that holds its content.
const Field = "c"

// trimAtOnce is about how many entries one command removes: a millisecond of Redis.
const trimAtOnce = 10_000

// ErrLost means that entries of a stream may be missing: they were removed before they were
// read, or Redis has lost them or went back in time.
var ErrLost = errors.New("the change stream does not continue what was read before")

// Place is an entry of a stream that was read. Its content is part of it, as a server
// that went back in time may give the id to another entry. Places of different streams
// or entries are not equal. The zero Place is no entry of any stream.
type Place struct {
	// ID is the entry's id: milliseconds, "-", and a number. The ids of a stream rise.
	ID string
	// Content is the encoded entry.
	Content string
}

// Read asks for the entries of one stream.
type Read[K comparable] struct {
	Stream K
	// After is the entry that was read last. The zero Place begins to follow the stream
	// at its newest entry, and creates the stream if it does not exist.
	After Place
	// Count is how many entries to read at most, 1 or more.
	Count int
	// Keep, if it is not zero, makes the stream last, and removes the entries before it if
	// it is in the stream.
	Keep Place
}

// Page holds the entries of a stream that follow Read.After.
type Page[E any] struct {
	Entries []E
	// Last is the entry that was read last; Read.After if nothing followed.
	Last Place
	// Lost is ErrLost if Read.After is not in the stream, or the error about an entry that
	// can't be decoded. The page is empty then.
	Lost error
	// Complete reports that no entry was left in the stream. All that was written before
	// the read was sent has been read.
	Complete bool
	// Untrimmed reports that entries before Read.Keep may be left.
	Untrimmed bool
	// Server is the id of the server that has the stream, if the Reader identifies servers.
	Server string
	// Err is nil, or says why the stream was not read: CodeUnavailable. The other fields
	// are zero then.
	Err error
}

// Reader reads the streams of one kind. K names a stream, and E is a decoded entry.
type Reader[K comparable, E any] struct {
	Redis redis.UniversalClient
	// Key returns the Redis key of a stream.
	Key func(K) string
	// First returns the content of the first entry of a stream, which must differ from
	// that of any earlier stream.
	First func() []byte
	// Decode decodes an entry.
	Decode func(Place) (E, error)
	// Identified makes pages say which server has the stream: another one after each
	// restart, and on another server. It costs one INFO for each call of Read.
	Identified bool
}

// Server returns the client of the server that has a stream, as far as is known. It is nil if
// no server responds. No I/O, except before the first command of a client.
func (r Reader[K, E]) Server(ctx context.Context, stream K) any {
	server, err := r.server(ctx, stream)
	if err != nil {
		return nil // Read reports it
	}
	return server
}

func (r Reader[K, E]) server(ctx context.Context, stream K) (redis.UniversalClient, error) {
	if cluster, ok := r.Redis.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, r.Key(stream))
	}
	return r.Redis, nil
}

// Read reads streams: a page for each read, in their order. One round trip to each server. All
// streams must be on the same one if servers are identified.
func (r Reader[K, E]) Read(ctx context.Context, reads []Read[K]) []Page[E] {
	pages := make([]Page[E], len(reads))
	client, err := r.Redis, error(nil)
	if r.Identified {
		client, err = r.server(ctx, reads[0].Stream)
	}
	if err != nil {
		for i := range pages {
			pages[i].Err = models.Unavailable("find the server of a change stream", err)
		}
		return pages
	}
	pipe := client.Pipeline()
	identify := func() (string, error) { return "", nil }
	if r.Identified {
		identify = queueServerID(ctx, pipe)
	}
	parse := make([]func() (Page[E], error), len(reads))
	for i, read := range reads {
		if read.After == (Place{}) {
			parse[i] = r.queueNewest(ctx, pipe, read)
		} else {
			parse[i] = r.queueAfter(ctx, pipe, read)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	id, unidentified := identify()
	for i := range reads {
		page, err := parse[i]()
		if err = errors.Join(err, unidentified); err != nil {
			r.moved(ctx, err)
			page = Page[E]{Err: models.Unavailable("read a change stream", err)}
		}
		page.Server = id
		pages[i] = page
	}
	return pages
}

// moved makes the client look where the slots of a cluster are, if one has moved.
func (r Reader[K, E]) moved(ctx context.Context, err error) {
	if cluster, ok := r.Redis.(*redis.ClusterClient); ok && redis.HasErrorPrefix(err, "MOVED") {
		cluster.ReloadState(ctx)
	}
}

// newestScript returns the newest entry of a stream, which it creates if there is none,
// and renews the stream.
//
//	KEYS    the stream
//	ARGV    content of the first entry of a new stream; lifetime of the stream, milliseconds
//	result  {the entry's id, its content}
const newestScript = `
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not newest then
  newest = {redis.call('XADD', KEYS[1], '*', 'c', ARGV[1]), {'c', ARGV[1]}}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {newest[1], newest[2][2]}
`

// queueNewest queues the reading of a stream's newest entry, from which on it can be
// followed, and returns what parses the reply.
func (r Reader[K, E]) queueNewest(ctx context.Context, pipe redis.Pipeliner, read Read[K]) func() (Page[E], error) {
	reply := pipe.Eval(ctx, newestScript, []string{r.Key(read.Stream)}, r.First(), Lifetime.Milliseconds())
	return func() (Page[E], error) {
		newest, err := reply.StringSlice()
		if err == nil && len(newest) != 2 {
			err = fmt.Errorf("unexpected reply %q", newest)
		}
		if err != nil {
			return Page[E]{}, err
		}
		return Page[E]{Last: Place{ID: newest[0], Content: newest[1]}, Complete: true}, nil
	}
}

// trimScript removes the entries of a stream before one that it still has, and renews its
// lifetime.
//
//	KEYS    the stream
//	ARGV    id of the oldest entry to keep; about how many entries to remove at most;
//	        lifetime of the stream, milliseconds
//	result  how many entries were removed in whole nodes; 0 if no entry is left to remove
//
// If the entry is not in the stream, this is another stream than the one that it was
// read from, or a trimmer has removed it. It begins by removing, so that a full Redis
// permits it.
const trimScript = `
local removed = 0
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) > 0 then
  removed = redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[1], 'LIMIT', ARGV[2])
  if removed == 0 then
    redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return removed
`

// queueAfter queues the reading of the entries behind a place, and returns what parses the
// reply. One XRANGE, which begins with the place itself.
func (r Reader[K, E]) queueAfter(ctx context.Context, pipe redis.Pipeliner, read Read[K]) func() (Page[E], error) {
	key, trimmed := r.Key(read.Stream), new(redis.Cmd)
	if read.Keep != (Place{}) {
		trimmed = pipe.Eval(ctx, trimScript, []string{key}, read.Keep.ID, trimAtOnce, Lifetime.Milliseconds())
	}
	reply := pipe.XRangeN(ctx, key, read.After.ID, "+", int64(read.Count)+1)
	return func() (Page[E], error) {
		entries, err := reply.Result()
		if err = errors.Join(err, trimmed.Err()); err != nil {
			return Page[E]{}, err
		}
		if len(entries) == 0 || placeOf(entries[0]) != read.After {
			return Page[E]{Lost: ErrLost}, nil
		}
		removed, _ := trimmed.Val().(int64)
		page := Page[E]{Last: read.After, Complete: len(entries) <= read.Count, Untrimmed: removed > 0}
		for _, entry := range entries[1:] {
			page.Last = placeOf(entry)
			decoded, err := r.Decode(page.Last)
			if err != nil {
				return Page[E]{Lost: fmt.Errorf("entry %s of %s: %w", entry.ID, key, err)}, nil
			}
			page.Entries = append(page.Entries, decoded)
		}
		return page, nil
	}
}

// placeOf returns the place of an entry. Content is empty if the entry has none.
func placeOf(entry redis.XMessage) Place {
	content, _ := entry.Values[Field].(string)
	return Place{ID: entry.ID, Content: content}
}

// queueServerID queues the reading of a server's replication id, and returns what parses the
// reply. The simulation's has none.
func queueServerID(ctx context.Context, pipe redis.Pipeliner) func() (string, error) {
	info := redis.NewInfoCmd(ctx, "info", "replication")
	_ = pipe.Process(ctx, info) // it has its own error
	return func() (string, error) {
		switch id, err := info.Item("Replication", "master_replid"), info.Err(); {
		case err != nil && strings.Contains(err.Error(), "is not supported"):
			return "none", nil
		case err != nil || id != "":
			return id, err
		}
		return "", errors.New("INFO has no master_replid")
	}
}
