// Package changes reads streams of changes, which let a process keep a copy of something in
// Redis. Such a stream is written only while somebody follows it: its writers append with
// NOMKSTREAM, a follower creates it, and it expires Lifetime after the last follower has renewed
// it. So without followers no memory is used, and processes may run with different settings.
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
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lifetime is how long a stream is kept after a follower has renewed it.
const Lifetime = 10 * time.Minute

// Field is the field of an entry that holds its content.
const Field = "c"

// Place is an entry of a stream that was read. Its content is part of it, as a server
// that went back in time may give the id to another entry. Places of different streams
// or entries are not equal. The zero Place is no entry of any stream.
type Place struct {
	// ID is the entry's id: milliseconds, "-", and a number.
	ID string
	// Content is the encoded entry.
	Content string
}

// Page holds the entries of a stream that follow a place.
type Page struct {
	Entries []Place
	// Last is the entry that was read last; the place itself if nothing followed.
	Last Place
	// Missing reports that the place is not in the stream, so that entries after it may
	// be missing, too. The page is empty then.
	Missing bool
	// Complete reports that no entry was left in the stream.
	Complete bool
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

// Newest sends or queues the reading of a stream's newest entry, from which on it can be
// followed, and returns what parses the reply. If the stream does not exist, first is
// the content of its first entry, which must differ from that of any earlier stream.
func Newest(ctx context.Context, rdb redis.Scripter, key string, first []byte) func() (Place, error) {
	reply := rdb.Eval(ctx, newestScript, []string{key}, first, Lifetime.Milliseconds())
	return func() (Place, error) {
		newest, err := reply.StringSlice()
		if err == nil && len(newest) != 2 {
			err = fmt.Errorf("unexpected reply %q", newest)
		}
		if err != nil {
			return Place{}, err
		}
		return Place{ID: newest[0], Content: newest[1]}, nil
	}
}

// After sends or queues the reading of up to count entries behind a place, and returns
// what parses the reply. One XRANGE, which begins with the place itself.
func After(ctx context.Context, rdb redis.StreamCmdable, key string, place Place, count int) func() (Page, error) {
	reply := rdb.XRangeN(ctx, key, place.ID, "+", int64(count)+1)
	return func() (Page, error) {
		entries, err := reply.Result()
		if err != nil {
			return Page{}, err
		}
		if len(entries) == 0 || placeOf(entries[0]) != place {
			return Page{Missing: true}, nil
		}
		page := Page{Last: place, Complete: len(entries) <= count}
		for _, entry := range entries[1:] {
			page.Last = placeOf(entry)
			page.Entries = append(page.Entries, page.Last)
		}
		return page, nil
	}
}

// placeOf returns the place of an entry. Content is empty if the entry has none.
func placeOf(entry redis.XMessage) Place {
	content, _ := entry.Values[Field].(string)
	return Place{ID: entry.ID, Content: content}
}
