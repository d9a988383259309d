package ingest

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

// ErrClosed is what a queue answers after Close.
var ErrClosed = errors.New("closed")

// Queue keeps accepted updates until they are applied, and for a while after.
// Safe for concurrent use, except that one goroutine receives.
type Queue interface {
	// Append makes updates durable. It answers nil if all of them are, else one
	// error for each, nil for those that are.
	Append(ctx context.Context, updates []Update) []error
	// Receive waits for messages that no consumer has, or that one has died
	// with, up to about the given number. It answers none, and no error, where
	// nothing comes for a while.
	Receive(ctx context.Context, limit int) (Delivery, error)
	// Acknowledge lets go of what was received: it will not be received again.
	Acknowledge(ctx context.Context, received []Delivery) error
	// Replay reads what was appended from a moment on, acknowledged or not, up
	// to what is there when it begins; the zero time means all that is kept.
	Replay(ctx context.Context, since time.Time, apply func(context.Context, []Message) error) error
	// Lag tells how far the consumers are behind. An error means that the queue
	// does not answer.
	Lag(ctx context.Context) (Lag, error)
	// Close lets go of what was received and not acknowledged, and of the
	// connections.
	Close()
}

// Message is what a queue keeps of one update.
type Message struct {
	// Payload is the update's encoding, if nobody has damaged it.
	Payload []byte
	// Position names the message in its queue, for good.
	Position string
	// At is when it was appended, by the queue's clock.
	At time.Time
}

// Delivery is messages that were received together.
type Delivery struct {
	Messages []Message
	// receipt is what the queue needs to acknowledge them.
	receipt any
}

// Lag is how far consumers are behind.
type Lag struct {
	// Messages is how many wait, those that were received and not acknowledged
	// included.
	Messages int64
	// Oldest is how long the oldest of them has waited; 0 without any.
	Oldest time.Duration
}

// Enqueue is what a group commit flushes with a queue: the updates of the raises.
func Enqueue(q Queue) func(context.Context, []models.Raise) []error {
	return func(ctx context.Context, raises []models.Raise) []error {
		if len(raises) == 0 {
			return nil
		}
		updates := make([]Update, len(raises))
		for i, r := range raises {
			updates[i] = updateOf(r)
		}
		errs := q.Append(ctx, updates)
		for i, err := range errs {
			if err != nil {
				errs[i] = models.Unavailable("append to the queue", err)
			}
		}
		return errs
	}
}
