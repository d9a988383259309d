package recovery

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

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
