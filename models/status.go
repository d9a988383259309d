package models

import "time"

// Process is a running process of the service as it has last reported itself.
type Process struct {
	// ID is random and new at each start.
	ID      string `gorm:"primaryKey"`
	Host    string
	Version string
	// Roles are separated by commas, such as "api,jobs".
	Roles     string
	StartedAt time.Time
	// SeenAt is the time of the report.
	SeenAt time.Time
	// Streams is how many streams of rankings were open.
	Streams int64
	// Refused is how many calls were refused by a rate limit in about the last minute.
	Refused int64
}

// TableName returns the name of the table of processes.
func (Process) TableName() string { return "processes" }

// ProcessMinute holds what a process has counted in a minute.
type ProcessMinute struct {
	// Minute is when it began, and Process the id of the process.
	Minute  time.Time `gorm:"primaryKey"`
	Process string    `gorm:"primaryKey"`
	// Calls is how many calls of the API were answered, without streams and exports, and Refused how
	// many calls were refused by a rate limit.
	Calls, Refused int64
	// Latency has the calls by how long they took: those up to each bound of the histogram and
	// above the bound before, and last those above all bounds.
	Latency []int64 `gorm:"serializer:json"`
	// QueueMS is how long the oldest message in the queue had waited at the minute's end, in milliseconds.
	QueueMS int64
}

// TableName returns the name of the table of the minutes of processes.
func (ProcessMinute) TableName() string { return "process_minutes" }

// JobRun holds when a job ran, on any process. The times are nil for never.
type JobRun struct {
	Name        string     `gorm:"primaryKey"`
	StartedAt   *time.Time // of the last run that has ended
	SucceededAt *time.Time // of the end of the last run that succeeded
	FailedAt    *time.Time // of the end of the last run that failed
	// Error is the reason of the last failure, for operators; empty for none.
	Error string
}

// TableName returns the name of the table of jobs.
func (JobRun) TableName() string { return "job_runs" }
