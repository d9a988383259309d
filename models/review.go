package models

import "time"

// Review is a score above its board's ReviewAbove, for an operator to look at. A user has
// at most one open review in a bucket. A dismissed one stays as it is; if the score rises
// further, another one follows.
type Review struct {
	ID     int64
	Board  string
	Bucket string
	// Date is the day of the bucket; nil if the board's buckets are not days.
	Date *Date
	Row  RowID `gorm:"column:user_id"`
	// Score is the highest one that was found, or the one up to which the review was
	// dismissed.
	Score int64
	// ReachedAt is when the highest one was reached.
	ReachedAt time.Time
	// FirstSeenAt is when a score of the review was first found.
	FirstSeenAt time.Time
	// DismissedAt is nil while the review is open. The fields below are empty then.
	DismissedAt *time.Time
	DismissedBy UserID
	// DismissReason may be empty.
	DismissReason string

	// User and Nickname are those of the user, empty if no such user exists. They are not stored.
	User     UserID `gorm:"-"`
	Nickname string `gorm:"-"`
}

// TableName returns the name of the table of reviews.
func (Review) TableName() string { return "reviews" }

// Cursor returns the position in a list that is ordered by id.
func (r Review) Cursor() Cursor { return Cursor{Key: r.ID} }
