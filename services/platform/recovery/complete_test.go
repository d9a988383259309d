package recovery_test

import (
	"errors"
	"testing"

	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// A store is incomplete from a loss until it was replayed.
func TestComplete(t *testing.T) {
	t.Parallel()
	r := &recovery.Recovery{Detector: &steps{extents: []recovery.Extent{recovery.LastWritesLost, recovery.EverythingLost, recovery.NothingLost}}}
	for range 2 {
		if err := r.Complete(t.Context()); !errors.Is(err, recovery.ErrIncomplete) || models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("after a loss: %v", err)
		}
	}
	if err := r.Complete(t.Context()); err != nil {
		t.Errorf("after the replay: %v", err)
	}
}
