package ingest

import (
	"context"
	"errors"
	"time"
)

// ErrClosed is returned by a queue that was closed.
var ErrClosed = errors.New("closed")

// Queue stores accepted updates until they are applied, and for a while after.
// Safe for concurrent use, except that only one goroutine may receive.
type Queue interface {
	// Append stores updates. It returns nil if all of them are stored, otherwise
	// one error for each, nil for those that are.
	Append(ctx context.Context, updates []Update) []error
	// Receive waits for messages that no consumer has, or whose consumer has died,
	// up to about the given number. If none arrive for a while, it returns none
	// and no error.
	Receive(ctx context.Context, limit int) (Delivery, error)
	// Acknowledge ends deliveries: their messages are not received again.
	Acknowledge(ctx context.Context, received []Delivery) error
	// Replay reads the messages that were appended since a moment, acknowledged or
	// not, up to the last one when it begins. The zero time means all that are
	// kept.
	Replay(ctx context.Context, since time.Time, apply func(context.Context, []Message) error) error
	// Lag returns how far the consumers are behind. An error means that the queue
	// does not respond.
	Lag(ctx context.Context) (Lag, error)
	// Close releases the messages that were received and not acknowledged, and
	// closes the connections.
	Close()
}

// Message is one update as a queue stores it.
type Message struct {
	// Payload is the update's encoding. It may be damaged.
	Payload []byte
	// Position identifies the message in its queue and never changes. A queue that
	// is deleted and created again may use it for another message.
	Position string
	// At is the time when it was appended, by the queue's clock.
	At time.Time
}

// Delivery holds messages that were received together.
type Delivery struct {
	Messages []Message
	// receipt is the queue's own data about them, for Acknowledge.
	receipt any
}

// Lag is how far consumers are behind.
type Lag struct {
	// Messages is how many wait. It includes those that were received and not
	// acknowledged.
	Messages int64
	// Oldest is how long the oldest of them has waited, 0 if none wait.
	Oldest time.Duration
}
