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
