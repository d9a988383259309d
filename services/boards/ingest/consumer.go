package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stepboard/internal/pause"
	"stepboard/models"
)

const (
	// receiveLimit is how many messages one call receives at most.
	receiveLimit = 5000
	// retryFirst and retryMost bound the pauses between two attempts at a store
	// that does not respond. Each pause is twice the one before.
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	// stopTimeout bounds the work on received messages once a consumer is told
	// to stop. Messages that it can't finish are received again by another
	// consumer.
	stopTimeout = 5 * time.Second
)

// Consumer applies the messages that a queue delivers: it receives a batch,
// merges it, raises the boards, and only then acknowledges. Nothing changes if
// a message is delivered twice, or was applied before a crash and not
// acknowledged.
type Consumer struct {
	ConsumerOptions
	metrics *consumerMetrics
}

// ConsumerOptions holds the parts and settings of a consumer.
type ConsumerOptions struct {
	Queue       Queue
	Targets     Targets
	Entries     Entries
	DeadLetters *DeadLetterStore
	Clock       models.Clock
	Log         *slog.Logger
	// Interval is how long messages are collected before they are raised, and
	// Batch is the largest number of them.
	Interval time.Duration
	Batch    int
	Registry prometheus.Registerer
}

// NewConsumer returns a consumer and registers its metrics.
func NewConsumer(o ConsumerOptions) *Consumer {
	return &Consumer{ConsumerOptions: o, metrics: newConsumerMetrics(o.Registry)}
}

// Run consumes until ctx ends. Messages that were received by then are applied,
// if that takes no longer than stopTimeout.
func (c *Consumer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.Round(ctx); err != nil {
			c.Log.WarnContext(ctx, "received messages are left to another consumer", "error", err)
			return
		}
	}
}

// Round waits for messages, collects a batch of them, and applies it. An error means that ctx
// has ended before received messages were applied. It is called by Run, or by a caller who
// decides when messages are consumed.
func (c *Consumer) Round(ctx context.Context) error {
	b, err := c.collect(ctx)
	if err != nil || len(b.received) == 0 {
		return err
	}
	return c.apply(ctx, b)
}

// unapplied holds received messages that are merged and not applied yet. Of the
// messages themselves it holds only those that can't be applied.
type unapplied struct {
	merged   *merged
	bad      []badMessage
	received []Delivery
	messages int
}

// collect receives and merges until the interval is over or the batch is full.
// If the queue fails or ctx ends, it returns what it has so far.
func (c *Consumer) collect(ctx context.Context) (unapplied, error) {
	b := unapplied{merged: newMerged()}
	window, cancel := context.WithCancel(ctx)
	defer cancel()
	for b.messages < c.Batch && window.Err() == nil {
		d, err := c.Queue.Receive(window, min(receiveLimit, c.Batch-b.messages))
		if err != nil {
			if window.Err() != nil {
				break
			}
			c.metrics.retries.Inc()
			c.Log.WarnContext(ctx, "the queue does not respond", "error", err)
			if len(b.received) > 0 {
				break
			}
			_ = pause.For(window, retryMost/5) // the next attempt fails if the window has ended
			continue
		}
		if d.receipt == nil {
			continue
		}
		if len(b.received) == 0 {
			// The interval begins with the first delivery.
			defer time.AfterFunc(c.Interval, cancel).Stop()
		}
		if err := c.merge(ctx, &b, d); err != nil {
			return b, err
		}
	}
	return b, nil
}

// merge adds a delivery to the batch. It retries as long as a store that it
// needs does not respond.
func (c *Consumer) merge(ctx context.Context, b *unapplied, d Delivery) error {
	return c.retry(ctx, "look up buckets", func() error {
		bad, err := b.merged.addMessages(ctx, c.Targets, d.Messages)
		if err != nil {
			return err
		}
		b.bad = append(b.bad, bad...)
		b.messages += len(d.Messages)
		d.Messages = nil
		b.received = append(b.received, d)
		return nil
	})
}

// apply raises a batch and acknowledges it. It retries as long as stores do not
// respond, but once ctx has ended only for stopTimeout.
func (c *Consumer) apply(ctx context.Context, b unapplied) error {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })()

	raises := len(b.merged.raises)
	if err := c.retry(working, "raise the boards", func() error { return b.merged.raise(working, c.Entries) }); err != nil {
		return err
	}
	if len(b.bad) > 0 {
		deadLetters := c.deadLetters(b.bad)
		if err := c.retry(working, "store dead letters", func() error { return c.DeadLetters.Write(working, deadLetters) }); err != nil {
			return err
		}
	}
	if err := c.retry(working, "acknowledge", func() error { return c.Queue.Acknowledge(working, b.received) }); err != nil {
		return err
	}
	c.metrics.messages.Add(float64(b.messages))
	c.metrics.raises.Add(float64(raises))
	c.metrics.dead.Add(float64(len(b.bad)))
	c.metrics.batches.Observe(float64(b.messages))
	return nil
}

// deadLetters turns messages that can't be applied into dead letters, and logs
// each.
func (c *Consumer) deadLetters(bad []badMessage) []models.DeadLetter {
	now := c.Clock().UTC()
	deadLetters := make([]models.DeadLetter, len(bad))
	for i, m := range bad {
		deadLetters[i] = models.DeadLetter{
			Position: deadPosition(m.Message), Reason: m.err.Error(), Payload: m.Payload, QueuedAt: m.At.UTC(), FailedAt: now,
		}
		if u, err := DecodeUpdate(m.Payload); err == nil {
			deadLetters[i].Board, deadLetters[i].Bucket = u.Board, u.Bucket
		}
		c.Log.Warn("a message can't be applied and becomes a dead letter", "position", m.Position, "reason", m.err)
	}
	return deadLetters
}

// deadPosition returns the position of a message, with its time and a hash of its
// payload. A position alone repeats when a Kafka topic is deleted and created
// again, and the second dead letter would be taken for the first.
func deadPosition(m Message) string {
	sum := sha256.Sum256(m.Payload)
	return fmt.Sprintf("%s %d %x", m.Position, m.At.UnixMilli(), sum[:8])
}

// retry calls try until it succeeds or ctx ends.
func (c *Consumer) retry(ctx context.Context, what string, try func() error) error {
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%s: %w", what, err), ctx.Err())
		}
		c.metrics.retries.Inc()
		c.Log.WarnContext(ctx, "the consumer retries because a store does not respond", "to", what, "error", err)
		_ = pause.For(ctx, pause.Doubled(retryFirst, retryMost, attempt)) // the loop looks at ctx
	}
}

// consumerMetrics counts what a consumer has done.
type consumerMetrics struct {
	messages, raises, dead, retries prometheus.Counter
	batches                         prometheus.Histogram
}

func newConsumerMetrics(registry prometheus.Registerer) *consumerMetrics {
	registered := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return registered.NewCounter(prometheus.CounterOpts{Name: "stepboard_ingest_" + name, Help: help})
	}
	return &consumerMetrics{
		messages: counter("messages_total", "Messages that were applied, or stored as dead letters."),
		raises:   counter("raises_total", "Updates that were sent to the boards. Messages divided by this is the gain of merging."),
		dead:     counter("dead_letters_total", "Messages that could not be applied."),
		retries:  counter("retries_total", "Attempts that failed because a store did not respond."),
		batches: registered.NewHistogram(prometheus.HistogramOpts{
			Name: "stepboard_ingest_batch_messages", Help: "Messages in each batch that was applied together.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 11),
		}),
	}
}
