package models

import "time"

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
