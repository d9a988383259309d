package testenv

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a Redis of the test's own, to be killed and started again.
// Everything that it acknowledged is on its disk.
type RedisServer struct {
	t    testing.TB
	dir  string
	port int
	cmd  *exec.Cmd
}

// StartRedis starts a Redis for the test, which is killed at its end.
func StartRedis(t testing.TB) *RedisServer {
	t.Helper()
	s := &RedisServer{t: t, dir: t.TempDir(), port: freePort(t)}
	t.Cleanup(s.Kill)
	s.Start()
	return s
}

// freePort is a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr is where it listens, also while it does not run.
func (s *RedisServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Start starts it on the data that it had, and waits until it answers.
func (s *RedisServer) Start() {
	s.t.Helper()
	s.cmd = exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--set-max-intset-entries", "5000")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server (Debian's package is redis-server): %v", err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr(), DialTimeout: time.Second})
	Eventually(s.t, "redis answers", func() bool { return rdb.Ping(context.Background()).Err() == nil })
	if err := rdb.Close(); err != nil {
		s.t.Error(err)
	}
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

// Kill ends it at once, as a crash does.
func (s *RedisServer) Kill() {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Error(err)
	}
	// It was killed: that it did not end well is no news.
	if err := s.cmd.Wait(); err == nil {
		s.t.Error("redis ended by itself")
	}
	s.cmd = nil
}
