package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
)

const (
	// receiveLimit is how many messages one call receives.
	receiveLimit = 5000
	// retryFirst and retryMost bound the waits between two attempts at a store
	// that does not answer. They double.
	retryFirst = 50 * time.Millisecond
	retryMost  = 5 * time.Second
	// stopTimeout bounds what a consumer does with what it holds when it is
	// told to stop. What it can't finish is received again by somebody else.
	stopTimeout = 5 * time.Second
)

// DeadLetterWriter keeps what can't be applied.
type DeadLetterWriter interface {
	// Write stores letters; one that is there already stays as it is.
	Write(ctx context.Context, letters []models.DeadLetter) error
}

// Consumer applies what a queue delivers: it reads a batch, merges it, raises
// the boards, and only then acknowledges. Whatever is delivered twice, or was
// applied before a crash kept it from being acknowledged, changes nothing.
type Consumer struct {
	ConsumerOptions
	metrics *consumerMetrics
}

// ConsumerOptions is what a consumer is made of.
type ConsumerOptions struct {
	Queue       Queue
	Buckets     Buckets
	Boards      Boards
	DeadLetters DeadLetterWriter
	Clock       models.Clock
	Log         *slog.Logger
	// Interval is how long messages are gathered before they are raised, and
	// Batch how many of them at most.
	Interval time.Duration
	Batch    int
	Registry prometheus.Registerer
}

// NewConsumer makes a consumer and registers its metrics.
func NewConsumer(o ConsumerOptions) *Consumer {
	return &Consumer{ConsumerOptions: o, metrics: newConsumerMetrics(o.Registry)}
}

// Run consumes until ctx ends; what was received by then is applied, if that
// can be done soon.
func (c *Consumer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		b, err := c.collect(ctx)
		if err == nil && len(b.received) > 0 {
			err = c.apply(ctx, b)
		}
		if err != nil {
			c.Log.WarnContext(ctx, "what was received is left to another consumer", "error", err)
			return
		}
	}
}

// batch is what was received and merged, and not applied yet. It holds no
// messages but those that can't be applied.
type batch struct {
	merged   merged
	bad      []badMessage
	received []Delivery
	messages int
}

// collect receives and merges until the interval is over or the batch is full.
// It answers early, with what there is, where the queue fails or ctx ends.
func (c *Consumer) collect(ctx context.Context) (batch, error) {
	b := batch{merged: make(merged)}
	window, cancel := context.WithCancel(ctx)
	defer cancel()
	for b.messages < c.Batch && window.Err() == nil {
		d, err := c.Queue.Receive(window, min(receiveLimit, c.Batch-b.messages))
		if err != nil {
			if window.Err() != nil {
				break
			}
			c.metrics.retries.Inc()
			c.Log.WarnContext(ctx, "the queue does not answer", "error", err)
			if len(b.received) > 0 {
				break
			}
			pause(window, retryMost/5)
			continue
		}
		if d.receipt == nil {
			continue
		}
		if len(b.received) == 0 {
			// The interval begins with what comes first.
			defer time.AfterFunc(c.Interval, cancel).Stop()
		}
		if err := c.merge(ctx, &b, d); err != nil {
			return b, err
		}
	}
	return b, nil
}

// merge merges a delivery into the batch. It goes on trying while a store that
// is needed for it does not answer.
func (c *Consumer) merge(ctx context.Context, b *batch, d Delivery) error {
	return c.retry(ctx, "look up buckets", func() error {
		bad, err := b.merged.addMessages(ctx, c.Buckets, d.Messages)
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

// apply applies a batch and acknowledges it. It goes on trying while stores
// do not answer; when ctx ends, for finishTimeout more.
func (c *Consumer) apply(ctx context.Context, b batch) error {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(stopTimeout, cancel)
		context.AfterFunc(working, func() { timer.Stop() })
	})()

	raises := len(b.merged)
	if err := c.retry(working, "raise the boards", func() error { return b.merged.raise(working, c.Boards) }); err != nil {
		return err
	}
	if len(b.bad) > 0 {
		letters := c.deadLetters(b.bad)
		if err := c.retry(working, "keep dead letters", func() error { return c.DeadLetters.Write(working, letters) }); err != nil {
			return err
		}
	}
	if err := c.retry(working, "acknowledge", func() error { return c.Queue.Acknowledge(working, b.received) }); err != nil {
		return err
	}
	c.metrics.applied(b.messages, raises, len(b.bad))
	return nil
}

func (c *Consumer) deadLetters(bad []badMessage) []models.DeadLetter {
	now := c.Clock().UTC()
	letters := make([]models.DeadLetter, len(bad))
	for i, p := range bad {
		letters[i] = models.DeadLetter{
			Position: p.Position, Reason: p.err.Error(), Payload: p.Payload, QueuedAt: p.At.UTC(), FailedAt: now,
		}
		c.Log.Warn("a message can't be applied and is kept as a dead letter", "position", p.Position, "reason", p.err)
	}
	return letters
}

// retry tries until it succeeds or ctx ends.
func (c *Consumer) retry(ctx context.Context, what string, try func() error) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%s: %w", what, err), ctx.Err())
		}
		c.metrics.retries.Inc()
		c.Log.WarnContext(ctx, "the consumer waits for a store", "to", what, "error", err)
		pause(ctx, wait)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// consumerMetrics is what a consumer has done.
type consumerMetrics struct {
	messages, raises, dead, retries prometheus.Counter
	batches                         prometheus.Histogram
}

func newConsumerMetrics(registry prometheus.Registerer) *consumerMetrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "stepboard_ingest_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &consumerMetrics{
		messages: counter("messages_total", "Messages that were applied, or kept as dead letters."),
		raises:   counter("raises_total", "Updates that were sent to the boards; messages divided by it is how well merging does."),
		dead:     counter("dead_letters_total", "Messages that could not be applied."),
		retries:  counter("retries_total", "Attempts that failed because a store did not answer."),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stepboard_ingest_batch_messages", Help: "Messages of a batch that was applied together.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 11),
		}),
	}
	registry.MustRegister(m.batches)
	return m
}

func (m *consumerMetrics) applied(messages, raises, dead int) {
	m.messages.Add(float64(messages))
	m.raises.Add(float64(raises))
	m.dead.Add(float64(dead))
	m.batches.Observe(float64(messages))
}
