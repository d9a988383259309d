package directory

import "sync/atomic"

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
