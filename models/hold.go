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

// CorrectionKind says what a correction makes of a score.
type CorrectionKind string

// The kinds of corrections.
const (
	// CorrectionSet replaces the score by one that does not rank before it.
	CorrectionSet CorrectionKind = "set"
	// CorrectionExclude removes the user from the ranking.
	CorrectionExclude CorrectionKind = "exclude"
)

// MaxMessage is how many characters an operator's message to a user may have.
const MaxMessage = 200

// Correction is an operator's decision about a user's score. It holds until it is lifted,
// whatever is reported meanwhile.
type Correction struct {
	ID    int64
	Board string
	// Bucket is the name of the bucket. If it is nil, the correction is an exclusion from
	// all buckets from Day on.
	Bucket *string
	// Day is the day of the bucket, or the first day of an exclusion without one.
	Day Date
	// UntilDay is set when an exclusion without a bucket is lifted: the last day of which
	// any process may have kept reports from the board.
	UntilDay *Date
	User     RowID `gorm:"column:user_id"`
	Kind     CorrectionKind
	// Points and ReachedAt are the entry that CorrectionSet puts on the board; nil
	// otherwise.
	Points    *Points `gorm:"column:score"`
	ReachedAt *time.Time
	// Reason and Actor say why it was made, and by whom.
	Reason string
	Actor  string
	// Message is what the user is told: plain text of at most MaxMessage characters; may be empty.
	Message string
	// BeforePoints and BeforeAt are the user's entry in the bucket of Day when the
	// correction was made; nil if there was none.
	BeforePoints *Points `gorm:"column:before_score"`
	BeforeAt     *time.Time
	CreatedAt    time.Time
	// LiftedAt is nil while the correction holds.
	LiftedAt   *time.Time
	LiftedBy   string
	LiftReason string
	// Hot reports whether a bucket that it concerns may be in Redis.
	Hot bool
}

// TableName returns the name of the table of corrections.
func (Correction) TableName() string { return "corrections" }

// Cursor returns the position in a list that is ordered by id.
func (c Correction) Cursor() Cursor { return Cursor{Key: c.ID} }

// Concerns reports whether the correction is about a bucket, whether or not it holds.
func (c *Correction) Concerns(b *Bucket) bool {
	switch {
	case c.Board != b.Board:
		return false
	case c.Bucket != nil:
		return *c.Bucket == b.Name
	default:
		return b.Day >= c.Day && (c.UntilDay == nil || b.Day <= *c.UntilDay)
	}
}
