package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

type accepted struct {
	Accepted []struct {
		Date      string `json:"date"`
		Score     int64  `json:"score"`
		ReachedAt string `json:"reached_at"`
		Held      bool   `json:"held"`
	} `json:"accepted"`
	Rejected []rejected `json:"rejected"`
}

type rejected struct {
	Index  int         `json:"index"`
	Date   string      `json:"date"`
	Code   models.Code `json:"code"`
	Detail string      `json:"detail"`
}

func TestUploads(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testUploads)
}

func testUploads(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	var got accepted
	s.want(s.as("1001", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":12345}`), http.StatusOK, &got)
	if len(got.Accepted) != 1 || got.Accepted[0].Date != "2026-11-20" || got.Accepted[0].Score != 12345 || got.Accepted[0].ReachedAt != "2026-11-20T13:00:00.000Z" {
		t.Errorf("accepted %+v", got)
	}
	// A phone that was offline uploads three days; the last total is not the best.
	env.Clock.Advance(time.Minute)
	body := `{"scores":[{"date":"2026-11-18","score":7},{"date":"2026-11-19","score":0},{"date":"2026-11-20","score":12000}]}`
	s.want(s.as("1001", "POST", "/v1/boards/steps/scores", body), http.StatusOK, &got)
	if len(got.Accepted) != 3 {
		t.Errorf("accepted %+v", got)
	}
	for date, want := range map[string]int64{"2026-11-18": 7, "2026-11-19": 0, "2026-11-20": 12345} {
		var r models.Ranking
		s.want(s.as("1001", "GET", "/v1/boards/steps/friends?date="+date, nil), http.StatusOK, &r)
		if r.Me == nil || r.Me.Score != want {
			t.Errorf("on %s: %+v, want %d", date, r.Me, want)
		}
	}
	// A backend uploads for a user, and users may name themselves.
	s.want(s.service("POST", "/v1/boards/steps/scores?user_id=7", `{"date":"2026-11-20","score":1}`), http.StatusOK, &got)
	s.want(s.as("7", "POST", "/v1/boards/steps/scores?user_id=7", `{"date":"2026-11-20","score":2}`), http.StatusOK, &got)
	s.want(s.as("7", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":100000}`), http.StatusOK, &got)
}

// While the boards' Redis is away, uploads and reads are refused with 503.
func TestBoardsWithoutRedis(t *testing.T) {
	t.Parallel()
	testBoardsWithoutRedis(t, testenv.Real(t))
}

func testBoardsWithoutRedis(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	if err := env.Redis.Close(); err != nil {
		t.Fatal(err)
	}
	s.refuse(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`), 503, models.CodeUnavailable)
	s.refuse(s.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[{"user_id":"1","date":"2026-11-20","score":1}]}`), 503, models.CodeUnavailable)
	for _, path := range []string{"friends", "top", "around", "me"} {
		s.refuse(s.as("1", "GET", "/v1/boards/steps/"+path, nil), 503, models.CodeUnavailable)
	}
	if a := s.call("", "GET", "/readyz", nil); a.status != 503 || !strings.Contains(string(a.body), `"redis":"unavailable"`) {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	s.want(s.call("", "GET", "/healthz", nil), http.StatusOK, nil)
}
