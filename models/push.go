package models

import (
	"slices"
	"time"
)

// Tell is a kind of news that users choose to be told of. They are told of nothing until they do.
type Tell string

// The kinds of news.
const (
	// TellPassed is that a friend has gone past the user today.
	TellPassed Tell = "passed"
	// TellLikes is that somebody likes the user's score.
	TellLikes Tell = "likes"
	// TellRequests is that somebody asks the user to be friends.
	TellRequests Tell = "requests"
	// TellDigest is how the user's day goes, once in the evening.
	TellDigest Tell = "digest"
)

// Tells returns all kinds of news.
func Tells() []Tell { return []Tell{TellPassed, TellLikes, TellRequests, TellDigest} }

// TellOf returns the kind of news that an outcome is; empty for an outcome that no user is told of.
func TellOf(outcome OutcomeType) Tell {
	return map[OutcomeType]Tell{
		OutcomeLikeGiven: TellLikes, OutcomeFriendRequested: TellRequests, OutcomeDigestReady: TellDigest, OutcomeRankPassed: TellPassed,
	}[outcome]
}

// Column returns the column of push_subscriptions that says who wants this kind of news.
func (t Tell) Column() string {
	if !slices.Contains(Tells(), t) {
		return "false"
	}
	return "tell_" + string(t)
}

// Told says which kinds of news a subscription is for. One of them is true.
type Told struct {
	Passed, Likes, Requests, Digest bool
}

// ToldOf returns the kinds of a list.
func ToldOf(list []Tell) Told {
	has := func(t Tell) bool { return slices.Contains(list, t) }
	return Told{has(TellPassed), has(TellLikes), has(TellRequests), has(TellDigest)}
}

// List returns the kinds in the order of Tells.
func (t Told) List() (list []Tell) {
	for i, wanted := range []bool{t.Passed, t.Likes, t.Requests, t.Digest} {
		if wanted {
			list = append(list, Tells()[i])
		}
	}
	return list
}

// PushSubscription says what a user is to be told of, and where: in a browser that a push service
// reaches, or, without an endpoint, by the app.
type PushSubscription struct {
	ID     int64
	UserID RowID
	// Endpoint is the address at the push service that reaches the browser, and EndpointHash its
	// SHA-256. Whoever knows the address may send to it. Both are nil for the app's own.
	Endpoint     *string
	EndpointHash []byte
	// P256DH is the browser's public key, an uncompressed point of P-256 of 65 bytes, and Auth the 16
	// bytes of its secret (RFC 8291). Both are nil for the app's own.
	P256DH []byte `gorm:"column:p256dh"`
	Auth   []byte
	Told   Told `gorm:"embedded;embeddedPrefix:tell_"`
	// TimeZone is the IANA name of the zone where the user is; empty if it is not known.
	TimeZone  string
	CreatedAt time.Time
	// Refusals is in how many hours since the last success a push service has refused a notice for another reason than
	// load, and RefusedAt when the last of these began.
	Refusals  int
	RefusedAt *time.Time
}

// TableName returns the name of the table of subscriptions.
func (PushSubscription) TableName() string { return "push_subscriptions" }
