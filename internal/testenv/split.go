package testenv

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
)

// Split is a master and its replica. A test promotes the replica while a process
// still reaches the old master, so that there are two masters; or it lets the replica
// fall behind before it takes over.
type Split struct {
	// Former is a client of the old master, and after Heal of the new one.
	Former *redis.Client
	// Promoted is a client of the replica, which becomes the new master.
	Promoted *redis.Client

	t        testing.TB
	former   *RedisServer
	promoted *RedisServer
	link     *Proxy // where Former connects to
	stream   *Proxy // where the replica connects to
}

// StartSplit starts the servers and waits until the replica follows the master.
func StartSplit(t testing.TB) *Split {
	t.Helper()
	s := &Split{t: t, former: StartRedis(t), promoted: StartRedis(t)}
	s.link, s.stream = NewProxy(t, s.former.Addr()), NewProxy(t, s.former.Addr())
	s.Former = redis.NewClient(&redis.Options{Addr: s.link.Addr()})
	s.Promoted = redis.NewClient(&redis.Options{Addr: s.promoted.Addr()})
	t.Cleanup(func() {
		if err := s.Former.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Promoted.Close(); err != nil {
			t.Error(err)
		}
	})
	s.former.must("config", "set", "repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(s.stream.Addr(), ":")
	s.promoted.must("replicaof", host, port)
	Eventually(t, "the replica follows", func() bool {
		info, err := s.promoted.ask("info", "replication")
		return err == nil && field(info, "master_link_status") == "up"
	})
	return s
}

// UseFormer makes the settings connect to the same server as Former.
func (s *Split) UseFormer(cfg *config.Redis) { cfg.Addrs = []string{s.link.Addr()} }

// UsePromoted makes the settings connect to the new master.
func (s *Split) UsePromoted(cfg *config.Redis) { s.promoted.Use(cfg) }

// Promote makes the replica a master, after it has received everything.
func (s *Split) Promote() {
	s.t.Helper()
	s.awaitReplica()
	s.promoted.must("replicaof", "no", "one")
}

// CutReplica makes the replica fall behind: it has received everything until now, and
// receives nothing from now on.
func (s *Split) CutReplica() {
	s.t.Helper()
	s.awaitReplica()
	s.stream.Cut()
}

// FailOver makes the replica the master, as it is, and kills the old one. Processes that use
// the old master reach the new one.
func (s *Split) FailOver() {
	s.t.Helper()
	s.promoted.must("replicaof", "no", "one")
	s.Heal()
}

// awaitReplica waits until the replica has received everything.
func (s *Split) awaitReplica() {
	s.t.Helper()
	ctx := context.Background()
	Eventually(s.t, "the replica has everything", func() bool {
		conn := s.Former.Conn()
		defer conn.Close()
		// WAIT is about the writes of its own connection.
		if err := conn.Set(ctx, "promoted", 1, 0).Err(); err != nil {
			return false
		}
		n, err := conn.Do(ctx, "wait", 1, time.Second.Milliseconds()).Int()
		return err == nil && n == 1
	})
}

// Heal ends the old master, so that there is one master again.
func (s *Split) Heal() {
	s.t.Helper()
	s.link.Redirect(s.promoted.Addr())
	s.former.Kill()
	Eventually(s.t, "the new master is reached", func() bool { return s.Former.Ping(context.Background()).Err() == nil })
}
