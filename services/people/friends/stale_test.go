package friends_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/platform/recovery"
)

// Readers load as fast as they can on two replicas, and copies vanish at random
// as if they had expired. Every reader sees every change once it is
// acknowledged.
func TestReadersRacingWriters(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	replicas := []numbered{newService(t, env), newService(t, env)}
	const user, changes = models.RowID(1), 200
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 6 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := replicas[i%2].IDs(t.Context(), user); err != nil {
					t.Error(err)
					return
				}
				if rand.IntN(4) == 0 {
					env.Redis.Unlink(t.Context(), env.Keys.Set(keys.Friends, int64(user)))
				}
			}
		})
	}
	for n := range changes {
		friend := models.RowID(100 + n)
		if err := replicas[n%2].Replace(t.Context(), user, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := replicas[n%2].Import(t.Context(), []models.Edge{{A: user, B: friend}}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for i, replica := range replicas {
				if ids, err := replica.IDs(t.Context(), user); err != nil || !slices.Equal(ids, []models.RowID{friend}) {
					t.Fatalf("after change %d replica %d returns %v, %v", n, i, ids, err)
				}
			}
		}
	}
	close(stop)
	testenv.Wait(t, "the readers end", &readers)
}

// Two masters at once: a process changes friends on the old one after another
// process has checkpointed the new one, which goes on to serve the set from before
// the change. Once the first process reaches the new master, the set is dropped.
func TestChangesOnAnOldMaster(t *testing.T) {
	t.Parallel()
	env, split := testenv.Real(t), testenv.StartSplit(t)
	process := func(rdb *redis.Client) (numbered, *recovery.Recovery) {
		sets := cache.NewStore(rdb, env.Keys, 0, nil)
		return newServiceOn(env, sets), &recovery.Recovery{
			Detector: recovery.NewWriterDetector(rdb, env.Keys, recovery.Sets), Replay: sets.DropStale(env.Clock.Now),
		}
	}
	first, firstStale := process(split.Former)
	second, secondStale := process(split.Promoted)
	run := func(r *recovery.Recovery) {
		t.Helper()
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	friendsOf := func(s numbered) []models.RowID { return testenv.Must(s.IDs(t.Context(), 1)) }
	run(firstStale)
	if err := first.Replace(t.Context(), 1, []models.RowID{2}); err != nil {
		t.Fatal(err)
	}
	split.Promote()
	run(secondStale)
	if got := friendsOf(second); !slices.Equal(got, []models.RowID{2}) {
		t.Fatalf("before the change the second process reads %v", got)
	}
	if err := first.Remove(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	run(firstStale)
	run(secondStale)

	split.Heal()
	run(firstStale)
	for _, s := range []numbered{first, second} {
		if got := friendsOf(s); len(got) != 0 {
			t.Errorf("in the end a process reads %v", got)
		}
	}
}
