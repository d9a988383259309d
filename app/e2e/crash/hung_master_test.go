package crash_test

import (
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// One master of three hangs and goes on, or hangs and is started again without what waited for
// it. What was acknowledged is there afterwards, and every answer, also while the master hangs, is
// that of a linearizable service. Users of the other masters are served meanwhile.
func TestSoakClusterMasterHangs(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	const users = 8
	cluster := testenv.StartCluster(t)
	keepMasters := func() {
		cluster.NeverFailOver()
		cluster.SyncEveryWrite()
	}
	keepMasters()
	env := harness.RealOn(t, cluster.Use)
	testenv.NumberUsers(t, env, users)
	h := newHistories(t)
	var processes [2]*testenv.Process
	for i := range processes {
		processes[i] = testenv.Serve(t, env.Config, giftBoards(16), "--friends.requests_per_day=10000")
		h.urls[i].Store(&processes[i].URL)
	}
	u := harness.StartUploads(t, http.StatusOK, processes[0].URL, harness.Today(), users)
	h.start(objectKinds)
	h.awaitMore(20)
	u.AwaitMore(t, 100)

	bucket := harness.DayBucket(t, env, u.Date)
	master := func(user models.RowID) string {
		key := env.Keys.Board(bucket, bucket.Shard(user))
		return testenv.Must(env.Redis.(*redis.ClusterClient).MasterForKey(t.Context(), key)).Options().Addr
	}
	// accepts waits until 20 more uploads of each user are accepted.
	accepts := func(when string, users ...models.RowID) {
		t.Helper()
		for _, user := range users {
			before := u.Accepted(testenv.ID(user))
			testenv.Eventually(t, when, func() bool { return u.Accepted(testenv.ID(user)) >= before+20 || t.Failed() })
		}
	}
	last := testenv.Rounds(2, 30) - 1
	for round := range last + 1 {
		hung := cluster.Masters()[rand.IntN(3)]
		var own, others []models.RowID
		for user := range models.RowID(users) {
			user++
			if master(user) == hung.Addr() {
				own = append(own, user)
			} else {
				others = append(others, user)
			}
		}
		if len(own) == 0 || len(others) == 0 {
			t.Fatalf("the hung master has users %v, the others have %v", own, others)
		}
		_, refused := u.Counts()
		hung.Hang()
		accepts("users of the other masters are served", others...)
		testenv.Eventually(t, "a user of the hung master is refused", func() bool { _, n := u.Counts(); return n > refused })
		h.awaitUnknown(3)
		if round == last { // from here on no further upload can hide a loss
			u.End()
		}
		h.awaitMore(30)
		if round%2 == 0 {
			hung.Resume()
		} else {
			hung.Kill()
			hung.Start()
			keepMasters()
		}
		if round < last {
			accepts("all users are served", append(own, others...)...)
		}
		h.awaitMore(50)
	}
	h.end()
	promised, refused := u.Counts()
	t.Logf("%d uploads accepted, %d refused", promised, refused)
	u.Check(t, env, env.Redis)
}
