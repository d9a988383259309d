package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	item := `{"date":"2026-11-20","score":1}`
	tests := []struct {
		name, body string
		status     int
		code       models.Code
	}{
		{"an empty body", ``, 422, models.CodeValidationFailed},
		{"not JSON", `steps=5`, 400, models.CodeInvalidRequest},
		{"half an object", `{"date":"2026-11-20"`, 400, models.CodeInvalidRequest},
		{"two values", item + item, 400, models.CodeInvalidRequest},
		{"no UTF-8", "{\"date\":\"\xff\",\"score\":1}", 400, models.CodeInvalidRequest},
		{"a key twice", `{"date":"2026-11-20","score":1,"score":2}`, 400, models.CodeInvalidRequest},
		{"a key twice, inside", `{"scores":[{"date":"2026-11-20","score":1,"date":"2026-11-19"}]}`, 400, models.CodeInvalidRequest},
		{"half an object, after a wrong type", `{"date":5`, 400, models.CodeInvalidRequest},
		{"half a list", `[`, 400, models.CodeInvalidRequest},
		{"a key twice, after an unknown field", `{"steps":1,"date":"2026-11-20","date":"2026-11-19"}`, 400, models.CodeInvalidRequest},
		{"NaN", `{"date":"2026-11-20","score":NaN}`, 400, models.CodeInvalidRequest},
		{"a leading zero", `{"date":"2026-11-20","score":007}`, 400, models.CodeInvalidRequest},
		{"an array", `[]`, 422, models.CodeValidationFailed},
		{"null", `null`, 422, models.CodeValidationFailed},
		{"nothing in it", `{}`, 422, models.CodeValidationFailed},
		{"an unknown field", `{"date":"2026-11-20","score":1,"steps":2}`, 422, models.CodeValidationFailed},
		{"another case of a field", `{"Date":"2026-11-20","score":1}`, 422, models.CodeValidationFailed},
		{"no date", `{"score":1}`, 422, models.CodeValidationFailed},
		{"no score", `{"date":"2026-11-20"}`, 422, models.CodeValidationFailed},
		{"a null score", `{"date":"2026-11-20","score":null}`, 422, models.CodeValidationFailed},
		{"a score in words", `{"date":"2026-11-20","score":"12"}`, 422, models.CodeValidationFailed},
		{"NaN in words", `{"date":"2026-11-20","score":"NaN"}`, 422, models.CodeValidationFailed},
		{"a fraction", `{"date":"2026-11-20","score":1.5}`, 422, models.CodeValidationFailed},
		{"an exponent", `{"date":"2026-11-20","score":1e3}`, 422, models.CodeValidationFailed},
		{"a score that is a list", `{"date":"2026-11-20","score":[1]}`, 422, models.CodeValidationFailed},
		{"a negative score", `{"date":"2026-11-20","score":-1}`, 422, models.CodeScoreOutOfRange},
		{"one more than the largest", `{"date":"2026-11-20","score":100001}`, 422, models.CodeScoreOutOfRange},
		{"more than an int64", `{"date":"2026-11-20","score":99999999999999999999}`, 422, models.CodeScoreOutOfRange},
		{"less than an int64", `{"date":"2026-11-20","score":-99999999999999999999}`, 422, models.CodeScoreOutOfRange},
		{"a date that is none", `{"date":"2026-02-30","score":1}`, 422, models.CodeValidationFailed},
		{"a date in another form", `{"date":"20.11.2026","score":1}`, 422, models.CodeValidationFailed},
		{"a time for a date", `{"date":"2026-11-20T00:00:00Z","score":1}`, 422, models.CodeValidationFailed},
		{"a number for a date", `{"date":20261120,"score":1}`, 422, models.CodeValidationFailed},
		{"tomorrow", `{"date":"2026-11-21","score":1}`, 422, models.CodeDateInFuture},
		{"three days ago", `{"date":"2026-11-17","score":1}`, 422, models.CodeDateClosed},
		{"both forms", `{"date":"2026-11-20","score":1,"scores":[` + item + `]}`, 422, models.CodeValidationFailed},
		{"no items", `{"scores":[]}`, 422, models.CodeValidationFailed},
		{"32 items", `{"scores":[` + strings.Repeat(item+",", 31) + item + `]}`, 422, models.CodeValidationFailed},
		{"a malformed item of two", `{"scores":[` + item + `,{"date":"2026-11-20","score":1.5}]}`, 422, models.CodeValidationFailed},
		{"bad items alone", `{"scores":[{"date":"2026-11-20","score":-1},{"date":"2026-11-17","score":1}]}`, 422, models.CodeScoreOutOfRange},
		{"a body too large", `{"scores":[` + item + strings.Repeat(" ", 1<<20) + `]}`, 413, models.CodeBodyTooLarge},
	}
	env := testenv.Real(t)
	s := newServer(t, env)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			s.refuse(s.as("1001", "POST", "/v1/boards/steps/scores", tt.body), tt.status, tt.code)
		})
	}
	var r models.Ranking
	for _, date := range []string{"2026-11-18", "2026-11-19", "2026-11-20"} {
		s.want(s.as("1001", "GET", "/v1/boards/steps/friends?date="+date, nil), http.StatusOK, &r)
		if r.Me != nil {
			t.Errorf("a refused upload was applied on %s: %+v", date, r.Me)
		}
	}
	s.refuse(s.as("1001", "POST", "/v1/boards/nix/scores", item), 404, models.CodeBoardNotFound)
	s.refuse(s.as("1001", "POST", "/v1/boards/%7Bsteps%7D/scores", item), 404, models.CodeBoardNotFound)
	s.refuse(s.as("1001", "POST", "/v1/boards/steps%00/scores", item), 404, models.CodeBoardNotFound)
}

// A phone that was offline for 20 days needs one call, whatever is wrong with some days.
func TestUploadsOfOpenAndClosedDays(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	var items []string
	for day := 1; day <= 21; day++ {
		items = append(items, fmt.Sprintf(`{"date":"2026-11-%02d","score":%d}`, day, 1000+day))
	}
	items = append(items, `{"date":"2026-11-20","score":100001}`)
	var got accepted
	s.want(s.as("1001", "POST", "/v1/boards/steps/scores", `{"scores":[`+strings.Join(items, ",")+`]}`), http.StatusOK, &got)
	if len(got.Accepted) != 3 || got.Accepted[0].Date != "2026-11-18" || got.Accepted[2].Score != 1020 {
		t.Errorf("accepted %+v", got.Accepted)
	}
	codes := make(map[models.Code]int)
	for i, r := range got.Rejected {
		codes[r.Code]++
		if i < 17 && (r.Index != i || r.Date != fmt.Sprintf("2026-11-%02d", i+1) || r.Code != models.CodeDateClosed || r.Detail == "") {
			t.Errorf("rejected %+v", r)
		}
	}
	if diff := cmp.Diff(map[models.Code]int{models.CodeDateClosed: 17, models.CodeDateInFuture: 1, models.CodeScoreOutOfRange: 1}, codes); diff != "" {
		t.Error(diff)
	}
	var r models.Ranking
	s.want(s.as("1001", "GET", "/v1/boards/steps/friends?date=2026-11-20", nil), http.StatusOK, &r)
	if r.Me == nil || r.Me.Score != 1020 {
		t.Errorf("today: %+v", r.Me)
	}

	// With no day left the call fails, and says the same about each.
	a := s.as("1001", "POST", "/v1/boards/steps/scores", `{"scores":[`+strings.Join(items[:17], ",")+`]}`)
	s.refuse(a, http.StatusUnprocessableEntity, models.CodeDateClosed)
	var refused accepted
	if err := json.Unmarshal(a.body, &refused); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.Rejected[:17], refused.Rejected); diff != "" {
		t.Error(diff)
	}
}

// The error names the field that is wrong.
func TestRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	for body, location := range map[string]string{
		`{"date":"2026-11-20","score":-1}`:                                                   "body.score",
		`{"date":"2026-11-21","score":1}`:                                                    "body.date",
		`{"scores":[{"date":"2026-11-17","score":1},{"date":"2026-11-20","score":100001}]}`:  "body.scores[1].score",
		`{"scores":[{"date":"2026-11-20","score":1},{"date":"2026-11-99","score":1}]}`:       "body.scores[1].date",
		`{"scores":[{"date":"2026-11-20","score":1},{"date":"2026-11-20","score":"x"}]}`:     "body.scores[1].score",
		`{"scores":[{"date":"2026-11-20","score":1},{"date":"2026-11-20","s":1,"score":1}]}`: "body.scores[1].s",
	} {
		a := s.as("1", "POST", "/v1/boards/steps/scores", body)
		if !strings.Contains(string(a.body), fmt.Sprintf(`"location":%q`, location)) {
			t.Errorf("%s: %s does not name %s", body, a.body, location)
		}
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testBatch)
}

func testBatch(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	var got struct {
		Accepted int        `json:"accepted"`
		Rejected []rejected `json:"rejected"`
		Held     []int      `json:"held"`
	}
	body := `{"scores":[
		{"user_id":"1","date":"2026-11-20","score":10},
		{"user_id":"0 1","date":"2026-11-20","score":10},
		{"user_id":"2","date":"2026-11-20","score":1.5},
		{"user_id":"3","date":"2026-11-20","score":-5},
		{"user_id":"4","date":"2026-11-25","score":5},
		{"user_id":"5","date":"yesterday","score":5},
		{"user_id":6,"date":"2026-11-20","score":5},
		{"user_id":"..","date":"2026-11-20","score":5},
		{"date":"2026-11-20","score":5},
		{"user_id":"8","date":"2026-11-20","score":5,"x":1},
		{"user_id":"9","date":"2026-11-20","score":20},
		"nothing"
	]}`
	s.want(s.service("POST", "/v1/boards/steps/scores/batch", body), http.StatusOK, &got)
	want := map[int]models.Code{
		1: models.CodeValidationFailed, 2: models.CodeValidationFailed, 3: models.CodeScoreOutOfRange, 4: models.CodeDateInFuture,
		5: models.CodeValidationFailed, 6: models.CodeValidationFailed, 7: models.CodeValidationFailed, 8: models.CodeValidationFailed,
		9: models.CodeValidationFailed, 11: models.CodeValidationFailed,
	}
	if got.Accepted != 2 || len(got.Rejected) != len(want) {
		t.Errorf("accepted %d, rejected %+v", got.Accepted, got.Rejected)
	}
	last := -1
	for _, r := range got.Rejected {
		if r.Code != want[r.Index] || r.Detail == "" || r.Index <= last {
			t.Errorf("item %d: %s %q, want %s", r.Index, r.Code, r.Detail, want[r.Index])
		}
		last = r.Index
	}
	var top models.Ranking
	s.want(s.service("GET", "/v1/boards/steps/top", nil), http.StatusOK, &top)
	var users []models.UserID
	for _, e := range top.Entries {
		users = append(users, e.User)
	}
	if diff := cmp.Diff([]models.UserID{"9", "1"}, users); diff != "" {
		t.Error(diff)
	}

	item := `{"user_id":"1","date":"2026-11-20","score":10}`
	s.refuse(s.as("1", "POST", "/v1/boards/steps/scores/batch", `{"scores":[`+item+`]}`), 403, models.CodeForbidden)
	for body, code := range map[string]models.Code{
		`{"scores":[]}`:       models.CodeValidationFailed,
		`{}`:                  models.CodeValidationFailed,
		`{"scores":null}`:     models.CodeValidationFailed,
		`{"scores":[1,2],}`:   models.CodeInvalidRequest,
		`{"scores":{},"a":1}`: models.CodeValidationFailed,
		`{"scores":[` + strings.Repeat(item+",", 1000) + item + `]}`: models.CodeValidationFailed,
	} {
		a := s.service("POST", "/v1/boards/steps/scores/batch", body)
		if a.code() != code {
			t.Errorf("%.40s: %d %s", body, a.status, a.body)
		}
	}
	s.want(s.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Repeat(item+",", 999)+item+`]}`), http.StatusOK, &got)
	if got.Accepted != 1000 {
		t.Errorf("accepted %d of 1000", got.Accepted)
	}
	s.refuse(s.service("POST", "/v1/boards/nix/scores/batch", `{"scores":[`+item+`]}`), 404, models.CodeBoardNotFound)
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
