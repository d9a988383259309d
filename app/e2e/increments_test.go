package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// giftsStart is when the tests' event starts: an hour before noon.
var giftsStart = testenv.Noon.Add(-time.Hour)

// withEvents adds an event of ten days, one of an hour, and a rolling board.
func withEvents(cfg *config.Config) {
	board := func(name, kind string, maxScore int64) config.Board {
		return config.Board{Name: name, Kind: kind, TimeZone: "Asia/Shanghai", MaxScore: maxScore, Shards: 3, Global: "users"}
	}
	gifts, sprint := board("gifts", "event", 1_073_741_823), board("sprint", "event", 1000)
	gifts.Start, gifts.End = giftsStart, giftsStart.AddDate(0, 0, 92)
	sprint.Start, sprint.End = giftsStart, giftsStart.Add(2*time.Hour)
	cfg.Boards = append(cfg.Boards, gifts, sprint, board("active", "rolling", 1000))
}

// counted is the answer to increments.
type counted struct {
	Results []incremented `json:"results"`
}

type incremented struct {
	EventID   string            `json:"event_id"`
	Status    string            `json:"status"`
	Score     *int64            `json:"score"`
	ReachedAt *models.Timestamp `json:"reached_at"`
	Code      models.Code       `json:"code"`
	Detail    string            `json:"detail"`
}

// brief is a result in a few words.
func (r incremented) brief() string {
	if r.Status == "rejected" {
		return r.EventID + " rejected " + string(r.Code)
	}
	return fmt.Sprintf("%s %s %d %v", r.EventID, r.Status, *r.Score, r.ReachedAt.Time().Format("15:04:05.000"))
}

func (c counted) brief() []string {
	list := make([]string, len(c.Results))
	for i, r := range c.Results {
		list[i] = r.brief()
	}
	return list
}

// increments is a list's body.
func increments(items ...string) string { return `{"increments":[` + strings.Join(items, ",") + `]}` }

func increment(user, delta int, id string) string {
	return fmt.Sprintf(`{"user_id":"%d","delta":%d,"event_id":%q}`, user, delta, id)
}

// standings are a ranking's lines in a few words.
func standings(r models.Ranking) []string {
	list := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		list[i] = fmt.Sprintf("%d. %d: %d at %s", e.Rank, e.User, e.Score, e.ReachedAt.Time().Format("15:04:05.000"))
	}
	return list
}

// Increments add up, each id once, and every read shows them.
func TestIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testIncrements)
}

func testIncrements(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	for _, board := range []string{"gifts", "active"} {
		env.Clock.Set(testenv.Noon)
		path := "/v1/boards/" + board + "/increments"
		var got counted
		s.want(s.service("POST", path, increment(1001, 5, "a-1")), http.StatusOK, &got)
		env.Clock.Advance(3 * time.Second)
		var more counted
		s.want(s.service("POST", path, increments(
			increment(1002, 7, "a-2"), increment(1001, 2, "a-3"), increment(1001, 5, "a-1"), increment(1003, 7, "a-4"), increment(1001, 6, "a-1"),
			increment(1002, 7, "a-2"), increment(1002, 8, "a-2"))), http.StatusOK, &more)
		want := []string{
			"a-1 applied 5 13:00:00.000",
			"a-2 applied 7 13:00:03.000", "a-3 applied 7 13:00:03.000", "a-1 duplicate 5 13:00:00.000", "a-4 applied 7 13:00:03.000",
			"a-1 rejected event_id_conflict", "a-2 duplicate 7 13:00:03.000", "a-2 rejected event_id_conflict",
		}
		if diff := cmp.Diff(want, append(got.brief(), more.brief()...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", board, diff)
		}
		env.Clock.Advance(time.Second)
		s.want(s.service("POST", path, increment(1003, 1, "a-5")), http.StatusOK, &got)

		s.want(s.service("PUT", "/v1/users/1001/friends", `{"friend_ids":["1003","1004"]}`), 200, nil)
		all := []string{"1. 1003: 8 at 13:00:04.000", "2. 1002: 7 at 13:00:03.000", "3. 1001: 7 at 13:00:03.000"}
		for query, want := range map[string][]string{
			"top": all, "around": all, "top?limit=1": all[:1],
			"friends": {"1. 1003: 8 at 13:00:04.000", "2. 1001: 7 at 13:00:03.000"},
		} {
			var r models.Ranking
			s.want(s.as(1001, "GET", "/v1/boards/"+board+"/"+query, nil), 200, &r)
			if diff := cmp.Diff(want, standings(r)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", board, query, diff)
			}
			if r.Date != nil || r.Final || r.Source != models.SourceHot || (r.Settling != nil) != (board == "active") {
				t.Errorf("%s %s: %+v", board, query, r)
			}
		}
		var standing map[string]any
		s.want(s.as(1001, "GET", "/v1/boards/"+board+"/me", nil), 200, &standing)
		if !equalJSON(t, standing, map[string]any{
			"score": 7, "reached_at": "2026-11-20T13:00:03.000Z", "global_rank": 3, "global_total": 3,
			"friends_rank": 2, "friends_total": 2, "percentile": 0,
		}) {
			t.Errorf("standing %v", standing)
		}
	}
}

// What a single increment is refused with is the error's own status; of a list
// it is the item's.
func TestIncrementsThatAreRefused(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testIncrementsThatAreRefused)
}

func testIncrementsThatAreRefused(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	const path = "/v1/boards/sprint/increments"
	long := strings.Repeat("x", 65)
	s.want(s.service("POST", path, increment(1, 900, "first")), 200, nil)
	s.want(s.service("POST", path, increment(2, 1, strings.Repeat("x", 64))), 200, nil)
	items := []struct {
		item   string
		status int
		code   models.Code
	}{
		{increment(1, 0, "b"), 422, models.CodeValidationFailed},
		{increment(1, -5, "b"), 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1.5,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1e2,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":"5","event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":99999999999999999999,"event_id":"b"}`, 422, models.CodeScoreOutOfRange},
		{increment(1, 101, "b"), 422, models.CodeScoreOutOfRange},
		{increment(3, 1001, "b"), 422, models.CodeScoreOutOfRange},
		{increment(1, 1, long), 422, models.CodeValidationFailed},
		{increment(1, 1, ""), 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"a\u0007b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"a b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"é"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":7}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"01","delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":1,"delta":1,"event_id":"b"}`, 422, models.CodeValidationFailed},
		{`{"user_id":"1","delta":1,"event_id":"b","date":"2026-11-20"}`, 422, models.CodeValidationFailed},
		{increment(1, 899, "first"), 409, models.CodeEventIDConflict},
		{increment(2, 900, "first"), 409, models.CodeEventIDConflict},
	}
	list := make([]string, 0, len(items)+1)
	for _, tt := range items {
		s.refuse(s.service("POST", path, tt.item), tt.status, tt.code)
		list = append(list, tt.item)
	}
	list = append(list, increment(1, 100, "last"))
	var got counted
	s.want(s.service("POST", path, increments(list...)), 200, &got)
	if len(got.Results) != len(list) {
		t.Fatalf("%d results", len(got.Results))
	}
	for i, tt := range items {
		if r := got.Results[i]; r.Status != "rejected" || r.Code != tt.code || r.Detail == "" || r.Score != nil {
			t.Errorf("%s: %+v, want %s", tt.item, r, tt.code)
		}
	}
	if diff := cmp.Diff("last applied 1000 13:00:00.000", got.Results[len(items)].brief()); diff != "" {
		t.Error(diff)
	}

	many := make([]string, 1001)
	for i := range many {
		many[i] = increment(5, 1, fmt.Sprint("m-", i))
	}
	for body, want := range map[string]models.Code{
		`{"increments":[]}`:                   models.CodeValidationFailed,
		`{}`:                                  models.CodeValidationFailed,
		`[]`:                                  models.CodeValidationFailed,
		`{"increments":null}`:                 models.CodeValidationFailed,
		increments(increment(1, 1, "c"))[:20]: models.CodeInvalidRequest,
		`{"user_id":"1","user_id":"1","delta":1}`:             models.CodeInvalidRequest,
		increments(many...):                                   models.CodeValidationFailed,
		`{"increments":[],"user_id":"1","delta":1}`:           models.CodeValidationFailed,
		`{"increments":[` + increment(1, 1, "c") + `],"a":1}`: models.CodeValidationFailed,
	} {
		if a := s.service("POST", path, body); a.code() != want {
			t.Errorf("%.50s: %d %s", body, a.status, a.body)
		}
	}
	s.want(s.service("POST", path, increments(many[:1000]...)), 200, &got)
	if last := got.Results[999]; last.Status != "applied" || *last.Score != 1000 {
		t.Errorf("the last of 1,000: %+v", last)
	}

	s.refuse(s.as(1, "POST", path, increment(1, 1, "d")), 403, models.CodeForbidden)
	s.refuse(s.service("POST", "/v1/boards/nix/increments", increment(1, 1, "d")), 404, models.CodeBoardNotFound)
	s.refuse(s.service("POST", "/v1/boards/steps/increments", increment(1, 1, "d")), 409, models.CodeBoardKind)
	s.refuse(s.service("POST", "/v1/boards/steps/increments", increments(increment(1, 1, "d"))), 409, models.CodeBoardKind)
}

// Calls of one kind do not fit boards of another.
func TestCallsOfOtherKinds(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testCallsOfOtherKinds)
}

func testCallsOfOtherKinds(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	for _, board := range []string{"gifts", "active"} {
		path := "/v1/boards/" + board
		s.refuse(s.as(1, "POST", path+"/scores", `{"date":"2026-11-20","score":1}`), 409, models.CodeBoardKind)
		s.refuse(s.service("POST", path+"/scores/batch", `{"scores":[{"user_id":"1","date":"2026-11-20","score":1}]}`), 409, models.CodeBoardKind)
		for _, call := range []string{"friends", "top", "around", "me"} {
			s.refuse(s.as(1, "GET", path+"/"+call+"?date=2026-11-20", nil), 409, models.CodeBoardKind)
			s.want(s.as(1, "GET", path+"/"+call, nil), 200, nil)
		}
		s.refuse(s.as(1, "GET", path+"/history", nil), 409, models.CodeBoardKind)
	}
	s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("active", "live")), 409, models.CodeBoardKind)
	s.refuse(s.admin("POST", "/v1/admin/archives", bucketOf("gifts", "event")), 409, models.CodeBucketHot)
	var list struct {
		Boards []struct {
			Name        string `json:"name"`
			Kind        string `json:"kind"`
			TimeZone    string `json:"time_zone"`
			MaxScore    int64  `json:"max_score"`
			Global      string `json:"global"`
			WindowHours *int   `json:"window_hours"`
			Current     struct {
				Date     *string `json:"date"`
				StartsAt *string `json:"starts_at"`
				EndsAt   *string `json:"ends_at"`
				ClosesAt *string `json:"closes_at"`
			} `json:"current"`
			Final bool `json:"final"`
		} `json:"boards"`
	}
	env.Clock.Set(giftsStart.Add(3 * time.Hour))
	s.want(s.as(1, "GET", "/v1/boards", nil), 200, &list)
	var got []string
	for _, b := range list.Boards {
		line := fmt.Sprintf("%s %s final=%t", b.Name, b.Kind, b.Final)
		if b.Current.Date != nil {
			line += " on " + *b.Current.Date
		}
		if b.Current.EndsAt != nil {
			line += " until " + *b.Current.EndsAt
		}
		if b.WindowHours != nil {
			line += fmt.Sprintf(" of %d hours", *b.WindowHours)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"active rolling final=false of 24 hours",
		"gifts event final=false until 2027-02-20T12:00:00.000Z",
		"private daily final=false on 2026-11-20 until 2026-11-20T16:00:00.000Z",
		"sprint event final=true until 2026-11-20T14:00:00.000Z",
		"steps daily final=false on 2026-11-20 until 2026-11-20T16:00:00.000Z",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Outside its time an event takes nothing new, but still knows what it took.
func TestWhenAnEventIsOpen(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testWhenAnEventIsOpen)
}

func testWhenAnEventIsOpen(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	const path = "/v1/boards/sprint/increments"
	env.Clock.Set(giftsStart.Add(-time.Millisecond))
	s.refuse(s.service("POST", path, increment(1, 5, "early")), 422, models.CodeEventNotOpen)
	var before models.Ranking
	s.want(s.as(1, "GET", "/v1/boards/sprint/top", nil), 200, &before)
	if len(before.Entries) != 0 || before.Final {
		t.Errorf("before its start: %+v", before)
	}
	env.Clock.Set(giftsStart)
	s.want(s.service("POST", path, increment(1, 5, "first")), 200, nil)
	env.Clock.Set(giftsStart.Add(2*time.Hour - time.Millisecond))
	s.want(s.service("POST", path, increment(2, 5, "last")), 200, nil)
	env.Clock.Set(giftsStart.Add(2 * time.Hour))
	s.refuse(s.service("POST", path, increment(3, 5, "late")), 422, models.CodeEventNotOpen)
	var got counted
	s.want(s.service("POST", path, increments(increment(3, 5, "late"), increment(2, 5, "last"), increment(2, 6, "last"))), 200, &got)
	if diff := cmp.Diff([]string{
		"late rejected event_not_open", "last duplicate 5 13:59:59.999", "last rejected event_id_conflict",
	}, got.brief()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.want(s.service("POST", path, increment(1, 5, "first")), 200, &got)
	if diff := cmp.Diff([]string{"first duplicate 5 12:00:00.000"}, got.brief()); diff != "" {
		t.Error(diff)
	}
	var after models.Ranking
	s.want(s.as(1, "GET", "/v1/boards/sprint/top", nil), 200, &after)
	if diff := cmp.Diff([]string{"1. 1: 5 at 12:00:00.000", "2. 2: 5 at 13:59:59.999"}, standings(after)); diff != "" || !after.Final {
		t.Errorf("final=%t (-want +got):\n%s", after.Final, diff)
	}
}

// A prize hangs on one place: who reached the same coins in the same tick
// stands in the order of the user ids as text, from the greatest; and the
// order is the same while the event runs, when it is over, and in the archive.
func TestAPrize(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testAPrize)
}

func testAPrize(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	for _, tt := range []struct {
		board string
		end   time.Time
		// later is a moment that is told apart from the one before, sooner
		// one that is not.
		sooner, later time.Duration
	}{
		{"gifts", giftsStart.AddDate(0, 0, 92), 999 * time.Millisecond, time.Second},
		{"sprint", giftsStart.Add(2 * time.Hour), 0, time.Millisecond},
	} {
		env.Clock.Set(testenv.Noon)
		path := "/v1/boards/" + tt.board
		n := 0
		give := func(user int) {
			n++
			s.want(s.service("POST", path+"/increments", increment(user, 100, fmt.Sprint("p-", n))), 200, nil)
		}
		give(10)
		env.Clock.Advance(tt.sooner)
		give(9)
		give(100)
		env.Clock.Advance(tt.later)
		give(99)
		want := []int{9, 100, 10, 99}
		order := func() models.Ranking {
			var r models.Ranking
			s.want(s.as(10, "GET", path+"/top", nil), 200, &r)
			var users []int
			for _, e := range r.Entries {
				users = append(users, int(e.User))
			}
			if diff := cmp.Diff(want, users); diff != "" {
				t.Errorf("%s, %s, final=%t (-want +got):\n%s", tt.board, r.Source, r.Final, diff)
			}
			return r
		}
		hot := order()
		env.Clock.Set(tt.end)
		final := order()
		bucket := testenv.Must(s.app.Catalog.Bucket(t.Context(), tt.board, "event"))
		env.Clock.Set(tt.end.AddDate(0, 0, 3).Add(time.Hour - time.Millisecond))
		if _, err := s.app.Archive.Archive(t.Context(), bucket, func(int64) {}); models.CodeOf(err) != models.CodeBucketHot {
			t.Errorf("%s before its time: %v", tt.board, err)
		}
		env.Clock.Advance(time.Millisecond)
		testenv.Must(s.app.Archive.Archive(t.Context(), bucket, func(int64) {}))
		archived := order()
		if hot.Final || !final.Final || !archived.Final || final.Source != models.SourceHot || archived.Source != models.SourceArchive {
			t.Errorf("%s: hot %t %s, final %t %s, archived %t %s", tt.board, hot.Final, hot.Source, final.Final, final.Source, archived.Final, archived.Source)
		}
		if diff := cmp.Diff(hot.Entries, archived.Entries); diff != "" {
			t.Errorf("%s (-hot +archived):\n%s", tt.board, diff)
		}
		if diff := cmp.Diff(hot.Me, archived.Me); diff != "" {
			t.Errorf("%s (-hot +archived):\n%s", tt.board, diff)
		}
	}
}

// A board defined while the service runs is there at once.
func TestBoardsDefinedWhileRunning(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testBoardsDefinedWhileRunning)
}

func testBoardsDefinedWhileRunning(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	admin := token(t, 1, "admin")
	const body = `{"name":"gala","kind":"event","max_score":1000,"start":"2026-11-20T12:00:00Z","end":"2026-11-21T20:00:00+08:00"}`
	var made map[string]any
	s.want(s.call(admin, "POST", "/v1/admin/boards", body), 201, &made)
	if made["name"] != "gala" || made["kind"] != "event" || made["tick_ms"] != 1.0 || made["shards"] != 1.0 || made["global"] != "users" {
		t.Errorf("made %v", made)
	}
	s.want(s.service("POST", "/v1/boards/gala/increments", increment(1, 5, "a")), 200, nil)
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
		`{"name":"x","kind":"event","max_score":99999999999999,"start":"2026-11-20T12:00:00Z","end":"2026-11-21T12:00:00Z"}`,
		`{"name":"x","kind":"yearly","max_score":1000}`,
		`{"name":"X","kind":"daily","max_score":1000}`,
		`{"name":"x","kind":"daily","max_score":0}`,
		`{"name":"x","kind":"daily","max_score":10,"time_zone":"Mars/Olympus"}`,
		`{"name":"x","kind":"rolling","max_score":10,"window":200}`,
		`{"name":"x","kind":"daily","max_score":10,"window":24}`,
		`{"kind":"daily","max_score":10}`,
	} {
		s.refuse(s.call(admin, "POST", "/v1/admin/boards", bad), 422, models.CodeValidationFailed)
	}
}
