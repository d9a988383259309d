package recovery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/recovery"
)

// server is a Redis of its own, with a detector, and events that can happen to it.
type server struct {
	t        *testing.T
	process  *testenv.RedisServer
	rdb      *redis.Client
	detector *recovery.RedisDetector
}

func newServer(t *testing.T) *server {
	process := testenv.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: process.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return &server{t: t, process: process, rdb: rdb, detector: recovery.NewRedisDetector(rdb, keys.Builder{}, recovery.Queue)}
}

func (s *server) detect() recovery.Loss {
	s.t.Helper()
	return testenv.Must(s.detector.Detect(s.t.Context()))
}

// detected is an event: another process detects the loss.
func (s *server) detected() { s.detect() }

// checkpointed is an event: another process detects the loss and checkpoints.
func (s *server) checkpointed() {
	s.t.Helper()
	if err := s.detector.Checkpoint(s.t.Context(), s.detect(), testenv.Noon); err != nil {
		s.t.Fatal(err)
	}
}

// emptied is an event: the server loses all of its data.
func (s *server) emptied() {
	s.t.Helper()
	if err := s.rdb.FlushAll(s.t.Context()).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// promoted is an event: the server becomes a replica, and a master again.
func (s *server) promoted() {
	s.t.Helper()
	for _, master := range [][]any{{"replicaof", "127.0.0.1", testenv.FreePort(s.t)}, {"replicaof", "no", "one"}} {
		if err := s.rdb.Do(s.t.Context(), master...).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// restarted is an event: the server restarts with all of its data.
func (s *server) restarted() {
	s.t.Helper()
	s.process.Kill()
	s.process.Start()
}

// A checkpoint is stored only if Redis has forgotten nothing since Detect.
func TestACheckpointNeedsAnUnchangedServer(t *testing.T) {
	t.Parallel()
	type events []func(*server)
	checkpointed, emptied, restarted, detected := (*server).checkpointed, (*server).emptied, (*server).restarted, (*server).detected
	const nothing, last, everything = recovery.NothingLost, recovery.LastWritesLost, recovery.EverythingLost
	for _, tt := range []struct {
		name      string
		before    events // before Detect
		found     recovery.Extent
		meanwhile events // between Detect and Checkpoint
		refused   bool
		left      recovery.Extent
	}{
		{"nothing was lost", events{checkpointed}, nothing, nil, false, nothing},
		{"nothing was lost, then everything", events{checkpointed}, nothing, events{emptied}, false, everything},
		{"nothing was lost, then a restart", events{checkpointed}, nothing, events{restarted}, false, last},
		{"a restart", events{checkpointed, restarted}, last, nil, false, nothing},
		{"a promotion", events{checkpointed, (*server).promoted}, last, nil, false, nothing},
		{"a restart, detected by another process too", events{checkpointed, restarted}, last, events{detected}, false, nothing},
		{"a restart, then everything was lost", events{checkpointed, restarted}, last, events{emptied}, true, everything},
		{"two restarts", events{checkpointed, restarted}, last, events{restarted}, true, last},
		{"two restarts, the second detected by another process", events{checkpointed, restarted}, last, events{restarted, detected}, true, last},
		{"everything was lost", nil, everything, nil, false, nothing},
		{"everything was lost, detected by another process too", events{detected}, everything, events{detected}, false, nothing},
		{"everything was lost twice", nil, everything, events{emptied}, true, everything},
		{"everything was lost twice, the second time detected by another process", nil, everything, events{emptied, detected}, true, everything},
		{"everything was lost, then a restart", nil, everything, events{restarted}, true, everything},
		{"everything was lost, then a restart, detected by another process", nil, everything, events{restarted, detected}, true, everything},
		{"everything was lost, and another process has restored it", nil, everything, events{checkpointed}, true, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			for _, event := range tt.before {
				event(s)
			}
			found := s.detect()
			if found.Extent != tt.found || tt.found != everything && !found.CheckpointedAt.Equal(testenv.Noon) {
				t.Errorf("found %+v, want %v", found, tt.found)
			}
			for _, event := range tt.meanwhile {
				event(s)
			}
			err := s.detector.Checkpoint(t.Context(), found, testenv.Noon.Add(time.Minute))
			if tt.refused != (models.CodeOf(err) == models.CodeUnavailable) || !tt.refused && err != nil {
				t.Errorf("Checkpoint returned %v", err)
			}
			if left := s.detect(); left.Extent != tt.left {
				t.Errorf("left %+v, want %v", left, tt.left)
			}
		})
	}
}

// A Redis user without the right to INFO is refused, and no detection that needs
// it passes for one that has found nothing. The simulation's has no INFO.
func TestTheRightToInfo(t *testing.T) {
	t.Parallel()
	for _, rights := range [][]any{{"+@all", "-info"}, {"+@all", "-info", "+info|memory"}} {
		s := newServer(t)
		s.checkpointed()
		if err := recovery.CheckRights(t.Context(), s.rdb); err != nil {
			t.Errorf("with the right: %v", err)
		}
		rules := append([]any{"ACL", "SETUSER", "default"}, rights...)
		if err := s.rdb.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		if err := recovery.CheckRights(t.Context(), s.rdb); err == nil || !strings.Contains(err.Error(), "+info") {
			t.Errorf("%v: %v", rights, err)
		}
		if loss, err := s.detector.Detect(t.Context()); err == nil {
			t.Errorf("%v: Detect found %+v", rights, loss)
		}
	}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := testenv.StartCluster(t)
		env := testenv.RealOn(t, cluster.Use)
		if err := recovery.CheckRights(t.Context(), env.Redis); err != nil {
			t.Errorf("with the right: %v", err)
		}
		last := redis.NewClient(&redis.Options{Addr: cluster.Masters()[2].Addr()})
		defer last.Close()
		if err := last.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err(); err != nil {
			t.Fatal(err)
		}
		if err := recovery.CheckRights(t.Context(), env.Redis); err == nil || !strings.Contains(err.Error(), "+info") {
			t.Errorf("one master without the right: %v", err)
		}
	})
}
