package testenv

import (
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kafkaBrokers is how many brokers a test's Kafka has: more than one, so that a
// topic's partitions and a group's coordinator are not all in one place.
const kafkaBrokers = 2

// KafkaServer is a Kafka of the test's own, in the test's process, at ports
// that other processes can connect to. It keeps its data when it is stopped
// and started again.
type KafkaServer struct {
	t       testing.TB
	dir     string
	ports   []int
	cluster *kfake.Cluster
}

// StartKafka starts a Kafka for the test, which is stopped at its end. It has
// no topics.
func StartKafka(t testing.TB) *KafkaServer {
	t.Helper()
	s := &KafkaServer{t: t, dir: t.TempDir()}
	for range kafkaBrokers {
		s.ports = append(s.ports, FreePort(t))
	}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Start starts it on the data that it had, at the addresses that it had.
func (s *KafkaServer) Start() {
	s.t.Helper()
	cluster, err := kfake.NewCluster(kfake.Ports(s.ports...), kfake.DataDir(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	s.cluster = cluster
}

// Stop ends it: connections break, and new ones are refused.
func (s *KafkaServer) Stop() {
	if s.cluster != nil {
		s.cluster.Close()
		s.cluster = nil
	}
}

// Addrs is where its brokers listen, also while it does not run.
func (s *KafkaServer) Addrs() []string {
	addrs := make([]string, len(s.ports))
	for i, port := range s.ports {
		addrs[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return addrs
}

// CreateTopic creates a topic with settings other than the defaults: deleted
// after 7 days, not compacted.
func (s *KafkaServer) CreateTopic(name string, partitions int, settings map[string]string) {
	s.t.Helper()
	if err := s.cluster.CreateTopic(name, int32(partitions), settings); err != nil {
		s.t.Fatal(err)
	}
}

// Cluster is the running server itself, to look into it and to make it fail.
// It is another one after each start.
func (s *KafkaServer) Cluster() *kfake.Cluster { return s.cluster }
