package models

// Raise is one update of a bucket: it sets the user's composite unless the stored
// one is larger. Raises may be repeated and applied in any order.
type Raise struct {
	Bucket *Bucket
	Entry
}
