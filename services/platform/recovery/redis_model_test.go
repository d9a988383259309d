package recovery_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/services/platform/recovery"
)

// Processes consume one queue and apply its updates, each to the server that it
// reaches, while servers are promoted, are emptied, or come back in an earlier state.
// Whatever the order: in the end, when every process reaches the newest master, that
// one has every update that was acknowledged, by whichever process.
func TestNoAcknowledgedUpdateIsLost(t *testing.T) {
	t.Parallel()
	var servers []*redis.Client
	for range consumers + 1 {
		server := newServer(t).rdb
		if err := server.ConfigSet(t.Context(), "appendonly", "no").Err(); err != nil { // it makes writes slow
			t.Fatal(err)
		}
		servers = append(servers, server)
	}
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(r, servers)
		for range rapid.IntRange(1, 150).Draw(r, "steps") {
			w.step(rapid.SampledFrom(w.processes).Draw(r, "process"), rapid.IntRange(0, 99).Draw(r, "event"))
		}
		w.check()
	})
}

const (
	consumers = 3
	// applied is the set of the updates that a server has.
	applied = "applied"
)

// world holds the state that the processes of the test share. An update is its position in the
// queue, which is also the second after noon at which it was queued.
type world struct {
	*rapid.T
	servers   []*redis.Client
	newest    *redis.Client
	replica   map[string]string // what the replica of the newest master has: dumps by key
	queue     []bool            // whether each update was acknowledged
	processes []*consumer
}

// consumer is a process, which may be in the middle of a recovery.
type consumer struct {
	redis.UniversalClient // the server that it reaches
	detector              *recovery.WriterDetector
	step                  int // of the recovery: 0 if there is none
	loss                  recovery.Loss
	upto, end             int // of the replay
	// apart says whether it has written to another server than the newest, and the newest has no record of that;
	// recorded, whether it has one that the replica has not received yet.
	apart, recorded bool
}

func newWorld(r *rapid.T, servers []*redis.Client) *world {
	w := &world{T: r, servers: servers, newest: servers[0]}
	for _, server := range servers {
		w.do(server.FlushAll(w.ctx()))
	}
	for range consumers {
		p := &consumer{UniversalClient: w.newest}
		w.processes = append(w.processes, p)
		w.restart(p)
	}
	w.copy()
	return w
}

func (w *world) ctx() context.Context { return w.Context() }

func (w *world) do(cmd redis.Cmder) {
	w.Helper()
	if err := cmd.Err(); err != nil {
		w.Fatal(err)
	}
}

// step lets an event happen, which is a number below 100: the frequent ones at first.
func (w *world) step(p *consumer, event int) {
	switch {
	case event < 35:
		w.queue = append(w.queue, false)
		w.consume(p)
	case event < 40:
		w.queue = append(w.queue, false)
	case event < 45:
		w.consume(p)
	case event < 65:
		w.recoverWholly(p)
	case event < 80:
		w.recover(p)
	case event < 88:
		p.UniversalClient = w.newest
	case event < 93:
		w.promote()
	case event < 97:
		w.copy()
	case event < 99:
		w.restart(p)
	default:
		w.do(w.newest.FlushAll(w.ctx()))
	}
}

// restart starts a process anew, unless it is apart: what it wrote to an old master only itself knows.
// What it has recorded about that on the newest one reaches the replica before it ends.
func (w *world) restart(p *consumer) {
	if p.apart {
		return
	}
	w.copy()
	p.step, p.detector = 0, recovery.NewWriterDetector(p, keys.Builder{}, recovery.Queue)
	w.detect(p)
}

// detect looks for a loss.
func (w *world) detect(p *consumer) {
	w.Helper()
	loss, err := p.detector.Detect(w.ctx())
	if err != nil {
		w.Fatal(err)
	}
	p.loss = loss
	if p.UniversalClient == w.newest {
		p.apart, p.recorded = false, p.apart || p.recorded
	}
}

// consume applies the oldest update that waits, and acknowledges it.
func (w *world) consume(p *consumer) {
	i := slices.Index(w.queue, false)
	if i < 0 {
		return
	}
	w.do(p.SAdd(w.ctx(), applied, i))
	w.queue[i] = true
	p.apart = p.apart || p.UniversalClient != w.newest
}

// recover takes the next step of a process's recovery.
func (w *world) recover(p *consumer) {
	switch p.step {
	case 0:
		w.detect(p)
		p.end, p.upto = len(w.queue), slices.Index(w.queue, false)
		if p.upto < 0 {
			p.upto = len(w.queue)
		}
	case 1:
		since := max(0, int(p.loss.CheckpointedAt.Sub(testenv.Noon)/time.Second))
		for i := since; i < p.end && p.loss.Extent != recovery.NothingLost; i++ {
			w.do(p.SAdd(w.ctx(), applied, i))
		}
	case 2:
		// It may be refused; then the loss remains.
		_ = p.detector.Checkpoint(w.ctx(), p.loss, testenv.Noon.Add(time.Duration(p.upto)*time.Second))
	}
	p.step = (p.step + 1) % 3
}

// recoverWholly does a recovery from its beginning to its end.
func (w *world) recoverWholly(p *consumer) {
	p.step = 0
	w.recover(p)
	w.recover(p)
	w.recover(p)
}

// copy lets the replica receive everything that the newest master has.
func (w *world) copy() {
	w.replica = make(map[string]string)
	for _, key := range w.newest.Keys(w.ctx(), "*").Val() {
		w.replica[key] = w.newest.Dump(w.ctx(), key).Val()
	}
	for _, p := range w.processes {
		p.recorded = false
	}
}

// promote makes the replica the newest master: a server that no process reaches.
func (w *world) promote() {
	for _, server := range w.servers {
		reached := func(p *consumer) bool { return p.UniversalClient == server }
		if server == w.newest || slices.ContainsFunc(w.processes, reached) {
			continue
		}
		w.do(server.FlushAll(w.ctx()))
		for key, dump := range w.replica {
			w.do(server.Restore(w.ctx(), key, 0, dump))
		}
		w.do(server.Do(w.ctx(), "replicaof", "127.0.0.1", "1"))
		w.do(server.Do(w.ctx(), "replicaof", "no", "one"))
		w.newest = server
		for _, p := range w.processes {
			p.apart, p.recorded = p.apart || p.recorded, false
		}
		return
	}
}

// check lets every process reach the newest master and recover there.
func (w *world) check() {
	w.Helper()
	for _, p := range w.processes {
		p.UniversalClient = w.newest
	}
	for n, left := 0, true; left; n++ {
		if n > 2*consumers {
			w.Fatal("the processes replay for ever")
		}
		left = false
		for _, p := range w.processes {
			w.recoverWholly(p)
			left = left || p.loss.Extent != recovery.NothingLost
		}
	}
	for i, acknowledged := range w.queue {
		if acknowledged && !w.newest.SIsMember(w.ctx(), applied, strconv.Itoa(i)).Val() {
			w.Errorf("update %d of %d is lost", i, len(w.queue))
		}
	}
}
