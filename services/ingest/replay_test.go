package ingest_test

import (
	"context"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/ingest"
	"stepboard/services/lease"
	"stepboard/services/recovery"
)

// forgetful is a store of boards that loses everything after each raise.
type forgetful struct {
	ingest.Boards
	forget func()
}

func (f forgetful) Raise(ctx context.Context, raises []models.Raise) []error {
	errs := f.Boards.Raise(ctx, raises)
	f.forget()
	return errs
}

// recovery applies again to the boards what they have lost of a queue.
func (f *fixture) recovery(q ingest.Queue, boards ingest.Boards) *recovery.Recovery {
	replayer := ingest.NewReplayer(ingest.ReplayerOptions{Queue: q, Buckets: f.catalog.Buckets, Boards: boards, Log: f.env.Log, Rewind: time.Minute})
	return &recovery.Recovery{
		Detector: recovery.NewRedisDetector(f.env.Redis, f.env.Keys, recovery.Queue), Replay: replayer.Replay,
		Lease: "ingest/rewind", Leases: lease.NewLocal(),
	}
}

// A loss during a replay is detected, and everything is replayed once more.
func TestALossDuringAReplay(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	q := p.stream()
	defer q.Close()
	recoverOnce := func(boards ingest.Boards) error {
		_, err := p.recovery(q, boards).Run(t.Context())
		return err
	}
	lost := func() recovery.Extent {
		t.Helper()
		return testenv.Must(recovery.NewRedisDetector(env.Redis, env.Keys, recovery.Queue).Detect(t.Context())).Extent
	}
	forget := func() {
		if err := env.Redis.Del(t.Context(), env.Keys.Board(p.bucket, 0), env.Keys.LossCheckpoint("queue", 0)).Err(); err != nil {
			t.Error(err)
		}
	}
	if err := recoverOnce(p.boards); err != nil { // a Redis that was never seen
		t.Fatal(err)
	}
	p.append(q, p.update(1, 5), p.update(2, 6))
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()

	forget()
	for range 2 {
		if err := recoverOnce(forgetful{p.boards, forget}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("after a loss meanwhile Run returned %v", err)
		}
		if got := lost(); got != recovery.EverythingLost {
			t.Errorf("after a loss meanwhile: lost %v", got)
		}
	}
	// Emptied, and detected by another process before the checkpoint.
	if err := recoverOnce(forgetful{p.boards, func() { forget(); lost() }}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("after a loss that another process has detected Run returned %v", err)
	}
	if err := recoverOnce(p.boards); err != nil {
		t.Fatal(err)
	}
	if got := p.scores(); len(got) != 2 || got[1] != 5 || got[2] != 6 || lost() != recovery.NothingLost {
		t.Errorf("in the end the board holds %v", got)
	}
}
