package testenv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// failAfter is the time after which nodes and Sentinels declare a silent node
	// dead, in milliseconds.
	failAfter = 1000
)

// Node is a Redis process that a test kills and starts again.
type Node struct {
	t    testing.TB
	args []string
	port int
	cmd  *exec.Cmd
}

func startNode(t testing.TB, port int, args ...string) *Node {
	t.Helper()
	n := &Node{t: t, port: port, args: args}
	t.Cleanup(n.Kill)
	n.Start()
	return n
}

// Addr returns the node's address, which stays the same while it is down.
func (n *Node) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// Start starts the node and waits until it answers.
func (n *Node) Start() {
	n.t.Helper()
	n.cmd = exec.Command("redis-server", n.args...)
	if err := n.cmd.Start(); err != nil {
		n.t.Fatalf("start redis-server (Debian's package is redis-server): %v", err)
	}
	n.with(func(rdb *redis.Client) {
		Eventually(n.t, "redis answers", func() bool { return rdb.Ping(context.Background()).Err() == nil })
	})
}

// Kill ends the node at once, as a crash does.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	if err := n.cmd.Process.Kill(); err != nil {
		n.t.Error(err)
	}
	// A killed process always ends with an error.
	if err := n.cmd.Wait(); err == nil {
		n.t.Error("redis ended by itself")
	}
	n.cmd = nil
}

// Hang stops the node without ending it, as a machine that hangs does: it accepts
// connections and answers nothing. Resume lets it go on.
func (n *Node) Hang() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		n.t.Fatal(err)
	}
	awaitStopped(n.t, n.cmd.Process.Pid)
}

// Resume ends Hang.
func (n *Node) Resume() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		n.t.Fatal(err)
	}
}

// with calls do with a client of this node alone.
func (n *Node) with(do func(*redis.Client)) {
	rdb := redis.NewClient(&redis.Options{Addr: n.Addr(), DialTimeout: time.Second})
	do(rdb)
	if err := rdb.Close(); err != nil {
		n.t.Error(err)
	}
}

// ask sends one command to this node alone and returns the answer as text.
func (n *Node) ask(args ...any) (text string, err error) {
	n.with(func(rdb *redis.Client) { text, err = rdb.Do(context.Background(), args...).Text() })
	return text, err
}

// must is ask for commands that can't fail.
func (n *Node) must(args ...any) string {
	n.t.Helper()
	text, err := n.ask(args...)
	if err != nil {
		n.t.Fatalf("%v: %v", args, err)
	}
	return text
}

// Cluster is a Redis Cluster of one test: three masters with one replica each.
type Cluster struct {
	t     testing.TB
	Nodes []*Node
}

// StartCluster starts a cluster for the test and waits until every node serves.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range 2 * clusterMasters {
		port := FreePort(t)
		c.Nodes = append(c.Nodes, startNode(t, port, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", t.TempDir(),
			"--cluster-port", strconv.Itoa(FreePort(t)), "--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(failAfter),
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--set-max-intset-entries", "5001"))
	}
	for i, n := range c.Nodes[:clusterMasters] {
		n.must("cluster", "addslotsrange", i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1)
		n.must("cluster", "set-config-epoch", i+1)
	}
	for _, n := range c.Nodes[1:] {
		c.Nodes[0].must("cluster", "meet", "127.0.0.1", n.port, c.busPort(n))
	}
	for i, n := range c.Nodes[clusterMasters:] {
		master := c.Nodes[i].must("cluster", "myid")
		Eventually(t, "the nodes know each other", func() bool {
			_, err := n.ask("cluster", "replicate", master)
			return err == nil
		})
	}
	c.AwaitWhole()
	return c
}

// busPort returns the node's port for the other nodes.
func (c *Cluster) busPort(n *Node) string {
	return n.args[slices.Index(n.args, "--cluster-port")+1]
}

// Use makes the settings connect to the cluster.
func (c *Cluster) Use(cfg *config.Redis) {
	cfg.Mode = "cluster"
	cfg.Addrs = nil
	for _, n := range c.Nodes {
		cfg.Addrs = append(cfg.Addrs, n.Addr())
	}
}

// AwaitWhole waits until every node reports that all slots are served and that
// every master has a replica in sync.
func (c *Cluster) AwaitWhole() {
	c.t.Helper()
	Eventually(c.t, "the cluster is whole", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(n *Node) bool { return n.cmd != nil && !n.whole() })
	})
}

// whole reports whether the node sees a complete cluster.
func (n *Node) whole() bool {
	if info, err := n.ask("cluster", "info"); err != nil || field(info, "cluster_state") != "ok" || field(info, "cluster_known_nodes") != strconv.Itoa(2*clusterMasters) {
		return false
	}
	info, err := n.ask("info", "replication")
	if err != nil {
		return false
	}
	if field(info, "role") == "master" {
		return field(info, "connected_slaves") != "0"
	}
	return field(info, "master_link_status") == "up"
}

// field returns a value of an answer to INFO; "" if the answer lacks it.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Masters returns the running masters.
func (c *Cluster) Masters() []*Node {
	var masters []*Node
	for _, n := range c.Nodes {
		if n.cmd == nil {
			continue
		}
		if info, err := n.ask("info", "replication"); err == nil && field(info, "role") == "master" {
			masters = append(masters, n)
		}
	}
	return masters
}

// NeverFailOver makes the nodes wait for a silent master instead of replacing it. A node
// that is started again forgets this.
func (c *Cluster) NeverFailOver() {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.must("config", "set", "cluster-node-timeout", 10*60*1000)
	}
}

// SyncEveryWrite makes the nodes sync every write before they acknowledge it. A node that is
// killed then has all of them when it starts again. That node forgets this setting.
func (c *Cluster) SyncEveryWrite() {
	c.t.Helper()
	for _, n := range c.Nodes {
		n.must("config", "set", "appendfsync", "always")
	}
}

// MoveSlot moves one slot with all its keys from one master to another, as
// resharding does.
func (c *Cluster) MoveSlot(slot int, from, to *Node) {
	c.t.Helper()
	c.BeginMove(slot, from, to)
	for c.MoveKey(slot, from, to) {
	}
	c.EndMove(slot, from, to)
}

// Owners returns the master that serves a slot, and another master.
func (c *Cluster) Owners(slot int) (from, to *Node) {
	c.t.Helper()
	masters := c.Masters()
	var stretches []redis.ClusterSlot
	c.Nodes[0].with(func(rdb *redis.Client) {
		stretches = Must(rdb.ClusterSlots(context.Background()).Result()) //nolint:staticcheck // the plainer answer of the two
	})
	for _, stretch := range stretches {
		if slot < stretch.Start || slot > stretch.End {
			continue
		}
		for i, m := range masters {
			if m.Addr() == stretch.Nodes[0].Addr {
				return m, masters[(i+1+rand.IntN(len(masters)-1))%len(masters)]
			}
		}
	}
	c.t.Fatalf("no master serves slot %d", slot)
	return nil, nil
}

// BeginMove marks a slot as moving from one master to another.
func (c *Cluster) BeginMove(slot int, from, to *Node) {
	c.t.Helper()
	to.must("cluster", "setslot", slot, "importing", from.must("cluster", "myid"))
	from.must("cluster", "setslot", slot, "migrating", to.must("cluster", "myid"))
}

// MoveKey moves one key of a moving slot. It returns false if no key is left.
func (c *Cluster) MoveKey(slot int, from, to *Node) (moved bool) {
	c.t.Helper()
	from.with(func(rdb *redis.Client) {
		keys, err := rdb.ClusterGetKeysInSlot(context.Background(), slot, 1).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, key := range keys {
			if err := rdb.Migrate(context.Background(), "127.0.0.1", strconv.Itoa(to.port), key, 0, 10*time.Second).Err(); err != nil {
				c.t.Fatal(err)
			}
			moved = true
		}
	})
	return moved
}

// EndMove tells every master the new owner of the slot.
func (c *Cluster) EndMove(slot int, from, to *Node) {
	c.t.Helper()
	id := to.must("cluster", "myid")
	for _, n := range append([]*Node{to, from}, c.Masters()...) {
		n.must("cluster", "setslot", slot, "node", id)
	}
}

// Refused returns how often the node has answered with this kind of error.
func (n *Node) Refused(kind string) (count int) {
	n.t.Helper()
	_, text, _ := strings.Cut(field(n.must("info", "errorstats"), "errorstat_"+kind), "=")
	if text == "" {
		return 0
	}
	return Must(strconv.Atoi(text))
}

// Sentinels is a master with two replicas and three Sentinels that watch them.
type Sentinels struct {
	t         testing.TB
	Servers   []*Node
	Sentinels []*Node
}

const sentinelMaster = "stepboard"

// StartSentinels starts the servers and Sentinels and waits until all know each
// other.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{t: t}
	for i := range 3 {
		port := FreePort(t)
		args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", t.TempDir(), "--repl-diskless-sync-delay", "0",
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--set-max-intset-entries", "5001"}
		if i > 0 {
			args = append(args, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Servers[0].port))
		}
		s.Servers = append(s.Servers, startNode(t, port, args...))
	}
	for range 3 {
		port := FreePort(t)
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %[3]s 127.0.0.1 %[4]d 2\n"+
			"sentinel down-after-milliseconds %[3]s %[5]d\nsentinel failover-timeout %[3]s 5000\n",
			port, filepath.Dir(file), sentinelMaster, s.Servers[0].port, failAfter)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Sentinels = append(s.Sentinels, startNode(t, port, file, "--sentinel"))
	}
	s.AwaitWhole()
	return s
}

// Use makes the settings connect through the Sentinels.
func (s *Sentinels) Use(cfg *config.Redis) {
	cfg.Mode, cfg.MasterName, cfg.Addrs = "sentinel", sentinelMaster, nil
	for _, n := range s.Sentinels {
		cfg.Addrs = append(cfg.Addrs, n.Addr())
	}
}

// Master returns the server that all Sentinels name as the master; nil if they
// disagree.
func (s *Sentinels) Master() *Node {
	var port string
	for _, n := range s.Sentinels {
		var addr []string
		var err error
		n.with(func(rdb *redis.Client) {
			cmd := redis.NewStringSliceCmd(context.Background(), "sentinel", "get-master-addr-by-name", sentinelMaster)
			err = rdb.Process(context.Background(), cmd)
			addr = cmd.Val()
		})
		if err != nil || len(addr) != 2 || (port != "" && addr[1] != port) {
			return nil
		}
		port = addr[1]
	}
	i := slices.IndexFunc(s.Servers, func(n *Node) bool { return strconv.Itoa(n.port) == port })
	if i < 0 {
		return nil
	}
	return s.Servers[i]
}

// AwaitWhole waits until the Sentinels know each other, the master and its
// replicas, and the replicas are in sync.
func (s *Sentinels) AwaitWhole() {
	s.t.Helper()
	Eventually(s.t, "the Sentinels know everybody", func() bool {
		master := s.Master()
		if master == nil || master.cmd == nil {
			return false
		}
		info, err := master.ask("info", "replication")
		if err != nil || field(info, "role") != "master" || field(info, "connected_slaves") != "2" {
			return false
		}
		return !slices.ContainsFunc(s.Sentinels, func(n *Node) bool {
			_, err := n.ask("sentinel", "ckquorum", sentinelMaster)
			if err != nil {
				return true
			}
			info, err := n.ask("info", "sentinel")
			return err != nil || !strings.Contains(info, "slaves=2,sentinels=3")
		})
	})
}
