package models

import "time"

// ScoreEvent is an increment that was counted. Its key is the board and the event
// id, so that the same id counts once.
type ScoreEvent struct {
	Board   string `gorm:"primaryKey"`
	EventID string `gorm:"primaryKey"`
	// Total names the running total that it was added to: "event" on an event
	// board, an hour such as 2026112013 on a rolling board.
	Total string
	User  RowID `gorm:"column:user_id"`
	// Delta is what it adds or, where the best counts, its result; in points, as scores are here.
	Delta int64
	// AcceptedAt is the server's time when it was accepted.
	AcceptedAt time.Time
	// Score and ReachedAt are those of the first response: the score that the
	// increment led to, and when.
	Score     int64
	ReachedAt time.Time
}

// TableName returns the name of the table of increments.
func (ScoreEvent) TableName() string { return "score_events" }

// ScoreTotal is a user's running total: the sum of the increments that were
// added to it, or the best of them.
type ScoreTotal struct {
	Board string `gorm:"primaryKey"`
	User  RowID  `gorm:"primaryKey;column:user_id"`
	// Total identifies the total among those of the user on the board; see
	// ScoreEvent.Total. On a rolling board the bucket's name identifies the sum of
	// all increments.
	Total string `gorm:"primaryKey"`
	Score int64
	// ReachedAt is when the latest increment above 0 occurred; if all are 0, the earliest. Where the
	// best counts, it is when that was reached first.
	ReachedAt time.Time
}

// TableName returns the name of the table of running totals.
func (ScoreTotal) TableName() string { return "score_totals" }

// TotalRange is a range of running totals of each user of a bucket: the totals
// that make up a score.
type TotalRange struct {
	// Bucket is the bucket that the totals raise.
	Bucket *Bucket
	// Total names the last total of the range. Increments are added to it.
	Total string
	// Since names the first total of the range: the first hour of a rolling board's
	// window. On an event board it equals Total.
	Since string
}
