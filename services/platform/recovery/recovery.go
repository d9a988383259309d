package recovery

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

// Extent is how much a store may have forgotten. A larger extent includes the
// smaller ones.
type Extent int

// The extents, from nothing to everything.
const (
	NothingLost Extent = iota
	// LastWritesLost means that a server has restarted, or that another one has
	// taken its place.
	LastWritesLost
	// EverythingLost means that a server has not even its checkpoint.
	EverythingLost
)

// Loss describes what a store may have forgotten.
type Loss struct {
	Extent Extent
	// CheckpointedAt is the moment up to which the store was last known to be
	// complete. It is zero if everything is lost.
	CheckpointedAt time.Time
	// Servers identifies the servers that were asked, one for each checkpoint.
	Servers []ServerState
}

// Includes reports whether the server of a stripe, one of keys.Stripes, may
// have forgotten something.
func (l Loss) Includes(stripe int) bool {
	// In a cluster each stripe has a checkpoint; elsewhere there is only one.
	return l.Servers[stripe%len(l.Servers)].Extent != NothingLost
}

// ServerState identifies a server and the loss that was found on it.
type ServerState struct {
	// ID is the server's id, another one after each restart and each promotion.
	ID string
	// Token is stored on the server from the detection of a loss to the next
	// checkpoint. It disappears if the server loses its data meanwhile. Empty if
	// nothing was lost.
	Token string
	// Extent is how much the server may have forgotten of what lies with the
	// checkpoint.
	Extent Extent
}

// Detector finds out what a store may have forgotten.
type Detector interface {
	// Detect compares the store with its last checkpoint.
	Detect(ctx context.Context) (Loss, error)
	// Checkpoint stores that the servers of a loss are complete up to a moment,
	// unless they have forgotten something since Detect. That is an error if the
	// loss had an extent; otherwise the next Detect reports it.
	Checkpoint(ctx context.Context, loss Loss, upto time.Time) error
}

// Replay writes to the store again what a loss may have taken, from the truth.
// Repeating it changes nothing. It is called with NothingLost, too. It returns
// how many rows it has restored, also with an error, and the moment up to which
// the store is now complete.
type Replay func(ctx context.Context, loss Loss) (restored int64, upto time.Time, err error)

// Leases let one process at a time replay a loss.
type Leases interface {
	// Hold runs fn while it holds the lease of this name. It returns
	// lease.ErrHeld if another process holds it.
	Hold(ctx context.Context, name string, fn func(context.Context) error) error
}

// Recovery restores one kind of data after a loss. Safe for concurrent use.
type Recovery struct {
	Detector Detector
	Replay   Replay
	// Lease names the lease under which a loss is replayed, and Leases grants it.
	// With an empty name there is no lease, and several processes may replay at
	// once.
	Lease  string
	Leases Leases
}

// detectTimeout bounds each call of a detector.
const detectTimeout = 2 * time.Second

// Run does the three steps once: detect, replay, checkpoint. It returns how many
// rows were restored. It takes the lease only if something was lost, and returns
// lease.ErrHeld if another process holds it. After an error the checkpoint stays
// as it was, so that the next run detects the same loss or a larger one. A run
// may be repeated, cut off, or overlap another one.
func (r *Recovery) Run(ctx context.Context) (restored int64, err error) {
	loss, err := r.detect(ctx)
	if err != nil {
		return 0, err
	}
	if loss.Extent == NothingLost || r.Lease == "" {
		return r.restore(ctx, loss)
	}
	err = r.Leases.Hold(ctx, r.Lease, func(ctx context.Context) error {
		// Another process may have replayed the loss meanwhile.
		loss, err := r.detect(ctx)
		if err != nil || loss.Extent == NothingLost {
			return err
		}
		restored, err = r.restore(ctx, loss)
		return err
	})
	return restored, err
}

// restore replays a loss and checkpoints the store.
func (r *Recovery) restore(ctx context.Context, loss Loss) (restored int64, err error) {
	restored, upto, err := r.Replay(ctx, loss)
	if err != nil {
		return restored, err
	}
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	return restored, r.Detector.Checkpoint(ctx, loss, upto)
}

func (r *Recovery) detect(ctx context.Context) (Loss, error) {
	ctx, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	return r.Detector.Detect(ctx)
}

// ErrIncomplete reports that the store may lack writes that are being replayed.
var ErrIncomplete = errors.New("redis may lack updates that are being applied again")

// Complete returns ErrIncomplete, as CodeUnavailable, while the store may lack
// writes: from a loss until it was replayed. Other errors are the detector's.
func (r *Recovery) Complete(ctx context.Context) error { return r.CompleteSince(ctx, time.Time{}) }

// CompleteSince is Complete for a store that must have been found complete at a moment or later.
func (r *Recovery) CompleteSince(ctx context.Context, moment time.Time) error {
	loss, err := r.detect(ctx)
	if err == nil && (loss.Extent != NothingLost || loss.CheckpointedAt.Before(moment)) {
		err = models.Unavailable("look for lost updates", ErrIncomplete)
	}
	return err
}
