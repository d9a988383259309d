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

// AuditEntry is an action that an operator has taken or tried to take, a row of table
// audit_log.
type AuditEntry struct {
	ID int64 `gorm:"primaryKey"`
	At time.Time
	// Actor is the operator: the token's subject, or who is named to a command.
	Actor string
	// Action is the id of the API's operation, or the name of the command.
	Action string
	// Board and Bucket name what the action concerns; empty if it concerns neither.
	Board  string
	Bucket string
	// Target is anything else that the action concerns, such as the id of a dead letter.
	Target string
	// Reason is the one that the operator has given, if the action takes one.
	Reason string
	// RequestID is the request's id in the service's log; empty for commands.
	RequestID string
	// Outcome is empty while the action runs, and if its process has died meanwhile;
	// OutcomeDone, or the code of an error.
	Outcome string
}

// Cursor returns the position in a list that is ordered by id.
func (e AuditEntry) Cursor() Cursor { return Cursor{Key: e.ID} }

// OutcomeDone is the outcome of an action that has succeeded.
const OutcomeDone = "done"

// DeadLetter is an accepted update that can't be applied: its bucket is gone or
// can't hold it, or its bytes are not an update.
type DeadLetter struct {
	ID int64
	// Position identifies the message, so that it is stored once: its position in
	// its queue, the time when it was appended, and a hash of its payload.
	Position string
	// Reason says for people why it can't be applied.
	Reason string
	// Board and Bucket are those of the update; empty if it can't be decoded.
	Board  string
	Bucket string
	// Payload is the unchanged message.
	Payload []byte
	// QueuedAt is when it was appended to the queue, and FailedAt when it could
	// not be applied.
	QueuedAt time.Time
	FailedAt time.Time
	// Update is the update in the payload; nil if it can't be decoded. It is not stored.
	Update *QueuedUpdate `gorm:"-"`
}

// QueuedUpdate is an accepted upload as operators see it: a user's total in a bucket
// and when it was reached.
type QueuedUpdate struct {
	Board  string
	Bucket string
	// User and Nickname are empty if no such user exists.
	User      UserID
	Nickname  string
	Score     int64
	ReachedAt Timestamp
}

// TableName returns the name of the table of dead letters.
func (DeadLetter) TableName() string { return "dead_letters" }

// Cursor returns the position in a list that is ordered by id.
func (l DeadLetter) Cursor() Cursor { return Cursor{Key: l.ID} }
