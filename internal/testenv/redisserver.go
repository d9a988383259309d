package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// RedisServer is a Redis of the test's own, to be killed and started again.
// Everything that it acknowledged is on its disk.
type RedisServer struct {
	*Node
	dir string
}

// StartRedis starts a Redis for the test, which is killed at its end.
func StartRedis(t testing.TB) *RedisServer {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	return &RedisServer{dir: dir, Node: startNode(t, port, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--set-max-intset-entries", "5000")}
}

// Forget makes a server that was killed forget the last bytes of its log, as a
// crash of the machine does to what was written and not synced yet.
func (s *RedisServer) Forget(bytes int64) {
	s.t.Helper()
	// Redis rewrites no log that is as short as a test's: this is all of it.
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
