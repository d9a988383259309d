package models

import "time"

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
