package ingest

import (
	"context"
	"log/slog"
	"time"

	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// lagTimeout bounds one question to the queue about its lag.
const lagTimeout = 2 * time.Second

// Replayer applies again what the boards' Redis may have forgotten after it was
// acknowledged to the queue. Applying again changes nothing that the boards
// have. Safe for concurrent use.
type Replayer struct {
	Queue   Queue
	Targets Targets
	Entries Entries
	// Clock is the queue's time: that of the machine, not of the service.
	Clock models.Clock
	Log   *slog.Logger
	// Rewind is how far a restarted Redis may be behind.
	Rewind time.Duration
}

// Replay is the recovery.Replay of the queue. It applies every update that was
// queued since Rewind before the checkpoint, or every update that the queue has
// kept if everything is lost. Its rows are updates. Its times are those of Clock.
func (r *Replayer) Replay(ctx context.Context, loss recovery.Loss) (updates int64, upto time.Time, err error) {
	// Asked before the replay, which ends where the queue ended at its beginning:
	// another process may apply what is queued meanwhile to an old master.
	upto, err = r.appliedUpto(ctx)
	if err != nil || loss.Extent == recovery.NothingLost {
		return 0, upto, err
	}
	var since time.Time
	if loss.Extent == recovery.LastWritesLost {
		since = loss.CheckpointedAt.Add(-r.Rewind)
		r.Log.WarnContext(ctx, "the boards' Redis may have forgotten updates; they are applied again", "since", since)
	} else { // or Redis has just been installed
		r.Log.InfoContext(ctx, "the boards' Redis has nothing of the queue; it gets all that the queue has kept")
	}
	if updates, err = r.ReplaySince(ctx, since, func(int64) {}); err != nil {
		return updates, time.Time{}, err
	}
	r.Log.InfoContext(ctx, "updates were applied again", "updates", updates)
	return updates, upto, nil
}

// appliedUpto returns the moment up to which everything that was queued has been
// applied: now, or, if there is a backlog, when its oldest update was queued. A
// checkpoint must not be later than that. What is applied of a backlog later
// was queued back then, and Redis may forget it when it restarts.
func (r *Replayer) appliedUpto(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	now := r.Clock()
	lag, err := r.Queue.Lag(ctx)
	return now.Add(-lag.Oldest), models.Wrap("read the queue's lag", err)
}

// ReplaySince applies everything that the queue has kept since a moment, and
// returns how many updates these were, also with an error. The zero time means
// everything. It calls progress with that number on the way. Messages that
// can't be applied are skipped: they became dead letters when they were first
// received.
func (r *Replayer) ReplaySince(ctx context.Context, since time.Time, progress func(applied int64)) (applied int64, err error) {
	err = r.Queue.Replay(ctx, since, func(ctx context.Context, messages []Message) error {
		m := newMerged()
		bad, err := m.addMessages(ctx, r.Targets, messages)
		if err != nil {
			return err
		}
		if err := m.raise(ctx, r.Entries); err != nil {
			return err
		}
		applied += int64(len(messages) - len(bad))
		progress(applied)
		return nil
	})
	return applied, models.Wrap("apply updates again", err)
}
