package models

import "time"

// Like says that one user likes the score of another one on a day.
type Like struct {
	// UserID is the user whose score it is.
	UserID  RowID  `gorm:"primaryKey;autoIncrement:false"`
	Day     Date   `gorm:"primaryKey"`
	Board   string `gorm:"primaryKey"`
	LikedBy RowID  `gorm:"primaryKey;autoIncrement:false"`
	// Withdrawn reports whether the like was taken back. It counts again if it is given again.
	Withdrawn bool
	// CreatedAt is when it was given for the first time.
	CreatedAt time.Time
}

// LikeCount counts the likes of a user's score on a day that a viewer is shown.
type LikeCount struct {
	Likes int64
	// Liked reports whether the viewer's own like is among them.
	Liked bool
}
