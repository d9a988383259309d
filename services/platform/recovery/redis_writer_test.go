package recovery_test

import (
	"testing"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// writer is a process that writes to a server. Its detector remembers servers.
type writer struct {
	*server
	detector *recovery.WriterDetector
}

// writer returns a new process, which has found the server as it is now.
func (s *server) writer() *writer {
	s.t.Helper()
	w := &writer{s, recovery.NewWriterDetector(s.rdb, keys.Builder{}, recovery.Queue)}
	w.detect()
	return w
}

func (w *writer) detect() recovery.Loss {
	w.t.Helper()
	return testenv.Must(w.detector.Detect(w.t.Context()))
}

// wants expects a loss to begin some minutes after noon. A loss since 0 minutes is
// no loss, and one since less than 0 is that of everything.
func (w *writer) wants(what string, minutes time.Duration) recovery.Loss {
	w.t.Helper()
	loss := w.detect()
	extent, at := recovery.LastWritesLost, minute(minutes)
	switch {
	case minutes == 0:
		extent, at = recovery.NothingLost, loss.CheckpointedAt
	case minutes < 0:
		extent, at = recovery.EverythingLost, time.Time{}
	}
	if loss.Extent != extent || !loss.CheckpointedAt.Equal(at) {
		w.t.Errorf("%s: found %+v, want %v since %v", what, loss, extent, at)
	}
	return loss
}

// restores checkpoints after a replay that began some minutes after noon.
func (w *writer) restores(loss recovery.Loss, minutes time.Duration) {
	w.t.Helper()
	if err := w.detector.Checkpoint(w.t.Context(), loss, minute(minutes)); err != nil {
		w.t.Fatal(err)
	}
}

// replica returns a function that promotes a replica, whose checkpoint is as it is now.
func (s *server) replica() (promote func()) {
	s.t.Helper()
	key := keys.Builder{}.LossCheckpoint(recovery.Queue, 0)
	checkpoint := testenv.Must(s.rdb.Dump(s.t.Context(), key).Result())
	return func() {
		s.t.Helper()
		if err := s.rdb.RestoreReplace(s.t.Context(), key, 0, checkpoint).Err(); err != nil {
			s.t.Fatal(err)
		}
		s.promoted()
	}
}

func minute(n time.Duration) time.Time { return testenv.Noon.Add(n * time.Minute) }

// One process still wrote to a server in whose place another one had come, and then
// a third. What it wrote may be missing since the first of them was checkpointed.
func TestAServerThatOthersHaveReplaced(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first, late := s.writer(), s.writer()
	first.restores(first.detect(), 1)
	late.wants("the first server", 0)
	for _, n := range []time.Duration{2, 4} {
		s.restarted()
		first.restores(first.detect(), n)
		first.restores(first.detect(), n+1)
	}
	loss := late.wants("the late process", 2)
	first.wants("the other process", 2)
	s.writer().wants("a new process", 2)
	late.restores(loss, 6)
	for _, w := range []*writer{first, late} {
		w.wants("after the replay", 0)
	}
}

// A process comes from the old server while another one replays. What it wrote since
// the replay began is replayed as well, and nothing else.
func TestAProcessThatComesDuringAReplay(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first, late := s.writer(), s.writer()
	first.restores(first.detect(), 1)
	late.wants("the first server", 0)
	s.restarted()
	loss := first.wants("the other process", 1)
	late.wants("the late process", 1)
	first.restores(loss, 3)
	loss = late.wants("after the replay", 3)
	late.restores(loss, 4)
	first.wants("after two replays", 0)

	// Nothing is known about a server without a checkpoint: it was emptied. Only the
	// first process to come makes everything be replayed.
	s.restarted()
	s.emptied()
	loss = first.wants("an empty server", -1)
	first.restores(loss, 6)
	late.restores(late.wants("the late process", 6), 7)
	first.wants("after everything was replayed", 0)
}

// A process comes during a replay that does not go back far enough for it. The
// replay fails.
func TestAReplayThatDoesNotGoBackFarEnough(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first, late := s.writer(), s.writer()
	first.restores(first.detect(), 1)
	late.wants("the first server", 0)
	s.restarted()
	first.restores(first.detect(), 2)
	first.restores(first.detect(), 3)
	other := s.writer()
	s.restarted()
	loss := other.wants("the other process", 3)
	late.wants("the late process", 2)
	if err := other.detector.Checkpoint(t.Context(), loss, minute(4)); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("a replay from too late: %v", err)
	}
	other.wants("still", 2)
}

// A server is replaced before what a late process made missing was replayed. Writes
// to that server are missing only since it was last known to be complete.
func TestAServerThatIsReplacedBeforeItsCheckpoint(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first, late := s.writer(), s.writer()
	first.restores(first.detect(), 1)
	late.wants("the first server", 0)
	s.restarted()
	first.restores(first.detect(), 2)
	first.restores(first.detect(), 3)
	late.wants("the late process", 2)
	s.restarted()
	first.wants("the other process", 2)
	late.wants("the late process once more", 2)
	late.restores(late.detect(), 4)
	first.wants("after the replay", 0)

	// And before it had a checkpoint at all.
	first, late = s.writer(), s.writer()
	s.restarted()
	first.wants("a server without a checkpoint", 4)
	late.wants("a server without a checkpoint", 4)
	s.restarted()
	late.restores(late.wants("another one", 4), 5)
	first.restores(first.wants("the other process", 4), 6)
	late.wants("after the replay", 0)
}

// The new server fails over to a replica that has not received yet what the late
// process recorded there. The process records it again.
func TestAReplicaThatLacksWhatAProcessRecorded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	first, late := s.writer(), s.writer()
	first.restores(first.detect(), 1)
	late.wants("the first server", 0)
	s.restarted()
	first.restores(first.detect(), 2)
	first.restores(first.detect(), 3)
	promote := s.replica()
	late.wants("the late process", 2)
	promote()
	late.wants("on the promoted replica", 2)
	first.wants("the other process", 2)
}

// Everything was replayed to a server that was emptied, by a process that knows of no other server. A late process, which
// wrote elsewhere until after that, comes; and the server fails over to a replica that has not received its record.
func TestAReplicaOfAnEmptiedServerThatLacksARecord(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	late := s.writer()
	late.restores(late.detect(), 1)
	s.restarted()
	s.emptied()
	first := s.writer()
	first.restores(first.wants("an empty server", -1), 2)
	first.restores(first.detect(), 3)
	promote := s.replica()
	late.wants("the late process", 2)
	promote()
	late.wants("on the promoted replica", 2)
	first.wants("the other process", 2)
}
