package directory

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
