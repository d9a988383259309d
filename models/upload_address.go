package models

import "time"

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
