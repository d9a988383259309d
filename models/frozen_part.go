package models

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
