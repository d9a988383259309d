package stores_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// changed changes the arguments of a command on its way to the server.
type changed struct {
	word   string
	change func(args []any)
}

func (c changed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c changed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == c.word {
			c.change(cmd.Args())
		}
		return next(ctx, cmd)
	}
}

func (c changed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A server that takes the commands and does something else is found.
func TestTryRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	if err := stores.TryRedis(t.Context(), env.Redis, env.Keys); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		changed
		word string
	}{
		{changed{"zadd", func(args []any) {
			if len(args) > 2*128 {
				args[2] = "ch" // instead of gt
			}
		}}, "GT"},
		{changed{"zmscore", func(args []any) { args[3] = args[2] }}, "ZMSCORE"},
		{changed{"xadd", func(args []any) { args[2] = "unknown" }}, "NOMKSTREAM"},
		{changed{"eval", func(args []any) { args[1] = "return 5" }}, "script"},
	} {
		rdb := redis.NewClient(&redis.Options{Addr: env.Config.Redis.Addrs[0]})
		rdb.AddHook(tt.changed)
		if err := stores.TryRedis(t.Context(), rdb, env.Keys); err == nil || !strings.Contains(err.Error(), tt.word) {
			t.Errorf("%s: %v", tt.changed.word, err)
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
	if keys := testenv.Must(env.Redis.Keys(t.Context(), env.Keys.Prefix+"*").Result()); len(keys) > 0 {
		t.Errorf("left are %v", keys)
	}
}
