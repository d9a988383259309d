package crash_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// startKafka starts a Kafka with the topic of the settings.
func startKafka(t testing.TB, env *testenv.Env) *testenv.KafkaServer {
	t.Helper()
	server := testenv.StartKafka(t)
	server.CreateTopic(env.Config.Ingest.Kafka.Topic, 4, nil)
	return server
}

// The brokers stop under load, in a soak for half a minute each time. Uploads
// are refused, and the same process goes on when the brokers are back.
func TestSoakQueueKafkaAway(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server := startKafka(t, env)
	p := testenv.Serve(t, env.Config, harness.KafkaQueue(server)...)
	u := harness.Enqueue(t, p)
	for range testenv.Rounds(1, 10) {
		u.AwaitMore(t, 100)
		_, refused := u.Counts()
		server.Stop()
		away := time.After(time.Duration(testenv.Rounds(0, 30)) * time.Second)
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.Counts(); return n > refused })
		testenv.Eventually(t, "/readyz names the queue", func() bool {
			status, text := harness.Get(t, p, "/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, `"queue":"unavailable"`)
		})
		<-away
		server.Start()
	}
	u.AwaitMore(t, 50)
	u.End()
	harness.AwaitDrained(t, p)
	u.Check(t, env, env.Redis)
}

// The boards' Redis is emptied. The replay job applies the topic again, and so does
// the rebuild command.
func TestQueueKafkaBoardsFlushed(t *testing.T) {
	t.Parallel()
	env, _, rdb := withRedis(t)
	kafka := startKafka(t, env)
	p := testenv.Serve(t, env.Config, harness.KafkaQueue(kafka)...)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "queue")
	u := harness.Enqueue(t, p)
	u.AwaitMore(t, 300)
	u.End()
	harness.AwaitDrained(t, p)
	flush := func() {
		t.Helper()
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	testenv.Eventually(t, "what was forgotten is applied again", u.Applied(t, env, rdb))
	u.Check(t, env, rdb)
	p.Stop()
	flush()
	for range 2 {
		stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(env.Config)...), harness.KafkaQueue(kafka)...)...)
		if status != 0 || !strings.Contains(stdout, " updates applied again") {
			t.Errorf("rebuild: %d %q %q", status, stdout, stderr)
		}
		u.Check(t, env, rdb)
	}
}
