package models

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
