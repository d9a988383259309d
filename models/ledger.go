package models

import "time"

// ScoreEvent is an increment that was counted. Its key is the board and the
// event's id: the same id counts once.
type ScoreEvent struct {
	Board   string `gorm:"primaryKey"`
	EventID string `gorm:"primaryKey"`
	// Total is the running total that it was added to: the bucket of an event,
	// an hour such as 2026112013 of a rolling board.
	Total string
	User  UserID `gorm:"column:user_id"`
	Delta int64
	// AcceptedAt is the server's time on accepting it.
	AcceptedAt time.Time
	// Score and ReachedAt are what it led to, as it was answered.
	Score     int64
	ReachedAt time.Time
}

// TableName is the increments' table.
func (ScoreEvent) TableName() string { return "score_events" }

// ScoreTotal is a user's running total: the sum of the increments that were
// added to it.
type ScoreTotal struct {
	Board string `gorm:"primaryKey"`
	User  UserID `gorm:"primaryKey;column:user_id"`
	// Total tells the totals of a user on a board apart; as of ScoreEvent.
	Total string `gorm:"primaryKey"`
	Score int64
	// ReachedAt is when it was increased last. It never goes backwards.
	ReachedAt time.Time
}

// TableName is the running totals' table.
func (ScoreTotal) TableName() string { return "score_totals" }

// TotalRange is where an increment counts.
type TotalRange struct {
	// Bucket is what is raised.
	Bucket *Bucket
	// Total names the running total that the increment is added to.
	Total string
	// Since names the first running total that counts for the user's score
	// together with Total: the first hour of a rolling board's window. Of an
	// event it is Total itself.
	Since string
}
