package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// onKafka is onStream for a queue in Kafka.
func onKafka(server *testenv.KafkaServer, more ...string) []string {
	return append([]string{
		"--ingest.mode=kafka", "--ingest.kafka.brokers=" + strings.Join(server.Addrs(), ","), "--ingest.flush_interval=50ms",
	}, more...)
}

// startKafka starts a Kafka with the topic that the settings name.
func startKafka(t testing.TB, env *testenv.Env) *testenv.KafkaServer {
	t.Helper()
	server := testenv.StartKafka(t)
	server.CreateTopic(env.Config.Ingest.Kafka.Topic, 4, nil)
	return server
}

// Consumers of a topic die under load, and others go on with their partitions.
func TestSoakQueueKafkaConsumersKilled(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	flags := onKafka(startKafka(t, env))
	api := testenv.Serve(t, env.Config, append(flags, "--only=api")...)
	consumers := killConsumers(t, env, api, rounds(2, 10), append(flags, "--only=consumer"))
	for _, p := range append(consumers, api) {
		if status := p.Stop(); status != 0 {
			t.Errorf("stopped with status %d: %s", status, p.Log())
		}
	}
}

// The brokers are away under load, in a soak for half a minute each time:
// uploads are refused, and the same process goes on when they are back.
func TestSoakQueueKafkaAway(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server := startKafka(t, env)
	p := testenv.Serve(t, env.Config, onKafka(server)...)
	u := enqueue(t, p)
	for range rounds(1, 10) {
		u.more(t, 100)
		_, refused := u.count()
		server.Stop()
		away := time.After(time.Duration(rounds(0, 30)) * time.Second)
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.count(); return n > refused })
		if status, text := get(t, p, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"queue":"unavailable"`) {
			t.Errorf("readyz: %d %s", status, text)
		}
		<-away
		server.Start()
	}
	u.more(t, 50)
	u.end()
	drained(t, p)
	u.check(t, env, env.Redis)
}

// The boards' Redis is emptied. The topic has everything, for the guard and for
// the command.
func TestQueueKafkaBoardsFlushed(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	kafka := startKafka(t, env)
	server := testenv.StartRedis(t)
	rdb := clientOf(t, server)
	cfg := env.Config
	cfg.Redis.Addrs = []string{server.Addr()}
	p := testenv.Serve(t, cfg, onKafka(kafka)...)
	testenv.Eventually(t, "the guard has looked", noted(t.Context(), rdb, env.Keys))
	u := enqueue(t, p)
	u.more(t, 300)
	u.end()
	drained(t, p)
	flush := func() {
		t.Helper()
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	testenv.Eventually(t, "what was forgotten is applied again", u.kept(t, env, rdb))
	u.check(t, env, rdb)
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
	flush()
	for range 2 {
		stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(cfg)...), onKafka(kafka)...)...)
		if status != 0 || !strings.Contains(stdout, " updates applied again") {
			t.Errorf("rebuild: %d %q %q", status, stdout, stderr)
		}
		u.check(t, env, rdb)
	}
}

// A topic that can't be relied on, and one that there is not, are refused.
func TestQueueKafkaTopicRefused(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server := testenv.StartKafka(t)
	server.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	server.CreateTopic("short", 1, map[string]string{"retention.ms": "3600000"})
	for topic, want := range map[string]string{
		"compacted": "cleanup.policy", "short": "retention.ms", "missing": `there is no topic "missing"`,
	} {
		flags := append(testenv.Flags(env.Config), onKafka(server, "--ingest.kafka.topic="+topic)...)
		stdout, stderr, status := testenv.Run(t, append([]string{"serve"}, flags...)...)
		if last := lastLine(stderr); status != 1 || stdout != "" || !strings.HasPrefix(last, "stepboard: ") || !strings.Contains(last, want) {
			t.Errorf("%s: status %d, %q %q, want %q", topic, status, stdout, stderr, want)
		}
	}
}
