package testenv

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
)

// RedisServer is a Redis of one test, which the test kills and starts again. It
// syncs every write to disk before it acknowledges it.
type RedisServer struct {
	*Node
	dir string
}

// StartRedis starts a Redis for the test. The end of the test kills it.
func StartRedis(t testing.TB) *RedisServer {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	return &RedisServer{dir: dir, Node: startNode(t, port, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--set-max-intset-entries", "5001")}
}

// Forget removes the last bytes from the log of a server that was killed. So
// does a crash of the machine to writes that are not synced yet.
func (s *RedisServer) Forget(bytes int64) {
	s.t.Helper()
	// Redis does not rewrite a short log, so this file is all of it.
	logs, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		s.t.Fatalf("the logs are %v, %v, want one", logs, err)
	}
	info, err := os.Stat(logs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Truncate(logs[0], max(0, info.Size()-bytes)); err != nil {
		s.t.Fatal(err)
	}
}

// Backup copies what the server has now. Restore starts the server with the copy.
func (s *RedisServer) Backup() {
	s.t.Helper()
	s.must("save")
	if err := os.Rename(filepath.Join(s.dir, "dump.rdb"), s.backup()); err != nil {
		s.t.Fatal(err)
	}
}

// Restore starts a server that is down with the copy of Backup in place of its data, as
// operations.md describes it.
func (s *RedisServer) Restore() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "appendonlydir")); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(s.backup(), filepath.Join(s.dir, "dump.rdb")); err != nil {
		s.t.Fatal(err)
	}
	with := s.args
	s.args = append(slices.Clone(with), "--appendonly", "no") // the last value counts
	s.Start()
	s.args = with
	s.must("config", "set", "appendonly", "yes")
	Eventually(s.t, "the log is written", func() bool {
		info := s.must("info", "persistence")
		return field(info, "aof_enabled") == "1" && field(info, "aof_rewrite_in_progress") == "0" && field(info, "aof_rewrite_scheduled") == "0"
	})
}

func (s *RedisServer) backup() string { return filepath.Join(s.dir, "backup.rdb") }

// Use makes the settings connect to the server.
func (s *RedisServer) Use(cfg *config.Redis) { cfg.Addrs = []string{s.Addr()} }

// LimitMemory sets the memory from which on the node refuses writes that need
// more. 0 means no limit.
func (n *Node) LimitMemory(bytes int64) {
	n.t.Helper()
	n.must("config", "set", "maxmemory", bytes)
}

// FillMemory limits the node's memory so that it uses this share of it. It writes
// a large key first, besides which connections need little memory.
func (n *Node) FillMemory(share float64) {
	n.t.Helper()
	n.with(func(rdb *redis.Client) { Must(rdb.SetRange(context.Background(), "ballast", 64<<20, "x").Result()) })
	used := Must(strconv.ParseFloat(field(n.must("info", "memory"), "used_memory"), 64))
	n.LimitMemory(int64(used / share))
}
