package testenv

import (
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kafkaBrokers is the number of brokers of a test's Kafka. With more than one,
// a topic's partitions and a group's coordinator are on different brokers.
const kafkaBrokers = 2

// KafkaServer is a Kafka of one test, in the process of the test. It listens on
// ports, so that other processes can connect. It keeps its data while it is
// stopped.
type KafkaServer struct {
	t       testing.TB
	dir     string
	ports   []int
	cluster *kfake.Cluster
}

// StartKafka starts a Kafka without topics. The end of the test stops it.
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

// Start starts the brokers with the data and addresses that they had before.
func (s *KafkaServer) Start() {
	s.t.Helper()
	cluster, err := kfake.NewCluster(kfake.Ports(s.ports...), kfake.DataDir(s.dir))
	if err != nil {
		s.t.Fatal(err)
	}
	s.cluster = cluster
}

// Stop closes all connections; new ones are refused.
func (s *KafkaServer) Stop() {
	if s.cluster != nil {
		s.cluster.Close()
		s.cluster = nil
	}
}

// Addrs returns the brokers' addresses, which stay the same while they are
// stopped.
func (s *KafkaServer) Addrs() []string {
	addrs := make([]string, len(s.ports))
	for i, port := range s.ports {
		addrs[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return addrs
}

// CreateTopic creates a topic. Without settings, it is not compacted and
// deletes messages after 7 days.
func (s *KafkaServer) CreateTopic(name string, partitions int, settings map[string]string) {
	s.t.Helper()
	if err := s.cluster.CreateTopic(name, int32(partitions), settings); err != nil {
		s.t.Fatal(err)
	}
}

// Cluster returns the running server, which tests inspect and make fail. Every
// Start makes a new one.
func (s *KafkaServer) Cluster() *kfake.Cluster { return s.cluster }
