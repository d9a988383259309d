package stores_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// No command of a pipeline looks as if it had succeeded if Redis refuses connections, does not
// answer, or closes the connection.
func TestPipelinesWithoutRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	for name, pipeline := range map[string]func(redis.UniversalClient) redis.Pipeliner{
		"pipeline": redis.UniversalClient.Pipeline, "transaction": redis.UniversalClient.TxPipeline,
	} {
		for fault, strike := range map[string]func(*testenv.Proxy){"refuses": (*testenv.Proxy).Cut, "hangs": (*testenv.Proxy).Hold} {
			for _, connected := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %t", name, fault, connected), func(t *testing.T) {
					t.Parallel()
					proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
					rdb := stores.OpenRedis(config.Redis{Addrs: []string{proxy.Addr()}})
					t.Cleanup(func() { rdb.Close() })
					if connected {
						testenv.Must(rdb.Ping(t.Context()).Result())
					}
					strike(proxy)
					pipe := pipeline(rdb)
					pipe.Set(t.Context(), env.Keys.Prefix+"a", 1, 0)
					pipe.Incr(t.Context(), env.Keys.Prefix+"a")
					cmds, err := pipe.Exec(t.Context())
					if err == nil {
						t.Error("the pipeline has no error")
					}
					for _, cmd := range cmds {
						if cmd.Err() == nil {
							t.Errorf("%s has no error", cmd.Name())
						}
					}
				})
			}
		}
	}
}
