package models

import "time"

// ArchiveState is how far a run of an archival has come.
type ArchiveState string

// The states of a run.
const (
	// ArchiveRunning is a run under way, or one whose process has died: the
	// next one takes it up.
	ArchiveRunning ArchiveState = "running"
	// ArchiveFailed is a run that ended with an error; the next one takes it up.
	ArchiveFailed ArchiveState = "failed"
	// ArchiveComplete is a run whose entries are in the archive, verified.
	ArchiveComplete ArchiveState = "complete"
)

// ArchiveRun is one run of a bucket's archival. Run 1 moves the bucket; later
// ones merge what came after it.
type ArchiveRun struct {
	// ID orders runs by when they were first begun.
	ID     int64
	Board  string
	Bucket string
	Run    int
	Shards int
	State  ArchiveState
	// Attempts is how often the run was begun.
	Attempts int
	// Moved is how many entries were read from Redis so far.
	Moved int64
	// Entries, ScoreSum and Hash are those of the whole bucket in the archive
	// as the run left it; 0 until it is complete.
	Entries    int64
	ScoreSum   int64
	Hash       int64
	StartedAt  time.Time
	FinishedAt *time.Time
	// Error says why the run failed; empty for other states.
	Error string
}

// TableName is the runs' table.
func (ArchiveRun) TableName() string { return "board_archives" }
