package ingest_test

import (
	"context"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/ingest"
	"stepboard/services/lease"
)

// forgetful is the boards, which lose everything once they were raised.
type forgetful struct {
	ingest.Boards
	forget func()
}

func (f forgetful) Raise(ctx context.Context, raises []models.Raise) []error {
	errs := f.Boards.Raise(ctx, raises)
	f.forget()
	return errs
}

// What is lost while everything is applied again is noticed, and applied once
// more.
func TestALossWhileTheGuardAppliesAgain(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	q := p.stream()
	defer q.Close()
	look := func(boards ingest.Boards) error {
		return ingest.NewGuard(ingest.GuardOptions{
			Queue: q, Detector: p.boards.LossDetector("queue"), Buckets: p.catalog.Buckets, Boards: boards, Leases: lease.NewLocal(), Log: env.Log, Rewind: time.Minute,
		}).RecoverOnce(t.Context())
	}
	lost := func() models.LossExtent {
		t.Helper()
		return testenv.Must(p.boards.LossDetector("queue").Detect(t.Context())).Extent
	}
	forget := func() {
		if err := env.Redis.Del(t.Context(), env.Keys.Board(p.bucket, 0), env.Keys.LossCheckpoint("queue", 0)).Err(); err != nil {
			t.Error(err)
		}
	}
	if err := look(p.boards); err != nil { // a Redis that was never seen
		t.Fatal(err)
	}
	p.append(q, p.update(1, 5), p.update(2, 6))
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()

	forget()
	for range 2 {
		if err := look(forgetful{p.boards, forget}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a loss meanwhile is answered %v", err)
		}
		if got := lost(); got != models.AllLost {
			t.Errorf("after a loss meanwhile: lost %v", got)
		}
	}
	// Emptied and asked by somebody else before the note is made.
	if err := look(forgetful{p.boards, func() { forget(); lost() }}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("a loss that another has seen is answered %v", err)
	}
	if err := look(p.boards); err != nil {
		t.Fatal(err)
	}
	if got := p.scores(); len(got) != 2 || got[1] != 5 || got[2] != 6 || lost() != models.NothingLost {
		t.Errorf("in the end the board holds %v", got)
	}
}
