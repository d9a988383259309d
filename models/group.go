package models

import "time"

// MaxGroupMembers is the largest number of members of a group, and MaxGroups the largest
// number of groups of a user.
const (
	MaxGroupMembers = 500
	MaxGroups       = 50
)

// MaxSpanDays is the largest number of days of a span and of a challenge.
const MaxSpanDays = 31

// GroupID is the id of a group that clients see: 1 to 64 of A-Z, a-z, 0-9, _ and -.
type GroupID string

// GroupRow is the internal number of a group, from 1. A number is never used again. It
// never leaves the service.
type GroupRow int64

// Group is a row of the table groups.
type Group struct {
	Row GroupRow `gorm:"column:group_id;primaryKey"`
	ID  GroupID  `gorm:"column:external_id"`
	// Name is empty for a group to which a backend has given none.
	Name string
	// OwnerID and InviteCode are nil for a group whose members a backend sets.
	OwnerID    *RowID
	InviteCode *string
	CreatedAt  time.Time
	// ChallengeFrom and ChallengeTo are the first and the last day of the group's
	// challenge; nil for a group without one.
	ChallengeFrom, ChallengeTo *Date
}

// TableName returns the name of the table of groups.
func (Group) TableName() string { return "groups" }

// NoGroup returns the error about a group that does not exist, and about one that the user is not a
// member of: nobody learns which groups exist.
func NoGroup(id GroupID) *Error {
	return Errorf(CodeNotFound, "this user is not a member of a group %s", id)
}
