package models

import "time"

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
