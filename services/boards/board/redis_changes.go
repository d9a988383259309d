package board

import (
	"math/rand/v2"

	"stepboard/models"
	"stepboard/services/platform/changes"
)

// ChangeStream is the change stream of one shard of a board.
type ChangeStream struct {
	Board string
	Shard int
}

// Changes returns the reader of the change streams.
//
// A bucket with a change stream is copied like this: begin to follow the stream, read the
// shard with ReadPart, and meanwhile and from then on apply the changes of the stream.
// Scripts write to the bucket before they write to the stream, and entries only rise, so
// nothing is missed and nothing has to be ordered. Whatever lowers or removes entries of
// the key Board writes a Reset in the same script.
func (s *Store) Changes() changes.Reader[ChangeStream, Change] {
	return changes.Reader[ChangeStream, Change]{
		Redis: s.rdb,
		Key:   func(stream ChangeStream) string { return s.keys.Changes(stream.Board, stream.Shard) },
		First: func() []byte { return encodeBegan(rand.Uint64()) }, //nolint:gosec // it is no secret
		Decode: func(entry changes.Place) (Change, error) {
			change, err := decodeChange(entry.Content)
			change.ID = entry.ID
			return change, err
		},
	}
}

// Written is called when entries were written to a shard of a bucket with a change
// stream, before the call that has written them returns. What they have changed is in
// the stream up to the newest entry, whose id is "" if the stream has no entries.
type Written func(bucket *models.Bucket, shard int, newest string, entries []models.Entry)

// NotifyWritten makes the store call a function. It must be called before the store is
// used.
func (s *Store) NotifyWritten(written Written) { s.written = written }
