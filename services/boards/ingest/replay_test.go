package ingest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/ingest"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/recovery"
)

// forgetful is a store of boards that loses everything after each raise.
type forgetful struct {
	ingest.Entries
	forget func()
}

func (f forgetful) Raise(ctx context.Context, raises []models.Raise) []error {
	errs := f.Entries.Raise(ctx, raises)
	f.forget()
	return errs
}

// recovery applies again to the boards what they have lost of a queue.
func (f *fixture) recovery(q ingest.Queue, boards ingest.Entries) *recovery.Recovery {
	return f.recoveryOf(q, f.env.Redis, boards, time.Minute)
}

// recoveryOf is recovery for boards in another Redis, which may be behind by rewind.
func (f *fixture) recoveryOf(q ingest.Queue, rdb redis.UniversalClient, boards ingest.Entries, rewind time.Duration) *recovery.Recovery {
	replayer := &ingest.Replayer{Queue: q, Targets: f.targets(), Entries: boards, Clock: time.Now, Log: f.env.Log, Rewind: rewind}
	return &recovery.Recovery{
		Detector: recovery.NewWriterDetector(rdb, f.env.Keys, recovery.Queue), Replay: replayer.Replay,
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
	recoverOnce := func(boards ingest.Entries) error {
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

// Two masters at once: a process goes on applying updates to the old one while another
// process replays and checkpoints the new one, and after that. Once it reaches the new
// one, its updates are applied there, however long that took.
func TestUpdatesAppliedToAnOldMaster(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p, split := newFixture(t, env), testenv.StartSplit(t)
	q := p.stream()
	defer q.Close()
	onOld, onNew := board.NewStore(split.Former, env.Keys, env.Clock.Now, nil), board.NewStore(split.Promoted, env.Keys, env.Clock.Now, nil)
	apply := func(u ingest.Update) {
		t.Helper()
		p.append(q, u)
		stop := p.run(p.consumer(q, onOld))
		p.drained(q)
		stop()
	}
	during := func() {}
	// No rewind: the test is shorter than one.
	first := p.recoveryOf(q, split.Former, onOld, 0)
	second := p.recoveryOf(q, split.Promoted, forgetful{onNew, func() { during() }}, 0)
	recoverWith := func(processes ...*recovery.Recovery) {
		t.Helper()
		for _, r := range processes {
			if _, err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	recoverWith(first)
	apply(p.update(1, 5))
	split.Promote()
	during = func() { apply(p.update(2, 6)) }
	recoverWith(second)
	during = func() {}
	recoverWith(first, second)
	apply(p.update(3, 7))
	recoverWith(first, second)

	split.Heal()
	recoverWith(first)
	p.boards = onNew
	if got := p.scores(); len(got) != 3 || got[1] != 5 || got[2] != 6 || got[3] != 7 {
		t.Errorf("in the end the board holds %v", got)
	}
	for i, r := range []*recovery.Recovery{first, second} {
		if loss := testenv.Must(r.Detector.Detect(t.Context())); loss.Extent != recovery.NothingLost {
			t.Errorf("process %d still finds %+v", i+1, loss)
		}
	}
}
