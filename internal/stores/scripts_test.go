package stores_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// countScript adds a number to a key and returns the sum.
const countScript = `return redis.call('INCRBY', KEYS[1], ARGV[1])`

// scripts is a client of a server or a cluster of its own.
type scripts struct {
	t   *testing.T
	rdb redis.UniversalClient
	all []*testenv.Node
}

func newScripts(t *testing.T, use func(*config.Redis), all ...*testenv.Node) *scripts {
	var cfg config.Redis
	use(&cfg)
	s := &scripts{t: t, rdb: stores.OpenRedis(cfg), all: all}
	t.Cleanup(func() {
		if err := s.rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// flush makes all servers forget their scripts.
func (s *scripts) flush() {
	s.t.Helper()
	for _, node := range s.all {
		node.FlushScripts()
	}
}

// texts returns how many scripts the servers have received as texts.
func (s *scripts) texts() (texts int) {
	s.t.Helper()
	for _, node := range s.all {
		texts += node.ScriptTexts()
	}
	return texts
}

// key returns one of a few keys, which are on all nodes of a cluster.
func key(i int) string { return fmt.Sprintf("n%d", i) }

// Scripts are sent by their hash. Servers that lack them get the texts, and every command runs
// once: alone, in a pipeline with others, in a transaction, and through the client of one node.
func TestScripts(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *scripts{
		"server": func(t *testing.T) *scripts {
			server := testenv.StartRedis(t)
			return newScripts(t, server.Use, server.Node)
		},
		"cluster": func(t *testing.T) *scripts {
			cluster := testenv.StartCluster(t)
			return newScripts(t, cluster.Use, cluster.Nodes...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			const keys = 30
			want := make([]int, keys)
			for round := range 6 {
				if round%2 == 0 {
					s.flush()
				}
				texts := s.texts()
				s.run(want)
				if sent := s.texts() - texts; (sent == 0) != (round%2 == 1) {
					t.Errorf("round %d: %d texts", round, sent)
				}
			}
			texts := s.texts()
			transaction := s.rdb.TxPipeline()
			s.flush()
			transaction.Incr(t.Context(), key(0))
			sum := transaction.Eval(t.Context(), countScript, []string{key(0)}, 1)
			if _, err := transaction.Exec(t.Context()); err != nil || sum.Val() != int64(want[0]+2) || s.texts() != texts+1 {
				t.Errorf("a transaction: %v, %v, %d texts", sum, err, s.texts()-texts)
			}
		})
	}
}

// run runs scripts in every way, and adds what they add to want, by key.
func (s *scripts) run(want []int) {
	s.t.Helper()
	ctx := s.t.Context()
	check := func(what string, i int, cmd *redis.Cmd) {
		s.t.Helper()
		want[i]++
		if sum, err := cmd.Int(); err != nil || sum != want[i] {
			s.t.Errorf("%s: %d, %v, want %d", what, sum, err, want[i])
		}
	}
	pipe := s.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(want))
	plain := make([]*redis.StringCmd, len(want))
	for i := range want {
		cmds[i] = pipe.Eval(ctx, countScript, []string{key(i)}, 1)
		plain[i] = pipe.Get(ctx, "none")
	}
	if _, err := pipe.Exec(ctx); err != redis.Nil { //nolint:errorlint // nothing wraps it
		s.t.Errorf("pipeline: %v", err)
	}
	for i := range want {
		check("pipeline", i, cmds[i])
		if err := plain[i].Err(); err != redis.Nil { //nolint:errorlint // nothing wraps it
			s.t.Errorf("another command: %v", err)
		}
	}
	check("alone", 1, s.rdb.Eval(ctx, countScript, []string{key(1)}, 1))
	check("any command", 2, s.rdb.Do(ctx, "eval", countScript, 1, key(2), 1))
	node := s.rdb
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		node = testenv.Must(cluster.MasterForKey(ctx, key(3)))
	}
	check("node", 3, node.Eval(ctx, countScript, []string{key(3)}, 1))
}

// While a slot moves, a script follows its key to a node that lacks the script.
func TestScriptsOfAMovingSlot(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	s := newScripts(t, cluster.Use, cluster.Nodes...)
	slot := int(testenv.Must(s.rdb.ClusterKeySlot(t.Context(), key(0)).Result()))
	from, to := cluster.Owners(slot)
	cluster.BeginMove(slot, from, to)
	for range 2 {
		s.flush()
		pipe := s.rdb.Pipeline()
		for i := range 3 {
			pipe.Eval(t.Context(), countScript, []string{key(i)}, 1)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Error(err)
		}
		s.flush()
		if err := s.rdb.Eval(t.Context(), countScript, []string{key(0)}, 1).Err(); err != nil {
			t.Error(err)
		}
	}
	cluster.EndMove(slot, from, to)
	if sum, err := s.rdb.Get(t.Context(), key(0)).Int(); err != nil || sum != 4 {
		t.Errorf("%d, %v, want 4", sum, err)
	}
}

// A server that was started again has no scripts.
func TestScriptsAfterARestart(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	s := newScripts(t, server.Use, server.Node)
	for want := 1; want <= 3; want++ {
		if sum, err := s.rdb.Eval(t.Context(), countScript, []string{key(0)}, 1).Int(); err != nil || sum != want {
			t.Errorf("%d, %v, want %d", sum, err, want)
		}
		server.Kill()
		server.Start()
	}
}
