package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

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
	var list struct {
		Boards []struct {
			Name        string  `json:"name"`
			Kind        string  `json:"kind"`
			TimeZone    string  `json:"time_zone"`
			OpenDays    *int    `json:"open_days"`
			MaxScore    int64   `json:"max_score"`
			Unit        string  `json:"unit"`
			TickMS      int64   `json:"tick_ms"`
			Order       string  `json:"order"`
			Global      string  `json:"global"`
			Uploads     *string `json:"uploads"`
			WindowHours *int    `json:"window_hours"`
			Current     struct {
				Date     *string `json:"date"`
				StartsAt *string `json:"starts_at"`
				EndsAt   *string `json:"ends_at"`
				ClosesAt *string `json:"closes_at"`
			} `json:"current"`
			Takes    string  `json:"takes"`
			ClosesAt *string `json:"closes_at"`
			Final    bool    `json:"final"`
		} `json:"boards"`
	}
	env.Clock.Set(giftsStart.Add(3 * time.Hour))
	testenv.Eventually(t, "sprint is final", func() bool {
		s.want(s.as("1", "GET", "/v1/boards", nil), 200, &list)
		return list.Boards[3].Final
	})
	var got []string
	for _, b := range list.Boards {
		line := fmt.Sprintf("%s %s final=%t in %d ms", b.Name, b.Kind, b.Final, b.TickMS)
		if b.Current.Date != nil {
			line += " on " + *b.Current.Date
		}
		if b.Current.EndsAt != nil {
			line += " until " + *b.Current.EndsAt
		}
		if b.OpenDays != nil {
			line += fmt.Sprintf(" with %d open days", *b.OpenDays)
		}
		if b.WindowHours != nil {
			line += fmt.Sprintf(" of %d hours", *b.WindowHours)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"active rolling final=false in 1000 ms of 24 hours",
		"gifts event final=false in 1000 ms until 2027-02-20T12:00:00.000Z",
		"private daily final=false in 1 ms on 2026-11-20 until 2026-11-20T16:00:00.000Z with 2 open days",
		"sprint event final=true in 1 ms until 2026-11-20T14:00:00.000Z",
		"steps daily final=false in 1 ms on 2026-11-20 until 2026-11-20T16:00:00.000Z with 2 open days",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
