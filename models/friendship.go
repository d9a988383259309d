package models

import "time"

// MaxFriends is the largest number of friends of a user.
const MaxFriends = 5000

// User is a row of the table users. A user's first write creates it, and so does a
// service or an import that names the user.
type User struct {
	Row         RowID  `gorm:"column:user_id;primaryKey"`
	User        UserID `gorm:"column:external_id"`
	Nickname    string
	AvatarURL   string
	CoverURL    string
	Version     int64
	ChangedAt   *time.Time
	Hidden      bool
	FriendCount int
	// RequestsSent is the number of friend requests that the user has sent in the day
	// that ends at RequestsUntil.
	RequestsSent  int
	RequestsUntil *time.Time
	// Hidings is how often the user has begun or ended to hide from everybody in the hour
	// that ends at HidingsUntil.
	Hidings      int
	HidingsUntil *time.Time
	CreatedAt    time.Time
}

// Friendship is one side of a friendship. Each friendship has two rows.
type Friendship struct {
	UserID    RowID `gorm:"primaryKey;autoIncrement:false"`
	FriendID  RowID `gorm:"primaryKey;autoIncrement:false"`
	CreatedAt time.Time
}

// CirclePerson is a friend of a viewer, or a member of a group of the viewer's.
type CirclePerson struct {
	User RowID
	// Since is when the friendship began; zero for members of groups.
	Since time.Time
	// Shown reports whether the viewer is shown the person's scores.
	Shown bool
}

// FriendRequest is one side of a request: incoming for the user who is asked, outgoing
// for the user who asks.
type FriendRequest struct {
	UserID    RowID `gorm:"primaryKey;autoIncrement:false"`
	OtherID   RowID `gorm:"primaryKey;autoIncrement:false"`
	Incoming  bool
	CreatedAt time.Time
	// DeclinedAt is set on an incoming side that its user has declined. The outgoing
	// side stays pending.
	DeclinedAt *time.Time
}

// Edge is a friendship between two users, in either order.
type Edge struct{ A, B RowID }

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
