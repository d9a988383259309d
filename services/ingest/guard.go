package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"stepboard/models"
	"stepboard/services/lease"
)

const (
	// guardEvery is how often the guard looks at the boards' Redis.
	guardEvery = 2 * time.Second
	// guardTimeout bounds one look.
	guardTimeout = 2 * time.Second
)

// LossDetector is what the boards' Redis knows of itself.
type LossDetector interface {
	// Detect asks what Redis may have forgotten.
	Detect(ctx context.Context) (models.LossReport, error)
	// Checkpoint notes that the server of the recollection has everything up to a
	// moment, unless it has forgotten something since Recall: that is an error
	// where something was lost before.
	Checkpoint(ctx context.Context, r models.LossReport, upto time.Time) error
}

// Leases let one replica at a time apply a log again.
type Leases interface {
	Hold(ctx context.Context, name string, fn func(context.Context) error) error
}

// Guard applies again what the boards' Redis may have forgotten after it was
// acknowledged. Applying again changes nothing that is there.
type Guard struct {
	GuardOptions
}

// GuardOptions is what a guard is made of.
type GuardOptions struct {
	Queue    Queue
	Detector LossDetector
	Buckets  Buckets
	Boards   Boards
	Leases   Leases
	Log      *slog.Logger
	// Rewind is how far a restarted Redis may be behind.
	Rewind time.Duration
}

// NewGuard makes a guard.
func NewGuard(o GuardOptions) *Guard { return &Guard{GuardOptions: o} }

// Run looks after Redis until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := g.RecoverOnce(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrHeld) {
			g.Log.WarnContext(ctx, "what the boards' Redis has forgotten could not be made good yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// RecoverOnce makes good what Redis may have forgotten, if anything, and notes that
// nothing is missing. lease.ErrHeld where another replica is at it.
//
// The notes are in that Redis itself, so that the last one it has says since
// when to worry, however long it was away. And they are written after what they
// vouch for: a server that comes back without its last writes, whichever way it
// kept them, comes back without the notes of these. They count in real time, as
// queues do.
func (g *Guard) RecoverOnce(ctx context.Context) error {
	r, err := g.detect(ctx)
	if err != nil {
		return err
	}
	if r.Extent == models.NothingLost {
		return g.checkpoint(ctx, r)
	}
	return g.Leases.Hold(ctx, "ingest/rewind", func(ctx context.Context) error {
		r, err := g.detect(ctx) // somebody may have been at it
		if err != nil || r.Extent == models.NothingLost {
			return err
		}
		var since time.Time
		if r.Extent == models.LastWritesLost {
			since = r.CheckpointedAt.Add(-g.Rewind)
		}
		if r.Extent == models.AllLost { // or has just been installed
			g.Log.InfoContext(ctx, "the boards' Redis has nothing of the queue; it gets all that the queue has kept")
		} else {
			g.Log.WarnContext(ctx, "the boards' Redis may have forgotten updates; they are applied again", "since", since)
		}
		n, err := g.ReplaySince(ctx, since, func(int64) {})
		if err != nil {
			return err
		}
		if err := g.checkpoint(ctx, r); err != nil {
			return err
		}
		g.Log.InfoContext(ctx, "updates were applied again", "updates", n)
		return nil
	})
}

func (g *Guard) detect(ctx context.Context) (models.LossReport, error) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	return g.Detector.Detect(ctx)
}

// checkpoint notes that nothing is missing of what was appended up to now, or up
// to the oldest update that still waits: what is applied of a backlog later on
// was appended back then, and is what a Redis that restarts has forgotten.
func (g *Guard) checkpoint(ctx context.Context, r models.LossReport) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	now := time.Now()
	lag, err := g.Queue.Lag(ctx)
	if err != nil {
		return fmt.Errorf("ask what still waits: %w", err)
	}
	return g.Detector.Checkpoint(ctx, r, now.Add(-lag.Oldest))
}

// ReplaySince applies everything that the queue has kept since a moment, and tells
// how many updates that were; the zero time means all. What can't be applied
// is passed over: it became a dead letter when it came first.
func (g *Guard) ReplaySince(ctx context.Context, since time.Time, progress func(applied int64)) (applied int64, err error) {
	err = g.Queue.Replay(ctx, since, func(ctx context.Context, messages []Message) error {
		m := make(merged)
		bad, err := m.read(ctx, g.Buckets, messages)
		if err != nil {
			return err
		}
		if err := m.raise(ctx, g.Boards); err != nil {
			return err
		}
		applied += int64(len(messages) - len(bad))
		progress(applied)
		return nil
	})
	if err != nil {
		return applied, fmt.Errorf("apply updates again: %w", err)
	}
	return applied, nil
}
