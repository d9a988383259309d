package reviews_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// entryCounter is a go-redis hook that counts the entries in the replies of scripts that
// read windows, and the round trips.
type entryCounter struct{ entries, trips atomic.Int64 }

func (c *entryCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *entryCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *entryCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		c.trips.Add(1)
		for _, cmd := range cmds {
			if script, ok := cmd.(*redis.Cmd); ok {
				reply, _ := script.Val().([]any)
				entries, _ := reply[len(reply)-1].([]any)
				c.entries.Add(int64(len(entries) / 2))
			}
		}
		return err
	}
}

// fillScript adds entries with one score.
//
//	KEYS    Board
//	ARGV    the first member, the last member, the composite
const fillScript = `
for member = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('ZADD', KEYS[1], ARGV[3], string.format('%.0f', member))
end
return 0
`

// On a board of a million users the job reads the scores above the threshold and no others.
func TestOnlyScoresAboveTheThresholdAreRead(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env)
	bucket := f.bucket("steps")
	composite := testenv.Must(score.Of(bucket).Encode(bucket.Points(reviewAbove), models.TimestampOf(testenv.Noon)))
	const others, chunk = 1_000_000, 20_000
	for first := 1000; first < others; first += chunk {
		key := env.Keys.Board(bucket, first/chunk%bucket.Shards) // which shard does not matter here
		if err := env.Redis.Eval(t.Context(), fillScript, []string{key}, first, first+chunk-1, int64(composite)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	f.raise(bucket, 50_001, 60_000, 70_000, 80_000, 90_000)
	var counter entryCounter
	env.Redis.AddHook(&counter)
	f.find(5)
	// One round trip for each of the three buckets.
	if entries, trips := counter.entries.Load(), counter.trips.Load(); entries != 5 || trips != 3 {
		t.Errorf("read %d entries in %d round trips, want 5 in 3", entries, trips)
	}
}
