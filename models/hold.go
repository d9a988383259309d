package models

import "time"

// HoldState says what has become of a held total.
type HoldState string

// The states of held totals.
const (
	// HoldOpen waits for an operator.
	HoldOpen HoldState = "open"
	// HoldRejected does not count, and may be released later.
	HoldRejected HoldState = "rejected"
	// HoldReleased counts, and so do all later totals of its user and bucket.
	HoldReleased HoldState = "released"
)

// Hold is the largest total above its board's HoldAbove that a user has uploaded for a bucket. A
// released one no longer changes.
type Hold struct {
	ID     int64
	Board  string
	Bucket string
	Day    Date
	Row    RowID `gorm:"column:user_id"`
	Score  int64
	// ReachedAt is when Score was uploaded, in milliseconds, whatever the bucket's resolution is.
	ReachedAt time.Time
	// HeldAt is when the first total was held.
	HeldAt time.Time
	State  HoldState
	// DecidedAt is nil while the hold is open. The fields up to Message are empty then.
	DecidedAt *time.Time
	DecidedBy UserID
	Reason    string
	// Message is for the user; it may be empty.
	Message string
	// WrittenAt is when the writer of uploads had taken a released total; nil before.
	WrittenAt *time.Time

	// User and Nickname are those of the user, empty if no such user exists. They are not stored.
	User     UserID `gorm:"-"`
	Nickname string `gorm:"-"`
	// Counting is the user's score in the bucket that is shown now, nil without one. It is not stored.
	Counting *int64 `gorm:"-"`
}

// TableName returns the name of the table of held totals.
func (Hold) TableName() string { return "held_scores" }

// Cursor returns the position in a list that is ordered by id.
func (h Hold) Cursor() Cursor { return Cursor{Key: h.ID} }
