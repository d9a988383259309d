package board

import (
	"context"
	"fmt"
	"math/rand/v2"

	"stepboard/models"
	"stepboard/services/platform/changes"
)

// A bucket with a change stream is copied like this: take the stream's LastChange,
// read the shard with ReadPart, and meanwhile and from then on apply the Changes
// after that place. Scripts write to the bucket before they write to the stream, and
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
	After changes.Place
	// Count is how many entries to read at most, 1 or more.
	Count int
}

// ChangePage holds the entries of a change stream that follow ChangeRead.After.
type ChangePage struct {
	// Changes holds the changes in their order.
	Changes []Change
	// Last is the entry that was read last, After if nothing followed.
	Last changes.Place
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

// Changes reads change streams: a page for each read, in their order. One XRANGE
// for each stream, all in one round trip; a server that does not respond delays
// the pages of the others until the timeout.
func (s *Store) Changes(ctx context.Context, reads []ChangeRead) []ChangePage {
	pipe := s.rdb.Pipeline()
	parse := make([]func() (changes.Page, error), len(reads))
	for i, r := range reads {
		parse[i] = changes.After(ctx, pipe, s.keys.Changes(r.Board, r.Shard), r.After, r.Count)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	pages := make([]ChangePage, len(reads))
	for i, r := range reads {
		page, err := parse[i]()
		if err != nil {
			pages[i].Err = models.Unavailable("read a change stream", err)
			continue
		}
		pages[i] = changePage(r.ChangeStream, page)
	}
	return pages
}

// changePage decodes the entries of a page.
func changePage(stream ChangeStream, read changes.Page) ChangePage {
	page := ChangePage{Last: read.Last, Missing: read.Missing, Complete: read.Complete}
	for _, entry := range read.Entries {
		change, err := decodeChange(entry.Content)
		if err != nil {
			return ChangePage{Err: fmt.Errorf("change %s of %v: %w", entry.ID, stream, err)}
		}
		change.ID = entry.ID
		if change.Bucket != "" {
			page.Changes = append(page.Changes, change)
		}
	}
	return page
}

// LastChange returns the newest entry of a change stream, from which on it can be
// followed. It begins the stream if nobody follows it: from then on the changes of the
// shard are written, until no ChangeTrimmer has trimmed the stream for ten minutes. One
// round trip.
func (s *Store) LastChange(ctx context.Context, stream ChangeStream) (changes.Place, error) {
	first := encodeBegan(rand.Uint64()) //nolint:gosec // it is no secret
	newest, err := changes.Newest(ctx, s.rdb, s.keys.Changes(stream.Board, stream.Shard), first)()
	if err != nil {
		return changes.Place{}, models.Unavailable("read the newest change", err)
	}
	return newest, nil
}
