package models

import "time"

// DeadLetter is an update that was accepted and can't be applied: its bucket
// is gone or can't hold it, or its bytes are no update.
type DeadLetter struct {
	ID int64
	// Position names the message in its queue, so that it is kept once.
	Position string
	// Reason says why it can't be applied, to a person.
	Reason string
	// Payload is the message as it was.
	Payload []byte
	// QueuedAt is when it was appended to the queue, and FailedAt when it could
	// not be applied.
	QueuedAt time.Time
	FailedAt time.Time
}

// TableName is the dead letters' table.
func (DeadLetter) TableName() string { return "dead_letters" }
