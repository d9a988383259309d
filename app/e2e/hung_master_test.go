package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// newServerOnCluster starts the service with 16 shards a board on a cluster without
// failover. It also returns one of the masters.
func newServerOnCluster(t *testing.T) (*server, *testenv.Node) {
	t.Helper()
	cluster := testenv.StartCluster(t)
	cluster.NeverFailOver()
	env := testenv.RealOn(t, cluster.Use)
	testenv.NumberUsers(t, env, 60)
	s := newServer(t, env, func(c *config.Config) {
		c.Limits = config.Limits{} // counting may ask the hung master
		for i := range c.Boards {
			c.Boards[i].Shards = 16
		}
	})
	return s, cluster.Masters()[0]
}

// usersOn returns the users from 1 to 60 whose shards of a bucket are on the master,
// and the others.
func (s *server) usersOn(master *testenv.Node, bucket *models.Bucket) (own, others []models.RowID) {
	s.t.Helper()
	for user := range models.RowID(60) {
		user++
		node := testenv.Must(s.env.Redis.(*redis.ClusterClient).MasterForKey(s.t.Context(), s.env.Keys.Board(bucket, bucket.Shard(user))))
		if node.Options().Addr == master.Addr() {
			own = append(own, user)
		} else {
			others = append(others, user)
		}
	}
	return own, others
}

// While one master of a cluster hangs, the uploads of users on the other masters
// are acknowledged. Those of its own users are refused until it goes on.
func TestAHungMasterDelaysItsOwnUsersOnly(t *testing.T) {
	t.Parallel()
	s, hung := newServerOnCluster(t)
	own, others := s.usersOn(hung, testenv.Bucket(16))
	upload := func(user models.RowID, score int) int {
		return s.as(testenv.ID(user), "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, score)).status
	}
	for user := range models.RowID(60) {
		if status := upload(user+1, 1); status != http.StatusOK {
			t.Fatalf("an upload is answered %d", status)
		}
	}

	hung.Hang()
	score := 1
	testenv.Eventually(t, "30 uploads are acknowledged while one waits for the hung master", func() bool {
		refused := make(chan int, 1)
		go func() { refused <- upload(own[0], 1000) }()
		for acknowledged := 0; ; acknowledged++ {
			select {
			case status := <-refused:
				if status != http.StatusServiceUnavailable {
					t.Errorf("an upload to the hung master is answered %d", status)
				}
				return acknowledged >= 30
			default:
			}
			if acknowledged%len(others) == 0 {
				score++
			}
			if status := upload(others[acknowledged%len(others)], score); status != http.StatusOK {
				t.Fatalf("an upload to another master is answered %d", status)
			}
		}
	})

	hung.Resume()
	testenv.Eventually(t, "the users of the master are served again", func() bool { return upload(own[0], 1000) == http.StatusOK })
	for user := range models.RowID(60) {
		if status := upload(user+1, 2000+int(user)); status != http.StatusOK {
			t.Errorf("user %d: %d", user+1, status)
		}
		me := s.as(testenv.ID(user+1), "GET", "/v1/boards/steps/me?date=2026-11-20", nil)
		if want := fmt.Sprintf(`"score":%d,`, 2000+int(user)); me.status != http.StatusOK || !strings.Contains(string(me.body), want) {
			t.Errorf("user %d: %d %s, want %s", user+1, me.status, me.body, want)
		}
	}
}
