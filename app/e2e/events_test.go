package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// giftsStart is the start of the events: an hour before noon.
var giftsStart = testenv.Noon.Add(-time.Hour)

// withEvents adds an event of 92 days, one of two hours, and a rolling board.
func withEvents(cfg *config.Config) {
	board := func(name, kind string, maxScore int64) config.Board {
		return config.Board{Name: name, Kind: kind, TimeZone: "Asia/Shanghai", MaxScore: maxScore, Shards: 3, Global: "users"}
	}
	gifts, sprint := board("gifts", "event", 1_073_741_823), board("sprint", "event", 1000)
	gifts.Start, gifts.End = giftsStart, giftsStart.AddDate(0, 0, 92)
	sprint.Start, sprint.End = giftsStart, giftsStart.Add(2*time.Hour)
	cfg.Boards = append(cfg.Boards, gifts, sprint, board("active", "rolling", 1000))
}

// Redis is emptied while the service is stopped, after the end of an event. As long as the board
// is not whole again it is not final.
func TestNothingIsFinalThatIsNotWhole(t *testing.T) {
	t.Parallel()
	env := testenv.RealConfig(t)
	env.Clock.Set(testenv.Noon)
	top := func(s *server) (r models.Ranking) {
		t.Helper()
		s.want(s.as("1", "GET", "/v1/boards/sprint/top", nil), 200, &r)
		if r.Final && r.Total != 2 {
			t.Fatalf("%d scores are final", r.Total)
		}
		return r
	}
	// start runs fn with a service on the stores, with the given roles.
	start := func(name string, roles app.Roles, fn func(*server)) {
		t.Run(name, func(t *testing.T) {
			env := *env // the end of the service closes its connections
			fn(newServerOf(t, testenv.Open(t, &env), func(o *app.Options) { o.Roles = roles }, withEvents))
		})
	}
	start("while the event runs", app.AllRoles(), func(s *server) {
		for user := range 2 {
			s.want(s.service("POST", "/v1/boards/sprint/increments", harness.IncrementJSON(1+user, 5, fmt.Sprint(user))), 200, nil)
		}
	})
	env.Clock.Advance(2 * time.Hour)
	start("Redis is emptied", app.Roles{API: true}, func(s *server) {
		ctx := t.Context()
		for iter := s.env.Redis.Scan(ctx, 0, s.env.Keys.Prefix+"*", 1000).Iterator(); iter.Next(ctx); {
			testenv.Must(s.env.Redis.Del(ctx, iter.Val()).Result())
		}
	})
	start("without the job", app.Roles{API: true}, func(s *server) {
		if r := top(s); r.Final || r.Total != 0 {
			t.Errorf("%d scores, final %t", r.Total, r.Final)
		}
	})
	start("with the job", app.AllRoles(), func(s *server) {
		testenv.Eventually(t, "the event is final", func() bool { return top(s).Final })
	})
}
