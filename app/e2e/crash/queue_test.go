package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// Consumers are killed under load, again and again, and others take over the
// updates that they held.
func TestSoakQueueConsumersKilled(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	api := testenv.Serve(t, env.Config, harness.Role("api")...)
	consumers := []*testenv.Process{testenv.Serve(t, env.Config, harness.Role("consumer")...), testenv.Serve(t, env.Config, harness.Role("consumer")...)}
	u := harness.Enqueue(t, api)
	for i := range testenv.Rounds(3, 50) {
		dying := &consumers[i%len(consumers)]
		testenv.Eventually(t, "it has work", func() bool {
			n, _ := harness.Metric(t, *dying, "stepboard_ingest_messages_total")
			return n > 0
		})
		u.AwaitMore(t, 50)
		(*dying).Kill()
		u.AwaitMore(t, 50)
		*dying = testenv.Serve(t, env.Config, harness.Role("consumer")...)
	}
	u.End()
	harness.AwaitDrained(t, api)
	u.Check(t, env, env.Redis)
}

// lastWrites is a number of bytes at the end of a Redis's log that contains the
// last update of each user.
const lastWrites = 8 << 10

// The boards' Redis dies under load and loses its last writes, which were
// acknowledged to the queue. They are applied again.
func TestSoakQueueBoardsLoseWrites(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server, cfg, stream := harness.SeparateRedis(t, env)
	rdb := harness.RedisClient(t, server)
	api := testenv.Serve(t, cfg, harness.Role("api", stream)...)
	testenv.Serve(t, cfg, harness.Role("consumer", stream)...)
	testenv.Serve(t, cfg, harness.Role("consumer", stream)...)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "queue")
	u := harness.Enqueue(t, api)
	for range testenv.Rounds(2, 10) {
		u.AwaitMore(t, 500)
		server.Kill()
		server.Forget(lastWrites)
		u.AwaitMore(t, 100) // the queue accepts them meanwhile
		server.Start()
	}
	u.AwaitMore(t, 50)
	u.End()
	harness.AwaitDrained(t, api)
	testenv.Eventually(t, "lost updates are applied again", u.Applied(t, env, rdb))
	// From here on no further upload can hide a loss.
	for range testenv.Rounds(1, 10) {
		server.Kill()
		server.Forget(lastWrites)
		server.Start()
		testenv.Eventually(t, "lost updates are applied again", u.Applied(t, env, rdb))
	}
	u.Check(t, env, rdb)
}

// The boards' Redis is emptied under load. Everything is applied again, and a
// rebuild changes nothing.
func TestSoakQueueBoardsFlushed(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server, cfg, stream := harness.SeparateRedis(t, env)
	rdb := harness.RedisClient(t, server)
	api := testenv.Serve(t, cfg, harness.Role("api", stream)...)
	consumer := testenv.Serve(t, cfg, harness.Role("consumer", stream)...)
	u := harness.Enqueue(t, api)
	for range testenv.Rounds(1, 10) {
		u.AwaitMore(t, 300)
		harness.AwaitCheckpoint(t, rdb, env.Keys, "queue")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	u.AwaitMore(t, 50)
	u.End()
	harness.AwaitDrained(t, api)
	testenv.Eventually(t, "lost updates are applied again", u.Applied(t, env, rdb))
	// From here on no further upload can hide a loss.
	for range testenv.Rounds(1, 10) {
		harness.AwaitCheckpoint(t, rdb, env.Keys, "queue")
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "lost updates are applied again", u.Applied(t, env, rdb))
	}
	u.Check(t, env, rdb)

	// The rebuild command restores the board, too.
	consumer.Stop()
	board := env.Keys.Board(harness.DayBucket(t, env, u.Date), 0)
	before := rdb.ZRangeWithScores(t.Context(), board, 0, -1).Val()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(cfg)...), harness.RedisQueue(stream)...)...)
		if status != 0 || !strings.Contains(stdout, "updates applied again") {
			t.Fatalf("rebuild: %d %q %q", status, stdout, stderr)
		}
		if after := rdb.ZRangeWithScores(t.Context(), board, 0, -1).Val(); len(before) != 8 || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("after the rebuild the board is\n%v, want\n%v", after, before)
		}
	}
}

// The queue's Redis is cut off, or hangs, under load. Uploads are refused, and
// the same process goes on when it is back.
func TestSoakQueueStreamCutOff(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	link := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	p := testenv.Serve(t, env.Config, harness.RedisQueue("--ingest.redis.addrs="+link.Addr())...)
	u := harness.Enqueue(t, p)
	for i := range testenv.Rounds(2, 10) {
		u.AwaitMore(t, 100)
		_, refused := u.Counts()
		if i%2 == 0 {
			link.Cut()
		} else {
			link.Hold()
		}
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.Counts(); return n > refused })
		testenv.Eventually(t, "/readyz names the queue", func() bool {
			status, text := harness.Get(t, p, "/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(text, `"queue":"unavailable"`)
		})
		if i%2 == 0 {
			link.Start()
		} else {
			link.Release() // a refused upload may be accepted after all
		}
	}
	u.AwaitMore(t, 50)
	u.End()
	harness.AwaitDrained(t, p)
	u.Check(t, env, env.Redis)
}
