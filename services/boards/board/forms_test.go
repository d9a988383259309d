package board_test

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// opener returns entries with a clock, which are the same for all clocks.
type opener func(models.Clock) board.Entries

// each runs a test with both forms of Entries.
func each(t *testing.T, test func(*testing.T, *testenv.Env, opener)) {
	t.Helper()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		if env.Pool != nil {
			test(t, env, func(clock models.Clock) board.Entries {
				return board.NewStore(env.Redis, env.Keys, clock, nil)
			})
			return
		}
		local := board.NewLocal(board.NewHotScores(env.Increments.Gorm), env.Clock.Now, nil)
		test(t, env, func(clock models.Clock) board.Entries { return local.With(clock, nil) })
	})
}

// lose removes a bucket, as if the server or the process had lost it.
func lose(t *testing.T, env *testenv.Env, store board.Entries, bucket *models.Bucket) {
	t.Helper()
	if local, ok := store.(*board.Local); ok {
		local.Drop(bucket)
		return
	}
	for shard := range bucket.Shards {
		hours := env.Keys.BoardHours(bucket, shard)
		keys := []string{hours, env.Keys.Board(bucket, shard), env.Keys.BoardNow(bucket, shard)}
		for _, name := range testenv.Must(env.Redis.ZRange(t.Context(), hours, 0, -1).Result()) {
			keys = append(keys, env.Keys.BoardHour(bucket, shard, models.HourOf(testenv.Must(time.Parse("2006010215", name)))))
		}
		if err := env.Redis.Del(t.Context(), keys...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
