package models

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
