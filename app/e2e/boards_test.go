package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/config"
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
		s.refuse(s.as("1", "GET", path+"/history", nil), 409, models.CodeBoardKind)
	}
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

// A board whose uploads are a backend's takes none with a user's token.
func TestUploadsByServices(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const upload, batch = `{"date":"2026-11-20","score":5}`, `{"scores":[{"user_id":"1","date":"2026-11-20","score":7}]}`
		s := newServer(t, env, func(c *config.Config) { c.Boards[0].Uploads = "service" })
		s.refuse(s.as("1", "POST", "/v1/boards/steps/scores", upload), 403, models.CodeForbidden)
		s.refuse(s.as("1", "POST", "/v1/boards/steps/scores?user_id=1", upload), 403, models.CodeForbidden)
		s.want(s.service("POST", "/v1/boards/steps/scores?user_id=1", `{"date":"2026-11-20","score":6}`), 200, nil)
		s.want(s.service("POST", "/v1/boards/steps/scores/batch", batch), 200, nil)
		if got := s.as("1", "GET", "/v1/boards/steps/me", nil); !strings.HasPrefix(string(got.body), `{"score":7,`) {
			t.Errorf("the place is %s", got.body)
		}
		if got := s.as("1", "GET", "/v1/boards", nil); strings.Count(string(got.body), `"uploads":"service"`) != 1 {
			t.Errorf("the boards are %s", got.body)
		}
	})
}

// Amounts of eleven digits fit an event of 45 days, with times to the minute: nothing is rounded, and
// the first to reach a sum is ahead.
func TestAnEventInMinutes(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		var made map[string]any
		s.want(s.admin("POST", "/v1/admin/boards", `{"name":"sales","kind":"event","max_score":100000000000,"start":"2026-11-20T12:00:30Z","end":"2027-01-04T12:00:30Z"}`), 201, &made)
		if made["tick_ms"] != 60_000.0 {
			t.Errorf("made %v", made)
		}
		path := "/v1/boards/sales/"
		for i, order := range []string{`{"user_id":"1","delta":99999999999,"event_id":"a"}`, `{"user_id":"2","delta":100000000000,"event_id":"b"}`, `{"user_id":"1","delta":1,"event_id":"c"}`} {
			env.Clock.Set(time.Date(2026, 12, 20, 8, i, 45, 0, time.UTC))
			s.want(s.service("POST", path+"increments", order), 200, nil)
		}
		s.refuse(s.service("POST", path+"increments", `{"user_id":"1","delta":1,"event_id":"d"}`), 422, models.CodeScoreOutOfRange)
		var top models.Ranking
		s.want(s.as("1", "GET", path+"top", nil), 200, &top)
		if diff := cmp.Diff([]string{"1. 2: 100000000000 at 08:01:30.000", "2. 1: 100000000000 at 08:02:30.000"}, rankLines(top)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A board that is defined while the service runs can be used at once.
func TestBoardsDefinedWhileRunning(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testBoardsDefinedWhileRunning)
}

func testBoardsDefinedWhileRunning(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	admin := harness.Token(t, "1", "admin")
	const body = `{"name":"gala","kind":"event","max_score":1000,"start":"2026-11-20T12:00:00Z","end":"2026-11-21T20:00:00+08:00"}`
	var made map[string]any
	s.want(s.call(admin, "POST", "/v1/admin/boards", body), 201, &made)
	if made["name"] != "gala" || made["kind"] != "event" || made["tick_ms"] != 1.0 || made["shards"] != 1.0 || made["global"] != "users" {
		t.Errorf("made %v", made)
	}
	s.want(s.service("POST", "/v1/boards/gala/increments", harness.IncrementJSON(1, 5, "a")), 200, nil)
	var shown map[string]any
	s.want(s.call(admin, "GET", "/v1/admin/boards/gala", nil), 200, &shown)
	if diff := cmp.Diff(made, shown); diff != "" {
		t.Errorf("(-made +shown):\n%s", diff)
	}
	s.refuse(s.call(admin, "POST", "/v1/admin/boards", body), 409, models.CodeBoardExists)
	s.refuse(s.call(admin, "GET", "/v1/admin/boards/nix", nil), 404, models.CodeBoardNotFound)
	s.refuse(s.service("POST", "/v1/admin/boards", body), 403, models.CodeForbidden)
	for _, bad := range []string{
		`{"name":"x","kind":"event","max_score":1000,"start":"2026-11-20T12:00:00Z"}`,
		`{"name":"x","kind":"event","max_score":1000,"start":"2026-11-20T12:00:00Z","end":"2026-11-20T12:00:00Z"}`,
		`{"name":"x","kind":"event","max_score":1000,"start":"tomorrow","end":"2026-11-21T12:00:00Z"}`,
		`{"name":"x","kind":"event","max_score":9007199254740992,"start":"2026-11-20T12:00:00Z","end":"2026-11-21T12:00:00Z"}`,
		`{"name":"x","kind":"yearly","max_score":1000}`,
		`{"name":"X","kind":"daily","max_score":1000}`,
		`{"name":"x","kind":"daily","max_score":0}`,
		`{"name":"x","kind":"daily","max_score":10,"time_zone":"Mars/Olympus"}`,
		`{"name":"x","kind":"rolling","max_score":10,"window":200}`,
		`{"name":"x","kind":"daily","max_score":10,"window":24}`,
		`{"name":"x","kind":"daily","max_score":10,"open_days":31}`,
		`{"name":"x","kind":"rolling","max_score":10,"open_days":1}`,
		`{"name":"x","kind":"daily","max_score":8796093022208,"open_days":30}`,
		`{"kind":"daily","max_score":10}`,
	} {
		s.refuse(s.call(admin, "POST", "/v1/admin/boards", bad), 422, models.CodeValidationFailed)
	}
}
