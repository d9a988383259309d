package board_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
)

// memory is the boards' Redis, and what can happen to it.
type memory struct {
	t      *testing.T
	server *testenv.RedisServer
	rdb    *redis.Client
	notes  *board.LossDetector
}

func newMemory(t *testing.T) *memory {
	server := testenv.StartRedis(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return &memory{t: t, server: server, rdb: rdb, notes: board.NewStore(rdb, keys.Builder{}, time.Now).LossDetector("queue")}
}

func (m *memory) recall() models.LossReport {
	m.t.Helper()
	return testenv.Must(m.notes.Detect(m.t.Context()))
}

// asked is somebody else who looks.
func (m *memory) asked() { m.recall() }

// noted is somebody who looks, and makes good what was lost.
func (m *memory) noted() {
	m.t.Helper()
	if err := m.notes.Checkpoint(m.t.Context(), m.recall(), testenv.Noon); err != nil {
		m.t.Fatal(err)
	}
}

func (m *memory) emptied() {
	m.t.Helper()
	if err := m.rdb.FlushAll(m.t.Context()).Err(); err != nil {
		m.t.Fatal(err)
	}
}

// restarted is a server that comes back with all that it had.
func (m *memory) restarted() {
	m.t.Helper()
	m.server.Kill()
	m.server.Start()
}

// A note is made of what Redis has had ever since it was asked, and of nothing
// else.
func TestOnlyWhatWasNotForgottenMeanwhileIsNoted(t *testing.T) {
	t.Parallel()
	type events []func(*memory)
	noted, emptied, restarted, asked := (*memory).noted, (*memory).emptied, (*memory).restarted, (*memory).asked
	const nothing, last, all = models.NothingLost, models.LastWritesLost, models.AllLost
	for _, tt := range []struct {
		name      string
		before    events // before Recall
		found     models.LossExtent
		meanwhile events // before Remember
		refused   bool
		left      models.LossExtent
	}{
		{"nothing was lost", events{noted}, nothing, nil, false, nothing},
		{"nothing was lost, then all", events{noted}, nothing, events{emptied}, false, all},
		{"nothing was lost, then it restarted", events{noted}, nothing, events{restarted}, false, last},
		{"it restarted", events{noted, restarted}, last, nil, false, nothing},
		{"it restarted, as somebody else saw too", events{noted, restarted}, last, events{asked}, false, nothing},
		{"it restarted, then all was lost", events{noted, restarted}, last, events{emptied}, true, all},
		{"it restarted twice", events{noted, restarted}, last, events{restarted}, true, last},
		{"it restarted twice, as somebody saw", events{noted, restarted}, last, events{restarted, asked}, true, last},
		{"all was lost", nil, all, nil, false, nothing},
		{"all was lost, as somebody else saw too", events{asked}, all, events{asked}, false, nothing},
		{"all was lost twice", nil, all, events{emptied}, true, all},
		{"all was lost twice, as somebody saw", nil, all, events{emptied, asked}, true, all},
		{"all was lost, then it restarted", nil, all, events{restarted}, true, all},
		{"all was lost, then it restarted, as somebody saw", nil, all, events{restarted, asked}, true, all},
		{"all was lost, and somebody else has made it good", nil, all, events{noted}, true, nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMemory(t)
			for _, event := range tt.before {
				event(m)
			}
			found := m.recall()
			if found.Extent != tt.found || tt.found != all && !found.CheckpointedAt.Equal(testenv.Noon) {
				t.Errorf("found %+v, want %v", found, tt.found)
			}
			for _, event := range tt.meanwhile {
				event(m)
			}
			err := m.notes.Checkpoint(t.Context(), found, testenv.Noon.Add(time.Minute))
			if tt.refused != (models.CodeOf(err) == models.CodeUnavailable) || !tt.refused && err != nil {
				t.Errorf("remembering is answered %v", err)
			}
			if left := m.recall(); left.Extent != tt.left {
				t.Errorf("left %+v, want %v", left, tt.left)
			}
		})
	}
}
