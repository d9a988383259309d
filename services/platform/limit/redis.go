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

// RedisCounter counts in Redis by the GCRA of redis_rate. Each limit is one key,
// so that it works in a cluster, and one script. It uses the time of Redis.
type RedisCounter struct {
	limiter *redis_rate.Limiter
	keys    keys.Builder
}

// NewRedisCounter returns a counter.
func NewRedisCounter(rdb redis.UniversalClient, keys keys.Builder) *RedisCounter {
	return &RedisCounter{limiter: redis_rate.NewLimiter(unprefixed{rdb}), keys: keys}
}

// keyOf has the key of a caller by kind.
var keyOf = map[Kind]func(k keys.Builder, caller string) string{
	CallsOf:   func(k keys.Builder, user string) string { return k.UserCalls(models.UserID(user)) },
	CallsBy:   keys.Builder.KeyCalls,
	CallsFrom: keys.Builder.AddressCalls,
	Failures:  keys.Builder.AddressFailures,
	Joins:     func(k keys.Builder, user string) string { return k.GroupJoins(models.UserID(user)) },
	Logins:    keys.Builder.AddressLogins,
}

// Count counts n calls of a caller. One round trip.
func (c *RedisCounter) Count(ctx context.Context, kind Kind, caller string, perMinute, n int) (wait time.Duration, err error) {
	result, err := c.limiter.AllowN(ctx, keyOf[kind](c.keys, caller), redis_rate.PerMinute(perMinute), n)
	if err != nil {
		return 0, err
	}
	return max(0, result.RetryAfter), nil
}

// ratePrefix is the prefix that redis_rate adds to every key.
const ratePrefix = "rate:"

// unprefixed removes ratePrefix from keys. All of Stepboard's keys begin with
// the prefix of keys.Builder, which the ACL of a shared server may require.
type unprefixed struct{ redis.UniversalClient }

// Eval is called by redis_rate.
func (u unprefixed) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return u.UniversalClient.Eval(ctx, script, withoutPrefix(keys), args...)
}

// EvalSha is called by redis_rate.
func (u unprefixed) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return u.UniversalClient.EvalSha(ctx, sha, withoutPrefix(keys), args...)
}

func withoutPrefix(keys []string) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = strings.TrimPrefix(key, ratePrefix)
	}
	return names
}
