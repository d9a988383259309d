package stores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
)

const (
	// triedMembers is the size of the sorted set of TryRedis. Servers keep small sets in
	// another way than larger ones, from some 128 members on.
	triedMembers = 200
	// triedTTL is how long the keys of TryRedis are kept if they can't be removed.
	triedTTL = time.Minute
)

// errNoGT means that a server ignores GT, as Dragonfly before 1.41 did for large
// sets. Scores would fall.
var errNoGT = errors.New("redis does not obey GT in ZADD for a set of 200 members: use Redis 7.0 or later, or Valkey")

// TryRedis tries the commands on which correct boards depend, on keys of its own: ZADD with GT,
// ZMSCORE, XADD with NOMKSTREAM, and a script. It returns an error that names the command that
// does not do what it must, or the error of a server that does not answer. Some servers take
// these commands and do something else. Five round trips, or six if the server lacks the script.
func TryRedis(ctx context.Context, rdb redis.UniversalClient, names keys.Builder) error {
	set, stream := names.Tried(rand.Text())
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
		defer cancel()
		_ = rdb.Del(ctx, set, stream).Err() // it expires otherwise
	}()
	if err := trySet(ctx, rdb, set); err != nil {
		return fmt.Errorf("try redis: %w", err)
	}
	id, err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: stream, NoMkStream: true, Values: []any{"a", "b"}}).Result()
	if err == nil {
		err = errors.New(id)
	}
	if !errors.Is(err, redis.Nil) {
		return fmt.Errorf("try redis: XADD with NOMKSTREAM to a stream that does not exist answers %w", err)
	}
	members, err := rdb.Eval(ctx, "return redis.call('ZCARD', KEYS[1]) + ARGV[1]", []string{set}, 1).Int()
	if err == nil && members != triedMembers+1 {
		err = fmt.Errorf("%d instead of %d", members, triedMembers+1)
	}
	if err != nil {
		return fmt.Errorf("try redis: a script answers %w", err)
	}
	return nil
}

// trySet raises scores to 2, and then tries to lower those of even members and to raise the
// others.
func trySet(ctx context.Context, rdb redis.UniversalClient, set string) error {
	entries := make([]redis.Z, triedMembers)
	raise := func(score func(member int) float64) error {
		for i := range entries {
			entries[i] = redis.Z{Score: score(i), Member: i}
		}
		return rdb.ZAddArgs(ctx, set, redis.ZAddArgs{GT: true, Members: entries}).Err()
	}
	err := raise(func(int) float64 { return 2 })
	if err == nil {
		err = rdb.PExpire(ctx, set, triedTTL).Err()
	}
	if err == nil {
		err = raise(func(member int) float64 { return float64(1 + 2*(member%2)) })
	}
	if err != nil {
		return err
	}
	// 0 stands for a member that the set lacks.
	got, err := rdb.ZMScore(ctx, set, "0", "nobody", "1", strconv.Itoa(triedMembers-1)).Result()
	switch {
	case err != nil:
		return fmt.Errorf("ZMSCORE answers %w", err)
	case slices.Equal(got, []float64{2, 0, 3, 3}):
		return nil
	case slices.Equal(got, []float64{1, 0, 3, 3}):
		return errNoGT
	default:
		return fmt.Errorf("ZADD with GT and ZMSCORE give %v instead of [2 0 3 3]", got)
	}
}

// MemoryUsed returns the share of its maxmemory that Redis uses, counted as
// Redis counts before it refuses a write: at 1 or more it refuses. Of a cluster
// it returns that of the fullest master. It returns 0 for a server without a
// limit, and for one that does not reveal its memory. One round trip to each
// server.
func MemoryUsed(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	var (
		mu      sync.Mutex
		fullest float64
	)
	err := EachServer(ctx, rdb, func(ctx context.Context, server redis.UniversalClient) error {
		used, err := memoryUsed(ctx, server)
		mu.Lock()
		defer mu.Unlock()
		fullest = max(fullest, used)
		return err
	})
	return fullest, err
}

func memoryUsed(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	info := redis.NewInfoCmd(ctx, "info", "memory")
	err := rdb.Process(ctx, info)
	var refused redis.Error
	if errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the memory of redis: %w", err)
	}
	number := func(name string) float64 {
		n, _ := strconv.ParseFloat(info.Item("Memory", name), 64) // 0 if the server does not say
		return n
	}
	limit := number("maxmemory")
	if limit == 0 {
		return 0, nil
	}
	return (number("used_memory") - number("mem_not_counted_for_evict")) / limit, nil
}
