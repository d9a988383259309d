package harness

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/catalog"
)

// KafkaQueue is onStream for a queue in Kafka.
func KafkaQueue(server *testenv.KafkaServer, more ...string) []string {
	return append([]string{
		"--ingest.mode=kafka", "--ingest.kafka.brokers=" + strings.Join(server.Addrs(), ","), "--ingest.flush_interval=50ms",
	}, more...)
}

// RedisQueue is how a process is told to use a queue in Redis, and to notice
// soon what happens.
func RedisQueue(more ...string) []string {
	return append([]string{"--ingest.mode=redis", "--ingest.flush_interval=50ms", "--ingest.redis.claim_after=1s"}, more...)
}

// Role is onStream for a process with one role.
func Role(role string, more ...string) []string { return RedisQueue(append(more, "--only", role)...) }

// AwaitDrained waits until the process says that everything is acknowledged.
func AwaitDrained(t testing.TB, p *testenv.Process) {
	t.Helper()
	testenv.Eventually(t, "the queue is drained", func() bool {
		lag, ok := Metric(t, p, "stepboard_ingest_lag_messages")
		return ok && lag == 0
	})
}

// DayBucket is the bucket of a day, once something was uploaded to it.
func DayBucket(t testing.TB, env *testenv.Env, date string) *models.Bucket {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), time.Now, 3, env.Log)
	if err := c.Definitions.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	bucket, err := c.Buckets.Find(t.Context(), testenv.Must(c.Definitions.Board("steps")), testenv.Must(models.ParseDate(date)))
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

// SeparateRedis are a test's settings with the boards on a server of their own,
// and what tells where the stream is.
func SeparateRedis(t testing.TB, env *testenv.Env) (server *testenv.RedisServer, cfg config.Config, stream string) {
	t.Helper()
	server = testenv.StartRedis(t)
	cfg = env.Config
	stream = "--ingest.redis.addrs=" + cfg.Redis.Addrs[0]
	cfg.Redis.Addrs = []string{server.Addr()}
	return server, cfg, stream
}

// Noted tells whether the guard has looked at the boards' Redis.
func Noted(ctx context.Context, rdb redis.UniversalClient, keys keys.Builder) func() bool {
	return func() bool { return rdb.HExists(ctx, keys.LossCheckpoint("queue", 0), "at").Val() }
}
