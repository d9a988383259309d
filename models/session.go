package models

import "time"

// Session is a device on which a user is signed in.
type Session struct {
	ID   int64
	User RowID `gorm:"column:user_id"`
	// KeyHash is the SHA-256 of the key, which nobody has but the device.
	KeyHash []byte
	// Device is its name, which may be empty.
	Device string
	// TimeZone is the IANA name of the zone where it was when it signed in; empty if that is not known.
	TimeZone  string
	CreatedAt time.Time
	// LastUsedAt is when it last asked for a token, to the minute.
	LastUsedAt time.Time
	// EndsAt is when it ends however often it is used; nil for never.
	EndsAt *time.Time
}

// SignInCode is a code that opens one session. What is stored of it is its hash.
type SignInCode struct {
	KeyHash []byte `gorm:"primaryKey"`
	// User is nil for the first code of a service.
	User *RowID `gorm:"column:user_id"`
	// Group is joined by whoever uses the code; nil for none.
	Group     *GroupRow `gorm:"column:group_id"`
	CreatedAt time.Time
	EndsAt    time.Time
}

// Operator is a user who may ask for tokens of scope admin.
type Operator struct {
	User    RowID `gorm:"column:user_id;primaryKey"`
	KeyHash []byte
	// MadeBy is who has made the user one.
	MadeBy    string
	CreatedAt time.Time
}

// Newcomer is a user who has signed up.
type Newcomer struct {
	User RowID `gorm:"column:user_id;primaryKey"`
	// InvitedBy and Group are whose invitation it was; nil for neither.
	InvitedBy *RowID    `gorm:"column:invited_by"`
	Group     *GroupRow `gorm:"column:group_id"`
	CreatedAt time.Time
}

// UploadAddress is an address to which a phone sends the totals of its user's days. Whoever has its key
// can do that and nothing else.
type UploadAddress struct {
	ID   int64
	User RowID `gorm:"column:user_id"`
	// KeyHash is the SHA-256 of the key, which nobody has but the phone.
	KeyHash []byte
	Board   string
	// Name is the user's own, such as that of the phone.
	Name string
	// TimeZone is the IANA name of the zone where the phone is: its days begin there.
	TimeZone  string
	CreatedAt time.Time
	// LastUsedAt is when the phone last sent anything, to the minute; nil for never. LastDay and
	// LastScore are the newest day that was taken then, and its total; LastCode is why nothing was,
	// or empty.
	LastUsedAt *time.Time
	LastDay    *Date
	LastScore  *int64
	LastCode   Code
}

// TableName returns the name of the table of upload addresses.
func (UploadAddress) TableName() string { return "upload_addresses" }
