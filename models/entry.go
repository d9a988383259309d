package models

import "cmp"

// Composite packs a score and the time at which it was reached into one whole
// number below 2^53, so that a larger composite is a better place. Zero means
// "no score". services/score reads and writes it.
type Composite int64

// Entry is a user's standing in a bucket.
type Entry struct {
	User      UserID
	Composite Composite
}

// Compare answers a negative number if e ranks before other, a positive one
// if it ranks behind, 0 for the same entry. It is the ranking order of every
// store and every answer: larger composite first; on equal composites the
// user id as decimal text, bytewise descending.
func (e Entry) Compare(other Entry) int {
	if c := cmp.Compare(other.Composite, e.Composite); c != 0 {
		return c
	}
	return other.User.CompareText(e.User)
}

// Raise is one update on its way to a bucket: set the user's composite unless
// a larger one stands there already. Applying it again, or in any order,
// changes nothing.
type Raise struct {
	Bucket *Bucket
	Entry
}

// Profile is what others see of a user.
type Profile struct {
	Nickname  string
	AvatarURL string
}

// FrozenPart is a part of a bucket that a run of its archival has set aside.
type FrozenPart struct {
	Shard int
	Run   int
	// Late says that it was applied after the bucket had turned cold.
	Late bool
	// Entries is the number of entries in it.
	Entries int64
}
