package directory

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/dchest/siphash"

	"stepboard/models"
)

const (
	// idWays is the number of row ids that a set has room for.
	idWays = 4
	// idSetBytes is the size of a set: a cache line.
	idSetBytes = idWays * 16
	// readAhead is the number of sets that get reads before it searches the first one.
	// The reads follow each other closely and do not depend on each other, so the
	// processor does many of them at the same time.
	readAhead = 32
)

// idTable holds row ids of users, up to a number of bytes. Those that were not used
// lately go first.
//
// The text of a user id is not held, only its hash with a key that nobody knows: half of
// it selects the set, the other half identifies the user there. So a row id takes 16
// bytes, and finding it reads one line of the processor's caches and takes no lock. A
// user id that is not held is taken for another with a chance of 1 in 2^62.
// Safe for concurrent use.
type idTable struct {
	key  [2]uint64 // of SipHash
	sets []idSet

	mu   sync.Mutex // held by writers
	hand int        // the position at which the search for an unused row id begins
}

// idSet has room for four row ids, each at a position in both arrays.
type idSet struct {
	// checks have the user's half of the hash XOR the row id. A reader that gets check and
	// row id of two users, because a writer replaces one by the other, finds neither.
	checks [idWays]atomic.Uint64
	// entries have the row id times two, and the bit used; 0 if the position is empty.
	entries [idWays]atomic.Uint64
}

func newIDTable(bytes int64) *idTable {
	var key [16]byte
	rand.Read(key[:]) // it never returns an error
	return &idTable{
		key:  [2]uint64{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])},
		sets: make([]idSet, max(1, bytes/idSetBytes)),
	}
}

// locate returns the set of a user, and the half of the hash that identifies the user
// in it.
func (t *idTable) locate(user models.UserID) (set *idSet, hash uint64) {
	var text [models.MaxUserID]byte // on the stack
	hash, other := siphash.Hash128(t.key[0], t.key[1], append(text[:0], user...))
	i, _ := bits.Mul64(other, uint64(len(t.sets))) // evenly distributed over the sets
	return &t.sets[i], hash
}

// find returns the position of a user, and the entry there; 0 if the row id is not held.
func (s *idSet) find(hash uint64) (at int, entry uint64) {
	for i := range s.entries {
		entry := s.entries[i].Load()
		if entry != 0 && s.checks[i].Load()^entry>>1 == hash {
			return i, entry
		}
	}
	return 0, 0
}

// get fills in the row id of each user, by position; 0 for those that are not held.
func (t *idTable) get(users []models.UserID, rows []models.RowID) {
	var sets [readAhead]*idSet
	var hashes [readAhead]uint64
	for len(users) > 0 {
		n := min(len(users), readAhead)
		for i, user := range users[:n] {
			sets[i], hashes[i] = t.locate(user)
		}
		// This only brings the sets into the processor's caches. Without a use of the
		// results, the compiler would leave out the reads.
		for i, set := range sets[:n] {
			rows[i] = models.RowID(set.entries[0].Load())
		}
		for i, set := range sets[:n] {
			at, entry := set.find(hashes[i])
			rows[i] = models.RowID(entry >> 1)
			if entry != 0 {
				markUsed(&set.entries[at], entry)
			}
		}
		users, rows = users[n:], rows[n:]
	}
}

// put holds a user's row id.
func (t *idTable) put(user models.UserID, row models.RowID) {
	set, hash := t.locate(user)
	t.mu.Lock()
	defer t.mu.Unlock()
	at, entry := set.find(hash)
	if entry == 0 {
		t.hand = (t.hand + 1) % idWays
		at = freeEntry(set.entries[:], t.hand)
	}
	set.entries[at].Store(uint64(row) << 1)
	set.checks[at].Store(hash ^ uint64(row))
}
