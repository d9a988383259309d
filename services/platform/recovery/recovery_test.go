package recovery_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/recovery"
)

// steps records what a recovery does, and reports the extents of the test, one
// after the other.
type steps struct {
	extents []recovery.Extent
	done    []string
	err     error
}

func (s *steps) Detect(context.Context) (recovery.Loss, error) {
	s.done = append(s.done, "detect")
	loss := recovery.Loss{Extent: s.extents[0]}
	s.extents = s.extents[1:]
	return loss, nil
}

func (s *steps) Checkpoint(_ context.Context, _ recovery.Loss, upto time.Time) error {
	s.done = append(s.done, "checkpoint "+upto.Format(time.TimeOnly))
	return nil
}

func (s *steps) replay(_ context.Context, loss recovery.Loss) (int64, time.Time, error) {
	s.done = append(s.done, "replay")
	return int64(loss.Extent), testenv.Noon, s.err
}

// Hold is held if the test's error says so.
func (s *steps) Hold(ctx context.Context, name string, fn func(context.Context) error) error {
	s.done = append(s.done, "lease "+name)
	if errors.Is(s.err, lease.ErrHeld) {
		return s.err
	}
	return fn(ctx)
}

// A recovery detects, replays and checkpoints. It takes its lease only after a
// loss, and detects again under it.
func TestTheStepsOfARecovery(t *testing.T) {
	t.Parallel()
	const nothing, last, everything = recovery.NothingLost, recovery.LastWritesLost, recovery.EverythingLost
	checkpoint := "checkpoint " + testenv.Noon.Format(time.TimeOnly)
	broken := errors.New("broken")
	for _, tt := range []struct {
		name     string
		lease    string
		extents  []recovery.Extent
		err      error
		restored int64
		want     []string
	}{
		{"nothing was lost", "", []recovery.Extent{nothing}, nil, 0, []string{"detect", "replay", checkpoint}},
		{"nothing was lost, with a lease", "queue", []recovery.Extent{nothing}, nil, 0, []string{"detect", "replay", checkpoint}},
		{"a loss", "", []recovery.Extent{last}, nil, 1, []string{"detect", "replay", checkpoint}},
		{"a loss, with a lease", "queue", []recovery.Extent{last, everything}, nil, 2, []string{"detect", "lease queue", "detect", "replay", checkpoint}},
		{"a loss that another process has replayed", "queue", []recovery.Extent{last, nothing}, nil, 0, []string{"detect", "lease queue", "detect"}},
		{"a loss that another process replays now", "queue", []recovery.Extent{last}, lease.ErrHeld, 0, []string{"detect", "lease queue"}},
		{"a replay that fails", "", []recovery.Extent{everything}, broken, 2, []string{"detect", "replay"}},
		{"a replay that fails, with a lease", "queue", []recovery.Extent{last, last}, broken, 1, []string{"detect", "lease queue", "detect", "replay"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &steps{extents: tt.extents, err: tt.err}
			r := &recovery.Recovery{Detector: s, Replay: s.replay, Lease: tt.lease, Leases: s}
			restored, err := r.Run(t.Context())
			if !errors.Is(err, tt.err) || restored != tt.restored || !slices.Equal(s.done, tt.want) {
				t.Errorf("%v, restored %d, %v", s.done, restored, err)
			}
		})
	}
}
