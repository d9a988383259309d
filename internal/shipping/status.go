package shipping

import "time"

// Status is how the copies stand.
type Status struct {
	// Generation is the number of the own one, and State that of what was collected last.
	Generation, State uint64
	// Whole reports that the generation has a full copy: without one nothing can be restored.
	Whole bool
	// Behind is for how long something may be committed that could not be restored.
	Behind time.Duration
	// WaitingBytes is the size of the changes that wait in the data folder.
	WaitingBytes int64
	// ShippedAt is when the target got changes last, and FullAt when the last full copy ended; zero
	// for never since the start.
	ShippedAt, FullAt time.Time
	// Superseded reports that another process has begun a later generation: nothing is shipped.
	Superseded bool
	// Err is the error of the last round, if any.
	Err error
	// Counters since the start: objects that were created, their bytes, rounds with an error, and
	// rounds in which something could not be deleted.
	Objects, ObjectBytes, Errors, DeleteErrors int64
}
