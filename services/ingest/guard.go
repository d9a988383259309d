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

// Memory is what the boards' Redis knows of itself.
type Memory interface {
	// Recall asks what Redis may have forgotten.
	Recall(ctx context.Context) (models.Recollection, error)
	// Remember notes that the server of the recollection has everything up to a
	// moment, unless it has forgotten something since Recall: that is an error
	// where something was lost before.
	Remember(ctx context.Context, r models.Recollection, upto time.Time) error
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
	Queue   Queue
	Memory  Memory
	Buckets Buckets
	Boards  Boards
	Leases  Leases
	Log     *slog.Logger
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
		if err := g.Look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, lease.ErrHeld) {
			g.Log.WarnContext(ctx, "what the boards' Redis has forgotten could not be made good yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// Look makes good what Redis may have forgotten, if anything, and notes that
// nothing is missing. lease.ErrHeld where another replica is at it.
//
// The notes are in that Redis itself, so that the last one it has says since
// when to worry, however long it was away. And they are written after what they
// vouch for: a server that comes back without its last writes, whichever way it
// kept them, comes back without the notes of these. They count in real time, as
// queues do.
func (g *Guard) Look(ctx context.Context) error {
	r, err := g.recall(ctx)
	if err != nil {
		return err
	}
	if r.Lost == models.NothingLost {
		return g.remember(ctx, r)
	}
	return g.Leases.Hold(ctx, "ingest/rewind", func(ctx context.Context) error {
		r, err := g.recall(ctx) // somebody may have been at it
		if err != nil || r.Lost == models.NothingLost {
			return err
		}
		var since time.Time
		if r.Lost == models.LastWritesLost {
			since = r.Noted.Add(-g.Rewind)
		}
		if r.Lost == models.AllLost { // or has just been installed
			g.Log.InfoContext(ctx, "the boards' Redis has nothing of the queue; it gets all that the queue has kept")
		} else {
			g.Log.WarnContext(ctx, "the boards' Redis may have forgotten updates; they are applied again", "since", since)
		}
		n, err := g.Again(ctx, since, func(int64) {})
		if err != nil {
			return err
		}
		if err := g.remember(ctx, r); err != nil {
			return err
		}
		g.Log.InfoContext(ctx, "updates were applied again", "updates", n)
		return nil
	})
}

func (g *Guard) recall(ctx context.Context) (models.Recollection, error) {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	return g.Memory.Recall(ctx)
}

// remember notes that nothing is missing of what was appended up to now, or up
// to the oldest update that still waits: what is applied of a backlog later on
// was appended back then, and is what a Redis that restarts has forgotten.
func (g *Guard) remember(ctx context.Context, r models.Recollection) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	now := time.Now()
	lag, err := g.Queue.Lag(ctx)
	if err != nil {
		return fmt.Errorf("ask what still waits: %w", err)
	}
	return g.Memory.Remember(ctx, r, now.Add(-lag.Oldest))
}

// Again applies everything that the queue has kept since a moment, and tells
// how many updates that were; the zero time means all. What can't be applied
// is passed over: it became a dead letter when it came first.
func (g *Guard) Again(ctx context.Context, since time.Time, progress func(applied int64)) (applied int64, err error) {
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
