package passed

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/column"
	"stepboard/internal/keys"
	"stepboard/models"
)

// RedisStates remembers what was seen of users in Redis. Safe for concurrent use.
type RedisStates struct {
	rdb  redis.UniversalClient
	keys keys.Builder
}

// NewRedisStates returns states in Redis.
func NewRedisStates(rdb redis.UniversalClient, names keys.Builder) *RedisStates {
	return &RedisStates{rdb, names}
}

// Load implements States.
func (s *RedisStates) Load(ctx context.Context, users []models.RowID) ([]string, error) {
	pipe := s.rdb.Pipeline()
	found := column.Of(users, func(user models.RowID) *redis.StringCmd { return pipe.Get(ctx, s.keys.Passed(user)) })
	_, _ = pipe.Exec(ctx) // each command has its own error
	texts := make([]string, len(users))
	for i, cmd := range found {
		text, err := cmd.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

// swapScript replaces a text if it is still the one that was read.
//
//	KEYS    the text
//	ARGV    the text that was read, "" for none; the new one; its lifetime in seconds
//	result  1 if it was replaced, 0 if not
const swapScript = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
`

// Swap implements States.
func (s *RedisStates) Swap(ctx context.Context, swaps []Swap) (swapped []bool, err error) {
	pipe := s.rdb.Pipeline()
	cmds := column.Of(swaps, func(swap Swap) *redis.Cmd {
		return pipe.Eval(ctx, swapScript, []string{s.keys.Passed(swap.User)}, swap.Old, swap.New, int64(keep.Seconds()))
	})
	_, _ = pipe.Exec(ctx) // likewise
	swapped = make([]bool, len(swaps))
	for i, cmd := range cmds {
		n, failed := cmd.Int64()
		swapped[i] = failed == nil && n == 1
		err = errors.Join(err, failed)
	}
	return swapped, err
}

// Began implements States. When Redis has lost something is not known.
func (*RedisStates) Began() time.Time { return time.Time{} }

// Erase implements States.
func (s *RedisStates) Erase(ctx context.Context, users ...models.RowID) (erased int64, err error) {
	pipe := s.rdb.Pipeline()
	cmds := column.Of(users, func(user models.RowID) *redis.IntCmd { return pipe.Del(ctx, s.keys.Passed(user)) })
	_, err = pipe.Exec(ctx)
	for _, cmd := range cmds {
		erased += cmd.Val()
	}
	return erased, models.Wrap("forget what was seen of users", err)
}
