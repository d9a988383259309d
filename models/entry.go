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
