// Package servicetest gives tests of services those below them, over the stores of a test: in Redis, or in memory as
// the only process of a data folder has it.
package servicetest

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
)

// local returns the boards in memory of a data folder; nil with servers.
func local(env *testenv.Env) *board.Local {
	if env.Redis != nil {
		return nil
	}
	boards, _ := env.Shared.LoadOrStore("boards", board.NewLocal(board.NewHotScores(env.Increments.Gorm), env.Clock.Now, nil))
	return boards.(*board.Local)
}

// Entries returns the entries of buckets: in Redis, or in memory, which begins without any. If
// routes is nil, all updates go to the boards. All calls return the same entries.
func Entries(env *testenv.Env, clock models.Clock, routes board.Routes) board.Entries {
	if boards := local(env); boards != nil {
		return boards.With(clock, routes)
	}
	return board.NewStore(env.Redis, env.Keys, clock, routes)
}

// Source returns the source of an archive of entries, or of one of their stores.
func Source(entries board.Writer) archive.Source {
	if hot, inRedis := entries.(archive.HotStore); inRedis {
		return archive.FromRedis(hot, nil)
	}
	return archive.FromTable(entries.(archive.Memory))
}

// Forget makes Redis, or the memory of the process, lose everything.
func Forget(t testing.TB, env *testenv.Env) {
	t.Helper()
	boards := local(env)
	if boards == nil {
		testenv.DeleteKeys(t, env.Config.Redis)
		return
	}
	var buckets []*models.Bucket
	if err := env.Gorm.Find(&buckets).Error; err != nil {
		t.Fatal(err)
	}
	for _, b := range buckets {
		boards.Drop(b)
	}
}

// Sets returns copies of sets: in Redis, or in memory if the stores are local. Services of one local
// process must share them.
func Sets(env *testenv.Env) cache.Copies {
	if env.Redis == nil {
		return cache.NewLocal(1<<30, time.Hour, time.Now)
	}
	return cache.NewStore(env.Redis, env.Keys, 0, nil)
}

// Users returns copies of users' records in Redis; nil without Redis.
func Users(env *testenv.Env) *directory.Copies {
	if env.Redis == nil {
		return nil
	}
	return directory.NewCopies(env.Redis, env.Keys, time.Now)
}
