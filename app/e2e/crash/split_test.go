package crash_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
)

// split is two processes, of which the first goes on using an old master.
type split struct {
	*testenv.Split
	t             *testing.T
	env           *testenv.Env
	first, second *testenv.Process
	bucket        *models.Bucket
}

// Two Redis servers are masters at once: one process uses the old one, another the
// new one. In the end the new one has every update, increment and change of friends
// that either process has acknowledged.
func TestTwoMastersAtOnce(t *testing.T) {
	t.Parallel()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	env := harness.Real(t)
	testenv.NumberUsers(t, env, 300)
	s := &split{Split: testenv.StartSplit(t), t: t, env: env}
	flags := harness.RedisQueue("--ingest.redis.addrs="+env.Config.Redis.Addrs[0], giftBoards(1))
	former, promoted := env.Config, env.Config
	s.UseFormer(&former.Redis)
	s.UsePromoted(&promoted.Redis)
	s.first = testenv.Serve(t, former, flags...)
	for _, watcher := range []string{"queue", "sets", "ledger"} {
		harness.AwaitCheckpoint(t, s.Former, env.Keys, watcher)
	}
	g := startGivers(t, s.first.URL)
	friendships := friends.New(friends.NewStore(env.Gorm, nil), cache.NewStore(s.Former, env.Keys, 0, nil), testenv.Numbers{DB: env.Gorm}, friends.Limits{}, env.Log)
	if err := friendships.Replace(t.Context(), "1", testenv.IDs(2)); err != nil {
		t.Fatal(err)
	}
	s.upload(2)
	s.bucket = harness.DayBucket(t, env, harness.Today())

	s.Promote()
	s.second = testenv.Serve(t, promoted, flags...)
	s.awaitCheckpoints()
	if !s.listed(s.first) || !s.listed(s.second) {
		t.Fatal("the friend is not listed")
	}
	s.call(s.first, 1, "DELETE", "/v1/friends/2", "", http.StatusNoContent)
	if s.listed(s.first) || !s.listed(s.second) {
		t.Error("the processes use the same set of friends")
	}
	uploaded := s.uploadToBoth()
	g.awaitMore(50)

	s.Heal()
	testenv.Eventually(t, "the new master has every update", func() bool { return len(s.missing(uploaded)) == 0 })
	testenv.Eventually(t, "the old set of friends is dropped", func() bool {
		return !s.listed(s.first) && !s.listed(s.second)
	})
	g.end()
	g.check(&stores.Stores{Redis: s.Promoted, Database: env.Database}, env.Keys)
	for _, p := range []*testenv.Process{s.first, s.second} {
		p.Stop()
	}
}

// call sends a request as a user and returns the body of the answer.
func (s *split) call(p *testenv.Process, user models.RowID, method, path, body string, want int) string {
	s.t.Helper()
	return harness.Call(s.t, p, harness.Token(s.t, testenv.ID(user), ""), method, path, body, want)
}

// upload sends a total of a user to the first process, and waits until one of the
// processes has applied and acknowledged it.
func (s *split) upload(user models.RowID) {
	s.t.Helper()
	body := fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), 100+user)
	s.call(s.first, user, "POST", "/v1/boards/steps/scores", body, http.StatusAccepted)
	harness.AwaitDrained(s.t, s.first)
}

// uploadToBoth uploads totals of further users until each process has applied
// several, and returns the users.
func (s *split) uploadToBoth() (users []models.RowID) {
	s.t.Helper()
	testenv.Eventually(s.t, "both processes apply updates", func() bool {
		users = append(users, models.RowID(100+len(users)))
		s.upload(users[len(users)-1])
		missing := len(s.missing(users))
		return missing > 2 && len(users)-missing > 2
	})
	return users
}

// missing returns the users whose totals the new master lacks.
func (s *split) missing(users []models.RowID) (missing []models.RowID) {
	s.t.Helper()
	for _, user := range users {
		err := s.Promoted.ZScore(s.t.Context(), s.env.Keys.Board(s.bucket, 0), user.String()).Err()
		if errors.Is(err, redis.Nil) {
			missing = append(missing, user)
		} else if err != nil {
			s.t.Fatal(err)
		}
	}
	return missing
}

// listed reports whether user 2 is in user 1's ranking of friends.
func (s *split) listed(p *testenv.Process) bool {
	s.t.Helper()
	return strings.Contains(s.call(p, 1, "GET", "/v1/boards/steps/friends", "", http.StatusOK), `"user_id":"2"`)
}

// awaitCheckpoints waits until every loss detector has checkpointed the new master.
func (s *split) awaitCheckpoints() {
	s.t.Helper()
	for _, watcher := range []string{"queue", "sets", "ledger"} {
		testenv.Eventually(s.t, watcher+" is checkpointed", func() bool {
			key := s.env.Keys.LossCheckpoint(watcher, 0)
			return s.Promoted.HGet(s.t.Context(), key, "server").Val() != s.Former.HGet(s.t.Context(), key, "server").Val()
		})
	}
}
