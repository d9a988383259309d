package models

import "cmp"

// Composite packs a score and the time at which it was reached into one whole
// number below 2^53. A larger composite ranks before a smaller one; 0 means no
// score. services/boards/score encodes and decodes it.
type Composite int64

// Entry is a user's score in a bucket.
type Entry struct {
	User      RowID
	Composite Composite
}

// Compare returns a negative number if e ranks before other, a positive one if it
// ranks after it, and 0 for the same entry. Every store and every response uses this
// order: the larger composite first; on equal composites the row id as decimal
// text, bytewise descending.
func (e Entry) Compare(other Entry) int {
	if c := cmp.Compare(other.Composite, e.Composite); c != 0 {
		return c
	}
	return other.User.CompareText(e.User)
}

// Before reports whether e ranks before other. It is Compare in a form that the compiler inlines.
func (e Entry) Before(other Entry) bool {
	return e.Composite > other.Composite || e.Composite == other.Composite && e.User.CompareText(other.User) > 0
}

// EntryKey says which of the keys with entries of a shard of a bucket is meant.
type EntryKey string

// The keys with entries of a shard.
const (
	// KeyBoard is what readers see.
	KeyBoard EntryKey = ""
	// KeyLate holds updates that were applied after the bucket had turned cold.
	KeyLate EntryKey = "late"
	// KeyReported holds updates of users while a correction of their scores holds.
	KeyReported EntryKey = "reported"
)

// EntryKeys returns all keys with entries of a shard.
func EntryKeys() []EntryKey { return []EntryKey{KeyBoard, KeyLate, KeyReported} }

// Raise is one update of a bucket: it sets the user's composite unless the stored
// one is larger. Raises may be repeated and applied in any order.
type Raise struct {
	Bucket *Bucket
	Entry
}

// CorrectedEntry is what a correction makes of a user's entry in a bucket in Redis.
type CorrectedEntry struct {
	Bucket *Bucket
	User   RowID
	// Composite is the entry that the correction puts on the board; 0 for an excluded
	// user.
	Composite Composite
	// Before is the entry that the user had when the correction was made, or 0. The user
	// has reported this or more.
	Before Composite
	// Lifted reports that the correction holds no more, so that what was reported counts.
	Lifted bool
}

// Lowering replaces an entry of a BoardPart by a smaller one, or removes it.
type Lowering struct {
	// Stored is the entry that is replaced. If the part has another composite of the
	// user by now, nothing changes.
	Stored Entry
	// Composite is the one that replaces it; 0 removes the entry.
	Composite Composite
}

// BoardPart is the part of a bucket of the ledger that holds one running total of
// each user of a shard.
type BoardPart struct {
	Bucket *Bucket
	Shard  int
	// Hour is the hour of the totals in a rolling bucket, otherwise 0.
	Hour Hour
}

// Total returns the name of the running totals.
func (p BoardPart) Total() string {
	if p.Bucket.WindowHours > 0 {
		return p.Hour.String()
	}
	return p.Bucket.Name
}

// FrozenPart is a part of a bucket that an archival run has set apart, so that no
// update changes it any more.
type FrozenPart struct {
	Shard int
	Run   int
	// Of is the key that was frozen.
	Of EntryKey
	// Entries is the number of entries in it.
	Entries int64
}
