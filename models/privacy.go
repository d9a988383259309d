package models

import "time"

// MaxChoices is the largest number of choices of one kind that a user can make.
const MaxChoices = 5000

// ChoiceKind is a kind of choice about one other user.
type ChoiceKind string

// The kinds of choices.
const (
	// HiddenFrom hides the user's scores from the other.
	HiddenFrom ChoiceKind = "hidden_from"
	// Muted hides the other's scores from the user.
	Muted ChoiceKind = "muted"
	// Blocked does both, and keeps the two from becoming friends.
	Blocked ChoiceKind = "blocked"
)

// PrivacyChoice is a choice of a user about another one.
type PrivacyChoice struct {
	UserID  RowID      `gorm:"primaryKey;autoIncrement:false"`
	Kind    ChoiceKind `gorm:"primaryKey"`
	OtherID RowID      `gorm:"primaryKey;autoIncrement:false"`
	// Nickname and AvatarURL are the other's when the choice was made, if that profile was
	// visible to the user; otherwise empty.
	Nickname  string
	AvatarURL string
	CreatedAt time.Time
}
