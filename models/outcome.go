package models

import (
	"slices"
	"time"
)

// OutcomeType is the kind of an outcome: something that the app's backend must hear of.
// Webhooks have it as `type`.
type OutcomeType string

// The types of outcomes.
const (
	// OutcomeFriendRequested is a friend request that its recipient is shown.
	OutcomeFriendRequested OutcomeType = "friend.requested"
	// OutcomeFriendAccepted is a friend request that was accepted.
	OutcomeFriendAccepted OutcomeType = "friend.accepted"
	// OutcomeLikeGiven is a like that the liked person is shown.
	OutcomeLikeGiven OutcomeType = "like.given"
	// OutcomeDigestReady says how the day of up to 500 users goes.
	OutcomeDigestReady OutcomeType = "digest.ready"
	// OutcomeRankPassed says that friends went past a user who wants to be told.
	OutcomeRankPassed OutcomeType = "rank.passed"
	// OutcomeBoardFinal is the final result of a day or an event, or a later revision of
	// it.
	OutcomeBoardFinal OutcomeType = "board.final"
	// OutcomeCompetitionFinal is the final standing of a competition, or a later revision of it.
	OutcomeCompetitionFinal OutcomeType = "competition.final"
)

// OutcomeTypes returns all types of outcomes.
func OutcomeTypes() []OutcomeType {
	return []OutcomeType{OutcomeFriendRequested, OutcomeFriendAccepted, OutcomeLikeGiven, OutcomeBoardFinal, OutcomeCompetitionFinal, OutcomeDigestReady, OutcomeRankPassed}
}

// TargetPush is the target of all deliveries by Web Push, whose addresses are secrets.
const TargetPush = "push"

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	// DeliveryWaiting is a delivery that is attempted until it succeeds or is given up.
	DeliveryWaiting DeliveryState = "waiting"
	// DeliveryDelivered is one that its target has answered with a status of 2xx.
	DeliveryDelivered DeliveryState = "delivered"
	// DeliveryFailed is one that was given up. An operator may replay it.
	DeliveryFailed DeliveryState = "failed"
	// DeliveryDropped is one about a person who was erased, or hid from the other, before it was
	// delivered, or one for a browser that is gone.
	DeliveryDropped DeliveryState = "dropped"
)

// DeliveryStates returns all states of deliveries.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{DeliveryWaiting, DeliveryDelivered, DeliveryFailed, DeliveryDropped}
}

// Delivery is an outcome on its way to one target.
type Delivery struct {
	ID int64
	// MessageID identifies the outcome. Its deliveries to several targets share it.
	MessageID string
	// Target is the address that it is sent to; TargetPush for a notice.
	Target string
	Type   OutcomeType
	// Payload is the outcome as JSON, with row ids in place of people.
	Payload string
	State   DeliveryState
	// Attempts is how often it was begun to send it.
	Attempts int
	// CreatedAt is when the outcome happened.
	CreatedAt time.Time
	// NextAttemptAt is when it is sent next. While it is being sent, it is when another
	// process may take it over.
	NextAttemptAt time.Time
	// GiveUpAt is when a failed attempt becomes the last one.
	GiveUpAt   time.Time
	FinishedAt *time.Time
	// SubscriptionID is the subscription of Web Push that it is for; nil for a webhook.
	SubscriptionID *int64
}

// TableName returns the name of the table of deliveries.
func (Delivery) TableName() string { return "webhook_deliveries" }

// Cursor returns the position in a list that is ordered by id.
func (d Delivery) Cursor() Cursor { return Cursor{Key: d.ID} }

// DeliveryAttempt is one attempt of a delivery whose result is known. An attempt whose
// process died has none.
type DeliveryAttempt struct {
	DeliveryID int64 `gorm:"primaryKey"`
	// Number counts the attempts of the delivery from 1.
	Number    int `gorm:"primaryKey"`
	StartedAt time.Time
	TookMS    int64
	// Status is the HTTP status of the answer; 0 without one.
	Status int
	// Error says why it was no success; empty for a success.
	Error string
}

// TableName returns the name of the table of attempts.
func (DeliveryAttempt) TableName() string { return "webhook_attempts" }

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
