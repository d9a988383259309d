package directory

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"stepboard/models"
)

const (
	// recordWays is the number of records that a set has room for: a cache line.
	recordWays = 8
	// slabBytes is the size of a slab.
	slabBytes = 64 << 10
	// longestHeld is the length of the longest record that is held, in bytes. With its
	// own length it takes an eighth of a slab. Profiles are shorter.
	longestHeld = slabBytes/8 - binary.MaxVarintLen64
	// usualRecord is the bytes of a usual record in a slab. It determines the number of
	// sets: usual records fill them by usualWays of recordWays.
	usualRecord = 56
	usualWays   = 6
	// beginsShare is the part of the memory that beginnings of avatars take at most.
	beginsShare = 64
)

// recordTable holds records of users that were shown, up to a number of bytes. Those
// that were not used lately go first.
//
// Records are in slabs, one after the other, as appendHeld encodes them. What was written
// to a slab is never changed, so records that were returned may refer to it. If there is no
// room, the records of the oldest slab that were used since they were written are copied to
// the newest one, and the garbage collector frees the slab when nobody refers to it.
//
// The sets have an entry of 8 bytes for each record: where it is, and whose it is. There are
// no pointers in sets and slabs, so the garbage collector does not look into them. A row id
// belongs to the set of its remainder: row ids, which have no large gaps, fill the sets
// evenly. Finding a record takes no hashing and no lock, and reads the set and the record,
// of which each is a miss of the processor's caches in a large table.
// Safe for concurrent use.
type recordTable struct {
	sets []recordSet
	// slabs has nil for slabs that were removed. At least one is nil, except while it
	// becomes the newest.
	slabs []atomic.Pointer[slab]
	// placeBits is the number of bits of a place in the slabs.
	placeBits int
	begins    *begins

	mu     sync.Mutex // held by writers
	newest int        // the slab that is being filled
	filled int        // bytes of it
	hand   int        // the entry at which the search for an unused one begins
	buf    []byte     // the record that is being written
}

// recordSet has the entries of up to eight records. From the highest bit on, an entry
// consists of the row id divided by the number of sets, the place of the record in the
// slabs, in bytes, and the bit used. It is 0 if it is empty: no record is at place 0.
type recordSet [recordWays]atomic.Uint64

// slab has records, each after its length as a uvarint, and zeros. The first byte is 0.
type slab [slabBytes]byte

func newRecordTable(bytes int64) *recordTable {
	const setBytes, setRecords = recordWays * 8, usualRecord * usualWays
	t := &recordTable{begins: newBegins(bytes / beginsShare), filled: 1}
	bytes -= bytes / beginsShare
	// With one set for 336 bytes of slabs, the parts of an entry take at most 64 bits.
	t.slabs = make([]atomic.Pointer[slab], max(2, bytes*setRecords/(setRecords+setBytes)/slabBytes))
	t.sets = make([]recordSet, len(t.slabs)*slabBytes/setRecords)
	t.placeBits = bits.Len(uint(len(t.slabs)*slabBytes - 1))
	t.slabs[0].Store(new(slab))
	return t
}

// locate returns the set of a row id, and what identifies the row id in it.
func (t *recordTable) locate(row models.RowID) (set *recordSet, tag uint64) {
	n := uint64(len(t.sets))
	return &t.sets[uint64(row)%n], uint64(row) / n
}

// find returns the position of an entry, and its value; 0 if the record is not held.
func (t *recordTable) find(set *recordSet, tag uint64) (at int, entry uint64) {
	for i := range set {
		if entry := set[i].Load(); entry>>(t.placeBits+1) == tag && entry != 0 {
			return i, entry
		}
	}
	return 0, 0
}

// entry returns the entry of a record.
func (t *recordTable) entry(tag uint64, place int) uint64 {
	return tag<<(t.placeBits+1) | uint64(place)<<1
}

// open returns the slab and the offset of an entry's record; nil if it is no longer there.
func (t *recordTable) open(entry *atomic.Uint64, value uint64) (s *slab, offset int) {
	place := int(value >> 1 & (1<<t.placeBits - 1))
	s = t.slabs[place/slabBytes].Load()
	// A writer removes the entries of a slab before the slab, and adds another slab at its
	// index afterwards. So as long as the entry is the same, this is its slab.
	if (entry.Load()^value)&^used != 0 {
		return nil, 0
	}
	return s, place % slabBytes
}

// span returns where the record after the length at an offset begins and ends. Both are
// the same if none was written there.
func (s *slab) span(at int) (begin, end int) {
	n, size := binary.Uvarint(s[at:])
	return at + size, at + size + int(n)
}

// record returns the record between two offsets.
func (s *slab) record(begin, end int) string {
	return unsafe.String(&s[begin], end-begin) //nolint:gosec // what was written to a slab never changes
}

// get fills in the record of each row id, by position; one without a user id for those
// that are not held.
func (t *recordTable) get(rows []models.RowID, records []models.PublicRecord) {
	var (
		sets    [readAhead]*recordSet
		tags    [readAhead]uint64
		slabs   [readAhead]*slab
		offsets [readAhead]int
		texts   [readAhead]string
	)
	for len(rows) > 0 {
		n := min(len(rows), readAhead)
		// Each loop brings what the next one reads into the processor's caches.
		for i, row := range rows[:n] {
			sets[i], tags[i] = t.locate(row)
			sets[i][0].Load()
		}
		for i := range rows[:n] {
			slabs[i] = nil
			if at, entry := t.find(sets[i], tags[i]); entry != 0 {
				slabs[i], offsets[i] = t.open(&sets[i][at], entry)
				markUsed(&sets[i][at], entry)
			}
		}
		// Without a use of the results, the compiler would leave out the reads.
		for i, slab := range slabs[:n] {
			records[i].Plain = slab != nil && slab[offsets[i]] == 0
		}
		for i, slab := range slabs[:n] {
			texts[i] = ""
			if slab != nil {
				begin, end := slab.span(offsets[i])
				texts[i] = slab.record(begin, end)
				records[i].Plain = slab[end-1] == 0
			}
		}
		begins := *t.begins.list.Load() // with those of the texts
		for i, text := range texts[:n] {
			decodeHeld(text, begins, &records[i])
		}
		rows, records = rows[n:], records[n:]
	}
}

// put holds a record, unless one as new is held, and returns the newer one.
func (t *recordTable) put(r models.Record) models.PublicRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, version, ok := t.held(r.Row); ok && version >= r.Version {
		return held
	}
	t.store(&r)
	return r.Public()
}

// replace replaces the user's record, if it is held and older.
func (t *recordTable) replace(r models.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, version, ok := t.held(r.Row); ok && version < r.Version {
		t.store(&r)
	}
}

// remove removes a user's record.
func (t *recordTable) remove(row models.RowID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	set, tag := t.locate(row)
	if at, entry := t.find(set, tag); entry != 0 {
		set[at].Store(0)
	}
}

// held returns a user's record and its version; false if it is not held.
func (t *recordTable) held(row models.RowID) (r models.PublicRecord, version int64, ok bool) {
	set, tag := t.locate(row)
	at, entry := t.find(set, tag)
	if entry == 0 {
		return r, 0, false
	}
	slab, offset := t.open(&set[at], entry)
	if slab == nil {
		return r, 0, false
	}
	_, version, ok = decodeHeld(slab.record(slab.span(offset)), *t.begins.list.Load(), &r)
	return r, version, ok
}

// store holds a record in place of an older one of the user. It holds none that is too
// long.
func (t *recordTable) store(r *models.Record) {
	begin, number := t.begins.split(r.Row, r.AvatarURL)
	t.buf = appendHeld(t.buf[:0], r, begin, number)
	var entry uint64
	set, tag := t.locate(r.Row)
	if len(t.buf) <= longestHeld {
		entry = t.entry(tag, t.write(t.buf))
	}
	at, older := t.find(set, tag) // after write, which may remove records
	if older == 0 && entry == 0 {
		return
	}
	if older == 0 {
		t.hand = (t.hand + 1) % recordWays
		at = freeEntry(set[:], t.hand)
	}
	set[at].Store(entry)
}

// write writes a record to the newest slab, and returns its place.
func (t *recordTable) write(record []byte) (place int) {
	if t.filled+binary.MaxVarintLen64+len(record) > slabBytes {
		t.addSlab()
	}
	slab := t.slabs[t.newest].Load()
	place = t.newest*slabBytes + t.filled
	t.filled += binary.PutUvarint(slab[t.filled:], uint64(len(record)))
	t.filled += copy(slab[t.filled:], record)
	return place
}

// addSlab begins another slab, and removes the oldest one if there is no room for the next.
func (t *recordTable) addSlab() {
	t.newest = (t.newest + 1) % len(t.slabs)
	t.slabs[t.newest].Store(new(slab))
	t.filled = 1
	if oldest := (t.newest + 1) % len(t.slabs); t.slabs[oldest].Load() != nil {
		t.removeSlab(oldest)
	}
}

// removeSlab removes a slab. It copies records that were used to the newest slab, which is
// empty, up to seven eighths of it: so there is always room for the longest record.
func (t *recordTable) removeSlab(index int) {
	slab := t.slabs[index].Load()
	begins := *t.begins.list.Load()
	var record models.PublicRecord
	for at := 1; at < slabBytes; {
		begin, end := slab.span(at)
		if begin == end {
			break
		}
		row, _, _ := decodeHeld(slab.record(begin, end), begins, &record)
		set, tag := t.locate(row)
		place := index*slabBytes + at
		at = end
		switch i, entry := t.find(set, tag); {
		case entry&^used != t.entry(tag, place):
			// It was replaced or removed.
		case entry&used != 0 && t.filled+binary.MaxVarintLen64+end-begin <= slabBytes*7/8:
			set[i].Store(t.entry(tag, t.write(slab[begin:end])))
		default:
			set[i].Store(0)
		}
	}
	t.slabs[index].Store(nil)
}

// used is the bit of an entry that was read since the last search for unused entries.
const used = 1

// markUsed marks an entry with the given value as used, unless a writer has replaced it.
func markUsed(entry *atomic.Uint64, value uint64) {
	if value&used == 0 {
		entry.CompareAndSwap(value, value|used)
	}
}

// freeEntry returns the position of an empty entry of a set, which is 0, or else of one
// that was not used lately. If all were used, they count as unused from now on, and it
// returns the hand. The hand, a position, should be another one each time.
func freeEntry(set []atomic.Uint64, hand int) int {
	unused := -1
	for i := range set {
		at := (hand + i) % len(set)
		value := set[at].Load()
		if value == 0 {
			return at
		}
		if value&used == 0 && unused < 0 {
			unused = at
		}
	}
	if unused >= 0 {
		return unused
	}
	for i := range set {
		set[i].And(^uint64(used))
	}
	return hand
}

// idShare is the part of the memory that row ids of callers take; records take the rest.
const idShare = 4

// memory holds copies in the process: row ids of users that have called, and records
// of users that were shown. Those that were used least lately go first.
type memory struct {
	ids     *idTable
	records *recordTable
}

// newMemory returns a memory of at most the given number of bytes.
func newMemory(bytes int64) *memory {
	return &memory{ids: newIDTable(bytes / idShare), records: newRecordTable(bytes - bytes/idShare)}
}
