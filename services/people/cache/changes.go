package cache

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
)

// Read reads a set and reports whether Redis has it. While a change is under way it has
// not.
type Read func(context.Context) (members []models.RowID, stored bool, err error)

// Near is a near cache of sets: copies in the memory of the process. It follows the
// streams of changes and has copies of sets that Redis has, never of those that it
// refuses to store. Implemented by Circles.
type Near interface {
	// Members returns the members of a set from the near cache, and the moment before
	// which all complete changes are in them, if it can prove that this is recent enough.
	// Otherwise it calls read, and asOf is zero.
	Members(ctx context.Context, of Set, read Read) (members []models.RowID, asOf time.Time, err error)
	// Forget removes the copies of sets, and prevents copies of what is being read.
	Forget(sets []Set)
}

func (s *Store) nearCache() Near { return s.near }

// forget makes this process see its own changes at once.
func (s *Store) forget(sets []Set) {
	if s.near != nil {
		s.near.Forget(sets)
	}
}

// Changed is an entry of a stream of changes.
type Changed struct {
	// Sets are being changed, or were.
	Sets []Set
	// Dropped reports that all sets of the stream were dropped.
	Dropped bool
}

// streamOf returns the stream that has the changes of a stripe.
func (s *Store) streamOf(stripe int) int { return stripe % s.streams }

// The first byte of an entry is its kind, and the next four are random, so that no two
// entries are equal.
const (
	entryChanged = 1 // sets are being changed, or were
	entryDropped = 2 // all sets of the stream were dropped
	entryBegan   = 3 // the stream began
)

// entryHeader is the length of kind and random bytes.
const entryHeader = 5

func newEntry(kind byte, room int) []byte {
	buf := append(make([]byte, 0, entryHeader+room), kind)
	return binary.BigEndian.AppendUint32(buf, rand.Uint32()) //nolint:gosec // it is no secret
}

// encodeChanged encodes that sets of one kind are being changed, or were:
//
//	5 bytes   header
//	1 byte    length of the kind's name, and the name
//	uvarint   each owner
func encodeChanged(kind keys.Sets, owners []int64) []byte {
	buf := newEntry(entryChanged, 1+len(kind)+5*len(owners))
	buf = append(buf, byte(len(kind)))
	buf = append(buf, kind...)
	for _, owner := range owners {
		buf = binary.AppendUvarint(buf, uint64(owner))
	}
	return buf
}

// decodeEntry decodes an entry: the sets that it names, and whether all were dropped.
// An entry that can't be decoded, as of a newer version, may be about any set, so it
// counts as if all were dropped.
func decodeEntry(data string) (changed []Set, dropped bool) {
	if len(data) < entryHeader {
		return nil, true
	}
	kind, rest := data[0], data[entryHeader:]
	if kind == entryBegan {
		return nil, false
	}
	if kind != entryChanged || rest == "" || len(rest) < 1+int(rest[0]) {
		return nil, true
	}
	length, rest := int(rest[0]), rest[1:]
	name, owners := keys.Sets(rest[:length]), []byte(rest[length:])
	for len(owners) > 0 {
		owner, n := binary.Uvarint(owners)
		if n <= 0 || owner > math.MaxInt64 {
			return nil, true
		}
		changed = append(changed, Set{Kind: name, Owner: int64(owner)})
		owners = owners[n:]
	}
	return changed, false
}
