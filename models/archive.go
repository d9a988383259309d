package models

import "time"

// ArchiveState is the state of one run of an archival.
type ArchiveState string

// The states of a run.
const (
	// ArchiveRunning is a run under way, or one whose process has died. The next
	// process resumes it.
	ArchiveRunning ArchiveState = "running"
	// ArchiveFailed is a run that ended with an error. The next one resumes it.
	ArchiveFailed ArchiveState = "failed"
	// ArchiveComplete is a run whose entries are in the archive and verified.
	ArchiveComplete ArchiveState = "complete"
)

// ArchiveRun is one run of a bucket's archival. Run 1 moves the bucket. Later runs
// merge entries that came after it.
type ArchiveRun struct {
	// ID orders runs by their first start.
	ID     int64
	Board  string
	Bucket string
	Run    int
	Shards int
	State  ArchiveState
	// Attempts is how often the run was started.
	Attempts int
	// Moved is the number of entries that were read from Redis so far.
	Moved int64
	// Entries, PointsSum and Hash describe the whole bucket in the archive after the
	// run. They are 0 until it is complete.
	Entries    int64
	PointsSum  Points `gorm:"column:score_sum"`
	Hash       int64
	StartedAt  time.Time
	FinishedAt *time.Time
	// Error is the reason why the run failed; empty in other states.
	Error string
}

// TableName returns the name of the table of runs.
func (ArchiveRun) TableName() string { return "board_archives" }

// Cursor returns the position in a list that is ordered by id.
func (a ArchiveRun) Cursor() Cursor { return Cursor{Key: a.ID} }
