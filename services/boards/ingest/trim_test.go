package ingest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// Entries are kept for Keep after they were acknowledged and then removed,
// however short the lives of the consumers. Unacknowledged entries stay.
func TestShortLivedConsumersTrim(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	horizons := env.Keys.IngestHorizons()
	// pass moves the horizons into the past, as if time had passed.
	pass := func(d time.Duration) {
		t.Helper()
		for _, z := range env.Redis.ZRangeWithScores(t.Context(), horizons, 0, -1).Val() {
			z.Score -= float64(d.Milliseconds())
			if err := env.Redis.ZAdd(t.Context(), horizons, z).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// consumeOnce runs a consumer for one Receive: it may trim, and it holds the
	// entries that it does not acknowledge.
	consumeOnce := func(acknowledge bool) {
		t.Helper()
		q := p.stream()
		defer q.Close()
		d, err := q.Receive(t.Context(), 1000)
		if err == nil && acknowledge && len(d.Messages) > 0 {
			err = q.Acknowledge(t.Context(), []ingest.Delivery{d})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// holds checks how many entries there are.
	holds := func(want int64) {
		t.Helper()
		if got := env.Redis.XLen(t.Context(), env.Keys.IngestStream()).Val(); got != want {
			t.Errorf("the stream holds %d entries, want %d", got, want)
		}
	}
	// An entry with many updates is a node of the stream, and is trimmed alone.
	entry := make([]ingest.Update, 500)
	for i := range entry {
		entry[i] = p.update(models.RowID(i+1), 5)
	}
	q := p.stream()
	defer q.Close()

	p.append(q, entry...)
	consumeOnce(true)
	pass(time.Minute)
	consumeOnce(false) // sees that the first is acknowledged
	pass(30 * time.Minute)
	p.append(q, entry...)
	consumeOnce(false)
	holds(2)
	pass(29 * time.Minute)
	consumeOnce(false)
	holds(2) // the first was acknowledged less than an hour ago
	pass(2 * time.Minute)
	consumeOnce(false)
	holds(1)
	for range 3 {
		pass(2 * time.Hour)
		consumeOnce(false)
	}
	holds(1) // it was never acknowledged
	if n := env.Redis.ZCard(t.Context(), horizons).Val(); n > 4 {
		t.Errorf("%d horizons are left", n)
	}
	counts, err := env.Redis.HMGet(t.Context(), env.Keys.IngestCounts(), "appended", "trimmed").Result()
	if err != nil || counts[0] != "1000" || counts[1] != "500" {
		t.Errorf("counts %v, %v", counts, err)
	}
	if err := env.Redis.XAck(t.Context(), env.Keys.IngestStream(), "boards", pendingID(t, env)).Err(); err != nil {
		t.Fatal(err)
	}
	consumeOnce(true)
	pass(2 * time.Hour)
	consumeOnce(true)
	pass(2 * time.Hour)
	consumeOnce(true)
	holds(0)
}

// pendingID is the only entry that is held and not acknowledged.
func pendingID(t *testing.T, env *testenv.Env) string {
	t.Helper()
	pending, err := env.Redis.XPendingExt(t.Context(), &redis.XPendingExtArgs{
		Stream: env.Keys.IngestStream(), Group: "boards", Start: "-", End: "+", Count: 10,
	}).Result()
	if err != nil || len(pending) != 1 {
		t.Fatalf("pending %v, %v", pending, err)
	}
	return pending[0].ID
}

// A stream whose Redis is full is trimmed all the same, which makes room for
// further uploads.
func TestAFullRedisIsTrimmed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	p := newFixture(t, testenv.RealOn(t, server.Use))
	p.options.MaxUpdates, p.options.Keep = 500, time.Millisecond
	entry := make([]ingest.Update, 500)
	for i := range entry {
		entry[i] = p.update(models.RowID(i+1), 5)
	}
	q := p.stream()
	defer q.Close()
	p.append(q, entry...)
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()
	if err := q.Append(t.Context(), entry)[0]; err == nil {
		t.Fatal("the stream holds more than it may")
	}
	server.LimitMemory(1)
	if err := p.env.Redis.Set(t.Context(), "more", 1, 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("the full Redis answered %v", err)
	}
	testenv.Eventually(t, "the stream is trimmed", func() bool {
		consumer := p.stream() // a consumer trims when it begins
		defer consumer.Close()
		if _, err := consumer.Receive(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		return p.env.Redis.XLen(t.Context(), p.env.Keys.IngestStream()).Val() == 0
	})
	server.LimitMemory(0)
	p.append(q, entry...)
}
