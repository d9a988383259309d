package e2e_test

import (
	"testing"
	"time"

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

// Calls for one kind of board are refused on the other kinds.
func TestCallsOnOtherKindsOfBoards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testCallsOnOtherKindsOfBoards)
}

func testCallsOnOtherKindsOfBoards(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	for _, board := range []string{"gifts", "active"} {
		path := "/v1/boards/" + board
		s.refuse(s.as("1", "POST", path+"/scores", `{"date":"2026-11-20","score":1}`), 409, models.CodeBoardKind)
		s.refuse(s.service("POST", path+"/scores/batch", `{"scores":[{"user_id":"1","date":"2026-11-20","score":1}]}`), 409, models.CodeBoardKind)
		for _, call := range []string{"friends", "top", "around", "me"} {
			s.refuse(s.as("1", "GET", path+"/"+call+"?date=2026-11-20", nil), 409, models.CodeBoardKind)
			s.want(s.as("1", "GET", path+"/"+call, nil), 200, nil)
		}
		for _, call := range []string{"history", "me/explain", "friends/absent?date=2026-11-20"} {
			s.refuse(s.as("1", "GET", path+"/"+call, nil), 409, models.CodeBoardKind)
		}
	}
	s.refuse(s.service("POST", "/v1/boards/steps/increments", harness.IncrementJSON(1, 1, "a")), 409, models.CodeBoardKind)
	s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("active", "live")), 409, models.CodeBoardKind)
	s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("gifts", "event")), 409, models.CodeBucketHot)
}
