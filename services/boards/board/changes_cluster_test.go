package board_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// clusterShards is the number of shards of the bucket on a cluster of three masters.
const clusterShards = 6

// raiseEverybody gives 600 users a composite, in batches of every shard.
func raiseEverybody(t *testing.T, store *board.Store, bucket *models.Bucket, composite models.Composite) []error {
	t.Helper()
	raises := make([]models.Raise, 600)
	for i := range raises {
		raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(i + 1), Composite: composite}}
	}
	return store.Raise(t.Context(), raises)
}

// followThroughFailover follows a bucket while a master dies. The follower either misses
// nothing or notices that it does, and has what Redis has in the end.
func followThroughFailover(t *testing.T, env *testenv.Env, kill func()) {
	t.Helper()
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := streamBucket(clusterShards)
	begin := func() *follower {
		f := follow(t, store, bucket.Board, clusterShards)
		f.copyBucket(t, bucket, 50)
		return f
	}
	raiseAll := func(composite models.Composite) {
		for _, err := range raiseEverybody(t, store, bucket, composite) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	raiseAll(1)
	f := begin()
	raiseAll(2)
	if !f.read(t, 10) {
		t.Fatal("changes are missing before the failover")
	}
	raiseAll(3) // a replica may not get it
	kill()
	whole := true
	testenv.Eventually(t, "a replica is the master", func() bool {
		now, err := f.tryRead(t, 10)
		whole = whole && (now || err != nil)
		return err == nil && raiseEverybody(t, store, bucket, 4) == nil
	})
	raiseAll(5)
	if !whole || !f.read(t, 10) {
		f = begin()
	}
	raiseAll(6)
	if !f.read(t, 10) {
		t.Error("changes are missing after the failover")
	}
	f.check(t, bucket)
	if f.copies[bucket.Name][600] != 6 {
		t.Errorf("the last user has %d", f.copies[bucket.Name][600])
	}
}

func TestFollowersWhenAMasterOfAClusterDies(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	followThroughFailover(t, testenv.RealOn(t, cluster.Use), func() { cluster.Masters()[0].Kill() })
}

func TestFollowersWhenTheMasterOfSentinelsDies(t *testing.T) {
	t.Parallel()
	sentinels := testenv.StartSentinels(t)
	followThroughFailover(t, testenv.RealOn(t, sentinels.Use), func() { sentinels.Master().Kill() })
}

// A slot that moves takes the stream along.
func TestFollowersWhenASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := streamBucket(clusterShards)
	f := follow(t, store, bucket.Board, clusterShards)
	for composite := range models.Composite(6) {
		for _, err := range raiseEverybody(t, store, bucket, composite+1) {
			if err != nil {
				t.Fatal(err)
			}
		}
		key := env.Keys.Changes(bucket.Board, int(composite))
		slot := int(testenv.Must(env.Redis.(*redis.ClusterClient).ClusterKeySlot(t.Context(), key).Result()))
		from, to := cluster.Owners(slot)
		cluster.MoveSlot(slot, from, to)
		if !f.read(t, 10) {
			t.Fatal("changes are missing")
		}
	}
	f.check(t, bucket)
}
