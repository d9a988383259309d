package ingest_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stepboard/internal/testenv"
	"stepboard/services/boards/ingest"
)

// A topic that can't keep the promises is refused, and the error says what to
// change.
func TestKafkaRefusesATopic(t *testing.T) {
	t.Parallel()
	server := testenv.StartKafka(t)
	server.CreateTopic("good", 1, map[string]string{"retention.ms": "86400000"})
	server.CreateTopic("for-ever", 1, map[string]string{"retention.ms": "-1"})
	server.CreateTopic("in-bytes", 1, map[string]string{"retention.bytes": "1000000000"})
	server.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	server.CreateTopic("both", 1, map[string]string{"cleanup.policy": "compact,delete"})
	server.CreateTopic("short", 1, map[string]string{"retention.ms": "3600000"})
	server.CreateTopic("hidden", 1, nil)
	server.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Resource: "hidden", Err: kerr.TopicAuthorizationFailed, Count: -1})
	tests := []struct {
		topic string
		want  []string // in the error; none: accepted
		warns string
	}{
		{topic: "good", warns: "min.insync.replicas is 1"},
		{topic: "for-ever"},
		{topic: "in-bytes", warns: "retention.bytes is 1000000000: beyond about 103 updates a second"},
		{topic: "hidden", warns: "may not be read"},
		{topic: "compacted", want: []string{`topic "compacted"`, `cleanup.policy is "compact"`, `must be "delete"`}},
		{topic: "both", want: []string{`topic "both"`, `cleanup.policy is "compact,delete"`}},
		{topic: "short", want: []string{`topic "short"`, "retention.ms is 3600000 (1h0m0s)", "at least 86400000 (24h0m0s)"}},
		{topic: "missing", want: []string{`there is no topic "missing"`}},
	}
	for _, tt := range tests {
		log, logged := logger()
		q, err := ingest.NewKafka(t.Context(), ingest.KafkaOptions{
			Brokers: server.Addrs(), Topic: tt.topic, Group: kafkaGroup, Retention: 24 * time.Hour, Log: log,
		})
		if err == nil {
			q.Close()
		}
		if (err == nil) != (len(tt.want) == 0) {
			t.Errorf("%s: %v", tt.topic, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in: %v", tt.topic, want, err)
			}
		}
		if !strings.Contains(logged.String(), tt.warns) {
			t.Errorf("%s: %q is not in the log: %s", tt.topic, tt.warns, logged)
		}
	}
}

// The start fails if the brokers can't be reached or do not respond.
func TestKafkaRefusesBrokersThatDoNotRespond(t *testing.T) {
	t.Parallel()
	server := testenv.StartKafka(t)
	server.Stop()
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := silent.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, brokers := range [][]string{server.Addrs(), {silent.Addr().String()}} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := ingest.NewKafka(ctx, ingest.KafkaOptions{Brokers: brokers, Topic: kafkaTopic, Group: kafkaGroup, Log: testenv.Log()})
		cancel()
		if err == nil || !strings.Contains(err.Error(), brokers[0]) {
			t.Errorf("%v: %v", brokers, err)
		}
	}
}

// Every login mechanism works, and a wrong password is an error at the start.
func TestKafkaLogsIn(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, kafkaTopic), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "ann", "1"), kfake.Superuser("SCRAM-SHA-256", "bob", "2"), kfake.Superuser("SCRAM-SHA-512", "eve", "3"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	tests := []struct {
		sasl, username, password string
		ok                       bool
	}{
		{"plain", "ann", "1", true},
		{"scram-sha-256", "bob", "2", true},
		{"scram-sha-512", "eve", "3", true},
		{"plain", "ann", "2", false},
		{"scram-sha-512", "eve", "2", false},
		{"gssapi", "eve", "3", false},
		{"", "", "", false},
	}
	for _, tt := range tests {
		q, err := ingest.NewKafka(t.Context(), ingest.KafkaOptions{
			Brokers: cluster.ListenAddrs(), Topic: kafkaTopic, Group: kafkaGroup, Log: testenv.Log(),
			SASL: tt.sasl, Username: tt.username, Password: tt.password,
		})
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
		if err != nil {
			continue
		}
		appendAll(t, q, updatesOf(1, 1))
		got := newCollector(t)
		got.take(q)
		q.Close()
	}
}

// logger returns a log and the buffer that it writes to.
func logger() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, nil)), &b
}
