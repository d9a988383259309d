package recovery

import (
	"context"
	"errors"

	"stepboard/models"
)

// ErrIncomplete reports that the store may lack writes that are being replayed.
var ErrIncomplete = errors.New("redis may lack updates that are being applied again")

// Complete returns ErrIncomplete, as CodeUnavailable, while the store may lack
// writes: from a loss until it was replayed. Other errors are the detector's.
func (r *Recovery) Complete(ctx context.Context) error {
	loss, err := r.detect(ctx)
	if err == nil && loss.Extent != NothingLost {
		err = models.Unavailable("look for lost updates", ErrIncomplete)
	}
	return err
}
