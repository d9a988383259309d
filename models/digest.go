package models

import "time"

// Digest is the progress of telling the users of a board how a day went.
type Digest struct {
	Board string `gorm:"primaryKey"`
	Day   Date   `gorm:"primaryKey"`
	// LastUser is the last user who was worked on, in the order of rows.
	LastUser RowID
	// Users is how many users have got a digest so far.
	Users      int64
	StartedAt  time.Time
	FinishedAt *time.Time
}

// DigestLine is how the day of one user went.
type DigestLine struct {
	User RowID `json:"user"`
	// Rank is the place among the user and those friends who are shown to the user, of whom
	// Total have a score, and Leader is the first.
	Rank   int64 `json:"rank"`
	Total  int64 `json:"total"`
	Score  int64 `json:"score"`
	Leader RowID `json:"leader"`
	// Likes is how many people who are shown to the user like the score.
	Likes int64 `json:"likes"`
}
