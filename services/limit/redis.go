package limit

import (
	"context"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

// RedisCounter counts in Redis, by the GCRA of redis_rate: each limit is one
// key, so that it works in a cluster, and one script. Time is that of Redis.
type RedisCounter struct {
	limiter *redis_rate.Limiter
	keys    keys.Builder
}

// NewRedisCounter makes a counter.
func NewRedisCounter(rdb redis.UniversalClient, keys keys.Builder) *RedisCounter {
	return &RedisCounter{limiter: redis_rate.NewLimiter(ownKeys{rdb}), keys: keys}
}

// User counts a call of a user.
func (c *RedisCounter) User(ctx context.Context, user models.UserID, perMinute int) (time.Duration, error) {
	return c.take(ctx, c.keys.UserCalls(user), perMinute)
}

// Address counts a call from an address.
func (c *RedisCounter) Address(ctx context.Context, address string, perMinute int) (time.Duration, error) {
	return c.take(ctx, c.keys.AddressCalls(address), perMinute)
}

func (c *RedisCounter) take(ctx context.Context, key string, perMinute int) (time.Duration, error) {
	result, err := c.limiter.Allow(ctx, key, redis_rate.PerMinute(perMinute))
	if err != nil {
		return 0, err
	}
	return max(0, result.RetryAfter), nil
}

// ratePrefix is what redis_rate puts before every key.
const ratePrefix = "rate:"

// ownKeys undoes that: every key of ours begins with the prefix of keys.Builder,
// which a shared server's ACL may ask for.
type ownKeys struct{ redis.UniversalClient }

// Eval is part of what redis_rate calls.
func (o ownKeys) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.UniversalClient.Eval(ctx, script, own(keys), args...)
}

// EvalSha is part of what redis_rate calls.
func (o ownKeys) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return o.UniversalClient.EvalSha(ctx, sha, own(keys), args...)
}

func own(keys []string) []string {
	named := make([]string, len(keys))
	for i, key := range keys {
		named[i] = strings.TrimPrefix(key, ratePrefix)
	}
	return named
}
