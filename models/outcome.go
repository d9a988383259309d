package models

import "time"

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
