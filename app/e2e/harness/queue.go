package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// KafkaQueue returns the flags of a process with a queue in Kafka.
func KafkaQueue(server *testenv.KafkaServer, more ...string) []string {
	return append([]string{
		"--ingest.mode=kafka", "--ingest.kafka.brokers=" + strings.Join(server.Addrs(), ","), "--ingest.flush_interval=50ms",
	}, more...)
}

// RedisQueue returns the flags of a process with a queue in Redis. Its
// intervals are short, so that the process soon takes over what a dead consumer
// has left.
func RedisQueue(more ...string) []string {
	return append([]string{"--ingest.mode=redis", "--ingest.flush_interval=50ms", "--ingest.redis.claim_after=1s"}, more...)
}

// Role is RedisQueue for a process with one role.
func Role(role string, more ...string) []string { return RedisQueue(append(more, "--only", role)...) }

// AwaitDrained waits until the process reports that every update is
// acknowledged.
func AwaitDrained(t testing.TB, p *testenv.Process) {
	t.Helper()
	testenv.Eventually(t, "the queue is drained", func() bool {
		lag, ok := Metric(t, p, "stepboard_ingest_lag_messages")
		return ok && lag == 0
	})
}

// DayBucket returns the bucket of a day of board steps, to which something must
// have been uploaded.
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

// SeparateRedis starts a Redis for the boards alone. It returns the settings of
// a process that uses it, and the flag that makes the process keep the queue in
// the shared Redis.
func SeparateRedis(t testing.TB, env *testenv.Env) (server *testenv.RedisServer, cfg config.Config, stream string) {
	t.Helper()
	server = testenv.StartRedis(t)
	cfg = env.Config
	stream = "--ingest.redis.addrs=" + cfg.Redis.Addrs[0]
	cfg.Redis.Addrs = []string{server.Addr()}
	return server, cfg, stream
}

// AwaitCheckpoint waits until the loss detector of this name has written its
// checkpoint to Redis. With a new Redis it does so after replaying or dropping
// what that Redis may lack.
func AwaitCheckpoint(t testing.TB, rdb redis.UniversalClient, keys keys.Builder, detector string) {
	t.Helper()
	testenv.Eventually(t, "the loss detector "+detector+" has a checkpoint", func() bool {
		return rdb.HExists(t.Context(), keys.LossCheckpoint(detector, 0), "at").Val()
	})
}
