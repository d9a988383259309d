package directory

import "sync/atomic"

// Stats counts the work of this process.
type Stats struct {
	// IDs counts the user ids that were looked up, Records the records that were
	// read, each by the level that had them.
	IDs, Records Levels
	// Queries counts the statements by which calls have looked up users, created them
	// or read records; Created counts the users that were created.
	Queries, Created atomic.Int64
}

// Levels counts lookups by the level at which they ended. Lookups of users that do
// not exist end in SQL.
type Levels struct {
	Process, Redis, SQL atomic.Int64
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }
