// Package copies gives tests what processes share of SQL: in Redis, or as the only process of local
// stores has it.
package copies

import (
	"time"

	"stepboard/internal/testenv"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
)

// OfSets returns copies of sets: in Redis, or in memory if the stores are local. Services of one local
// process must share them.
func OfSets(env *testenv.Env) cache.Copies {
	if env.Redis == nil {
		return cache.NewLocal(1<<30, time.Hour, time.Now)
	}
	return cache.NewStore(env.Redis, env.Keys, 0, nil)
}

// OfUsers returns copies of users' records in Redis; nil without Redis.
func OfUsers(env *testenv.Env) *directory.Copies {
	if env.Redis == nil {
		return nil
	}
	return directory.NewCopies(env.Redis, env.Keys, time.Now)
}
