package directory

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"stepboard/models"
)

const (
	// ways is the number of records that a set has room for.
	ways = 4
	// setBytes is the size of a set: a cache line.
	setBytes = ways * 16
	// recordOverhead is the bytes of a record beside its texts, and allocationWaste is
	// the part of the texts that the allocator adds to them.
	recordOverhead  = 112
	allocationWaste = 16
	// usualRecord is the bytes of a usual record. It determines the number of sets:
	// usual records fill them by a half or more.
	usualRecord = recordOverhead + 160
)

// recordTable holds records of users that were shown, up to a number of bytes. Those
// that were not used lately go first.
//
// A row id belongs to the set of its last bits. So row ids, which have no large gaps,
// fill the sets evenly, and finding a record takes no hashing and no lock: only the
// set and the record are read, of which each is a miss of the processor's caches in a
// large table. Safe for concurrent use.
type recordTable struct {
	sets []recordSet // as many as a power of two

	mu   sync.Mutex // held by writers
	room int64      // bytes that are left for records
	hand int        // the set at which the search for unused records continues
}

// recordSet is the place of up to four records. rows has the row id of each, so that
// only a record that is asked for is read.
type recordSet struct {
	rows    [ways]atomic.Int64
	records [ways]atomic.Pointer[heldRecord]
}

// heldRecord is a record that nobody changes any more.
type heldRecord struct {
	models.Record
	bytes int64 // in memory
	// used reports whether the record was read since the last search for unused ones.
	used atomic.Bool
}

func newRecordTable(bytes int64) *recordTable {
	t := &recordTable{sets: make([]recordSet, 1<<bits.Len64(uint64(bytes/(ways*usualRecord))))}
	t.room = bytes - int64(len(t.sets))*setBytes
	return t
}

func (t *recordTable) setOf(row models.RowID) *recordSet { return &t.sets[int(row)&(len(t.sets)-1)] }

// find returns the way of a set that has a row's record, and the record; nil if it is
// not held.
func (s *recordSet) find(row models.RowID) (way int, held *heldRecord) {
	for way := range s.rows {
		if s.rows[way].Load() != int64(row) {
			continue
		}
		// A writer may be replacing the record by that of another row.
		if held := s.records[way].Load(); held != nil && held.Row == row {
			return way, held
		}
	}
	return 0, nil
}

// get returns a user's record, which must not be changed; nil if it is not held.
func (t *recordTable) get(row models.RowID) *models.Record {
	_, held := t.setOf(row).find(row)
	if held == nil {
		return nil
	}
	if !held.used.Load() {
		held.used.Store(true)
	}
	return &held.Record
}

// put holds a record, unless one as new is held, and returns the held one.
func (t *recordTable) put(r models.Record) *models.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.setOf(r.Row)
	way, held := set.find(r.Row)
	switch {
	case held == nil:
		way = t.freeWay(set)
	case held.Version >= r.Version:
		return &held.Record
	}
	return t.store(set, way, r)
}

// replace replaces the user's record, if it is held and older.
func (t *recordTable) replace(r models.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.setOf(r.Row)
	if way, held := set.find(r.Row); held != nil && held.Version < r.Version {
		t.store(set, way, r)
	}
}

// store puts a record in a way of a set, in place of the one there, and makes room for
// it.
func (t *recordTable) store(set *recordSet, way int, r models.Record) *models.Record {
	added := &heldRecord{Record: r}
	texts := int64(added.Encode())
	added.bytes = recordOverhead + texts + texts/allocationWaste
	t.room -= added.bytes
	if replaced := set.records[way].Swap(added); replaced != nil {
		t.room += replaced.bytes
	}
	set.rows[way].Store(int64(r.Row))
	for t.room < 0 {
		t.removeUnused(&t.sets[t.hand])
		t.hand = (t.hand + 1) & (len(t.sets) - 1)
	}
	return &added.Record
}

// freeWay returns a way of the set without a record, or else one whose record was not
// used lately, or else any.
func (t *recordTable) freeWay(set *recordSet) int {
	unused := t.hand % ways
	for way := range set.records {
		switch held := set.records[way].Load(); {
		case held == nil:
			return way
		case !held.used.Load():
			unused = way
		}
	}
	return unused
}

// removeUnused removes the records of a set that were not used since the last time.
func (t *recordTable) removeUnused(set *recordSet) {
	for way := range set.records {
		if held := set.records[way].Load(); held != nil && !held.used.Swap(false) {
			set.rows[way].Store(0)
			set.records[way].Store(nil)
			t.room += held.bytes
		}
	}
}
