// Package models holds the types that cross packages: ids, boards, buckets,
// entries, rankings, errors, and the name of every key.
package models

import "time"

// Kind says how a board's scores come about. What differs by kind lives in
// services/catalog and nowhere else.
type Kind string

// The kinds of board.
const (
	// KindDaily is a board on which a client reports its own total for a day,
	// and the highest total of the day counts.
	KindDaily Kind = "daily"
	// KindEvent is a board on which increments add up over one fixed stretch of
	// time.
	KindEvent Kind = "event"
	// KindRolling is a board on which the increments of the last hours add up.
	KindRolling Kind = "rolling"
)

// Audience says who may read the lists of a board that show strangers.
type Audience string

// The audiences of `top` and `around`.
const (
	// AudienceUsers lets every user read them.
	AudienceUsers Audience = "users"
	// AudienceService keeps them for trusted backends.
	AudienceService Audience = "service"
)

// Board is a board's definition: what its next bucket will be made with. A
// bucket that exists keeps what it was made with, whatever happens here.
type Board struct {
	Name string `gorm:"primaryKey"`
	Kind Kind
	// TimeZone is the IANA name of the zone that fixes the board's days.
	TimeZone string
	// StartsAt and EndsAt bound an event, [StartsAt, EndsAt); nil for other
	// kinds.
	StartsAt *time.Time
	EndsAt   *time.Time
	// WindowHours is how many hours count on a rolling board, the current one
	// included; 0 for other kinds.
	WindowHours int
	// MaxScore is the largest score that is accepted, 1 or more.
	MaxScore int64
	// Shards is the number of sorted sets that a bucket is split into.
	Shards int
	// Global says who may read `top` and `around`.
	Global    Audience
	CreatedAt time.Time
	UpdatedAt time.Time
}

// TableName is the board definitions' table.
func (Board) TableName() string { return "boards" }

// Bucket is one stretch of a board's time, with everything that is needed to
// read and write it. It is immutable: made on first use, stored in
// board_buckets, and never decoded by today's settings.
type Bucket struct {
	Board string `gorm:"primaryKey"`
	// Name tells the board's buckets apart: 20261120 for a day, "event" for the
	// one of an event, "live" for the one of a rolling board.
	Name string `gorm:"primaryKey;column:bucket"`
	// StartsAt and EndsAt bound the bucket: [StartsAt, EndsAt).
	StartsAt time.Time
	EndsAt   time.Time
	// ClosesAt is when the bucket stops accepting updates: EndsAt plus the
	// window for late uploads.
	ClosesAt time.Time
	// TickMS is the resolution of reached-at in milliseconds: 1 or 1000.
	TickMS int64
	// TimeBits is the number of bits that reached-at takes in a composite.
	TimeBits int
	// MaxScore is the largest score that the bucket accepts.
	MaxScore int64
	// Shards is the number of sorted sets that hold the bucket.
	Shards int
	// WindowHours, where it is not 0, says that a score of the bucket is the sum
	// of a user's totals of so many hours, the current one included. What raises
	// such a bucket is the total of one hour: of that in which it was reached.
	WindowHours int
	// Day is the day that the archive files the bucket under: its own.
	Day Date
	// ColdAt is from when on the bucket belongs to the archive: what is applied
	// later is kept aside until the archive merges it. The archive waits an
	// hour more, so that clocks need not agree.
	ColdAt    time.Time
	CreatedAt time.Time
}

// TableName is the buckets' table.
func (Bucket) TableName() string { return "board_buckets" }

// Shard is the shard of the bucket that holds the user, 0 … Shards-1.
func (b *Bucket) Shard(user UserID) int { return int(int64(user) % int64(b.Shards)) }

// Open reports whether the bucket accepts updates at the given moment.
func (b *Bucket) Open(now time.Time) bool {
	return !now.Before(b.StartsAt) && now.Before(b.ClosesAt)
}

// Cold reports whether the bucket belongs to the archive at the given moment:
// it is there, or on its way.
func (b *Bucket) Cold(now time.Time) bool { return !now.Before(b.ColdAt) }

// Final reports whether the bucket's standings can no longer change by new
// uploads.
func (b *Bucket) Final(now time.Time) bool { return !now.Before(b.ClosesAt) }
