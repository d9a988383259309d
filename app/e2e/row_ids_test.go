package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/platform/auth"
)

// firstRow is the row id of the first user of TestRowIDsStayInside, which is
// recognizable among other numbers.
const firstRow = 777_000_001

// outside collects everything that a process and the program show to others.
type outside struct {
	*server
	process *testenv.Process
	said    map[string][]byte // by what has shown it
}

// newOutside starts a process with a queue, traces and a log of all levels. Its users
// get row ids from firstRow on.
func newOutside(t *testing.T) (*outside, *collector) {
	t.Helper()
	env := harness.Real(t)
	if _, err := env.Pool.Exec(t.Context(), `SELECT setval(pg_get_serial_sequence('users', 'user_id'), $1, false)`, firstRow); err != nil {
		t.Fatal(err)
	}
	traces := newCollector(t)
	start := time.Now().Add(-time.Hour).UTC()
	boards := fmt.Sprintf(`--boards=[{`+harness.Steps+`}, {name: gifts, kind: event, max_score: 1000, start: %q, end: %q}, {name: active, kind: rolling, max_score: 1000}]`,
		start.Format(time.RFC3339), start.AddDate(0, 0, 2).Format(time.RFC3339))
	p := testenv.Serve(t, env.Config, harness.RedisQueue(boards, "--log.level=debug", "--traces.ratio=1", "--traces.endpoint="+traces.url)...)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &outside{server: &server{t: t, env: env, url: p.URL}, process: p, said: make(map[string][]byte)}, traces
}

// hear makes a call, and keeps its answer.
func (o *outside) hear(token, method, path, body string) answer {
	o.t.Helper()
	a := o.call(token, method, path, body)
	var header bytes.Buffer
	if err := a.header.Write(&header); err != nil {
		o.t.Fatal(err)
	}
	call := method + " " + path
	o.said[call] = append(append(o.said[call], header.Bytes()...), a.body...)
	if a.status >= http.StatusInternalServerError {
		o.t.Errorf("%s: %d %s", call, a.status, a.body)
	}
	return a
}

// run runs a command of the program, and keeps its output.
func (o *outside) run(args ...string) {
	o.t.Helper()
	stdout, stderr, _ := testenv.Run(o.t, append(args, testenv.Flags(o.env.Config)...)...)
	o.said[strings.Join(args, " ")] = []byte(stdout + stderr)
}

// Row ids show nowhere outside of the service: not in answers, errors, cursors, dead
// letters, logs, metrics, traces, nor in the output of commands.
func TestRowIDsStayInside(t *testing.T) {
	t.Parallel()
	o, traces := newOutside(t)
	o.changeThings()
	o.deadLetters()
	o.readThings()
	o.failThings()
	steps := file(t, "user_id,date,steps\nann,"+harness.Today()+",999999999\nann,2016-04-12,7\nbad id,2016-04-12,7\n")
	o.run("import", "steps", steps)
	o.run("import", "friends", file(t, "ann eve\nann ann\nbusy ann\n"))
	o.run("dead-letters", "list")
	o.run("correct", "exclude", "--board=steps", "--user=ann", "--reason=shaken", "--actor=ops")
	o.hear(harness.Token(t, "ops", auth.ScopeAdmin), "GET", "/v1/admin/corrections", "")
	o.run("archive")
	o.hear("", "GET", "/metrics", "")
	o.process.Stop()
	o.said["the log"], o.said["the traces"] = []byte(o.process.Log()), traces.bytes

	rows := slices.Collect(maps.Keys(harness.Users(t, o.env.Gorm)))
	if len(rows) < 6 || slices.Min(rows) < firstRow {
		t.Fatalf("the users have the row ids %v", rows)
	}
	rows = append(rows, strangeRow)
	for what, text := range o.said {
		if len(text) == 0 {
			t.Errorf("%s has shown nothing", what)
		}
		for _, row := range rows {
			if form, at := findRow(text, row); form != "" {
				t.Errorf("%s shows the row id %v, %s: …%.300q", what, row, form, text[max(0, at-150):])
				break
			}
		}
	}
	if log := o.process.Log(); !strings.Contains(log, `"level":"DEBUG"`) || !strings.Contains(log, "dead letter") {
		t.Error("the log lacks what this test looks at")
	}
}

// strangeRow is a row id that no user has.
const strangeRow models.RowID = 777_999_999

// encoded matches texts that may be bytes in base64 or in hexadecimal digits.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{7,}`)

// findRow looks for a row id: as digits, as the bytes of a number, and as such bytes in
// base64 or in hexadecimal digits. It returns the form and where it begins.
func findRow(text []byte, row models.RowID) (form string, at int) {
	if at := bytes.Index(text, []byte(row.String())); at >= 0 {
		return "as digits", at
	}
	numbers := [][]byte{binary.AppendUvarint(nil, uint64(row)), binary.BigEndian.AppendUint64(nil, uint64(row))}
	has := func(text []byte) bool {
		return slices.ContainsFunc(numbers, func(number []byte) bool { return bytes.Contains(text, number) })
	}
	if has(text) {
		return "as bytes", 0
	}
	for _, span := range encoded.FindAllIndex(text, -1) {
		word := string(text[span[0]:span[1]])
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if decoded, err := encoding.DecodeString(word); err == nil && has(decoded) {
				return "in base64", span[0]
			}
		}
		if decoded, err := hex.DecodeString(word); err == nil && has(decoded) {
			return "in hexadecimal digits", span[0]
		}
	}
	return "", 0
}

// changeThings makes users, profiles, friends, requests, scores and increments.
func (o *outside) changeThings() {
	o.t.Helper()
	service := harness.Token(o.t, "1", "service")
	var items []string
	for i, user := range []models.UserID{"ann", "ben", "cho", "dee", "busy"} {
		token := harness.Token(o.t, user, "")
		o.want(o.hear(token, "PUT", "/v1/me", `{"nickname":"Name"}`), http.StatusOK, nil)
		o.want(o.hear(token, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), i)), http.StatusAccepted, nil)
		items = append(items, fmt.Sprintf(`{"user_id":%q,"delta":%d,"event_id":"%d"}`, user, 1+i, i))
	}
	increments := `{"increments":[` + strings.Join(items, ",") + `]}`
	for _, board := range []string{"gifts", "active"} {
		for range 2 { // the second time they are duplicates
			o.want(o.hear(service, "POST", "/v1/boards/"+board+"/increments", increments), http.StatusOK, nil)
		}
	}
	o.want(o.hear(service, "POST", "/v1/boards/steps/scores/batch",
		fmt.Sprintf(`{"scores":[{"user_id":"ann","date":%[1]q,"score":50},{"user_id":"ben","date":%[1]q,"score":-1}]}`, harness.Today())), http.StatusAccepted, nil)
	o.want(o.hear(service, "PUT", "/v1/users/ann/friends", `{"friend_ids":["ben","cho"]}`), http.StatusOK, nil)
	for _, user := range []models.UserID{"dee", "cho", "ben"} {
		o.hear(harness.Token(o.t, user, ""), "POST", "/v1/friends/requests", `{"user_id":"ann"}`)
	}
	o.hear(harness.Token(o.t, "cho", ""), "POST", "/v1/friends/requests", `{"user_id":"dee"}`)
	o.want(o.hear(harness.Token(o.t, "ann", ""), "POST", "/v1/friends/requests/dee/accept", ""), http.StatusOK, nil)
	harness.AwaitDrained(o.t, o.process)
}

// deadLetters puts updates into the queue that can't be applied: of a user for an
// unknown day, and of a user who does not exist. They are shown with user ids.
func (o *outside) deadLetters() {
	o.t.Helper()
	ann := harness.Rows(o.t, o.env.Gorm, []models.UserID{"ann"})[0]
	at := models.TimestampOf(time.Now())
	today := harness.DayBucket(o.t, o.env, harness.Today())
	addEntry(o.t, o.env, frames(ingest.Update{Board: "steps", Bucket: "20200101", User: ann, Score: 7, ReachedAt: at}.AppendTo(nil)))
	addEntry(o.t, o.env, frames(ingest.Update{Board: "steps", Bucket: today.Name, User: strangeRow, Score: 8, ReachedAt: at}.AppendTo(nil)))
	addEntry(o.t, o.env, frames([]byte("garbage")))
	harness.AwaitDrained(o.t, o.process)
	admin := harness.Token(o.t, "1", "admin")
	var page struct {
		Letters []struct {
			ID, Board, Bucket, Payload *string
			UserID                     *models.UserID `json:"user_id"`
			Score                      *int64
		} `json:"dead_letters"`
	}
	a := o.hear(admin, "GET", "/v1/admin/dead-letters", "")
	if err := json.Unmarshal(a.body, &page); err != nil || len(page.Letters) != 3 {
		o.t.Fatalf("%s: %v", a.body, err)
	}
	garbage, stranger, known := page.Letters[0], page.Letters[1], page.Letters[2]
	if garbage.Payload == nil || garbage.Board != nil || garbage.UserID != nil ||
		stranger.Payload != nil || stranger.UserID != nil || *stranger.Board != "steps" || *stranger.Score != 8 ||
		known.Payload != nil || *known.UserID != "ann" || *known.Bucket != "20200101" || *known.Score != 7 {
		o.t.Errorf("dead letters %s", a.body)
	}
	o.hear(admin, "GET", "/v1/admin/dead-letters?limit=1", "") // with a cursor
	o.hear(admin, "POST", "/v1/admin/dead-letters/"+*known.ID+"/replay", "")
	o.hear(admin, "POST", "/v1/admin/dead-letters/"+*stranger.ID+"/replay", "")
}

// readThings reads every list, in pages of one, and streams.
func (o *outside) readThings() {
	o.t.Helper()
	ann, service, admin := harness.Token(o.t, "ann", ""), harness.Token(o.t, "1", "service"), harness.Token(o.t, "1", "admin")
	for _, board := range []string{"steps", "gifts", "active"} {
		for _, call := range []string{"friends", "top"} {
			path := "/v1/boards/" + board + "/" + call + "?limit=1"
			for pages := 0; ; pages++ {
				var r models.Ranking
				o.want(o.hear(ann, "GET", path, ""), http.StatusOK, &r)
				if r.NextCursor == nil {
					if pages < 2 {
						o.t.Errorf("%s has %d pages", call, pages+1)
					}
					break
				}
				path = "/v1/boards/" + board + "/" + call + "?limit=1&cursor=" + *r.NextCursor
			}
		}
		o.want(o.hear(ann, "GET", "/v1/boards/"+board+"/around", ""), http.StatusOK, nil)
		o.want(o.hear(service, "GET", "/v1/boards/"+board+"/me?user_id=ben", ""), http.StatusOK, nil)
	}
	for _, path := range []string{
		"/v1/me", "/v1/friends?limit=1", "/v1/friends/requests?limit=1", "/v1/muted?limit=1", "/v1/boards/steps/history?for=ben", "/v1/boards",
		"/v1/boards/steps/friends?date=2020-01-01", "/v1/boards/steps/friends?include=likes", "/v1/boards/steps/likes/ann",
		"/v1/boards/steps/friends/absent?limit=1",
	} {
		o.want(o.hear(ann, "GET", path, ""), http.StatusOK, nil)
	}
	var made group
	o.want(o.hear(ann, "POST", "/v1/groups", `{"name":"Family"}`), http.StatusCreated, &made)
	ben := harness.Token(o.t, "ben", "")
	o.want(o.hear(ben, "POST", "/v1/groups/join", `{"invite_code":"`+*made.Code+`"}`), http.StatusOK, nil)
	for _, path := range []string{"/v1/groups", "/v1/groups/" + made.ID + "?limit=1", "/v1/boards/steps/groups/" + made.ID + "?limit=1"} {
		o.want(o.hear(ann, "GET", path, ""), http.StatusOK, nil)
	}
	for _, path := range []string{
		"/v1/admin/archives", "/v1/admin/boards/gifts", "/v1/admin/boards/steps/buckets", "/v1/admin/users/ann?board=steps",
	} {
		o.want(o.hear(admin, "GET", path, ""), http.StatusOK, nil)
	}
	watching := &streamServer{server: o.server}
	events, status, _ := watching.open("ann", "")
	name, data, ok := events.next()
	if status != http.StatusOK || !ok || name != "ranking" {
		o.t.Errorf("the stream: %d %s %s", status, name, data)
	}
	o.said["the stream"] = []byte(data)
	events.close()
}

// failThings makes calls that are refused, each with its reason.
func (o *outside) failThings() {
	o.t.Helper()
	if _, err := o.env.Pool.Exec(o.t.Context(), `UPDATE users SET friend_count = $1 WHERE external_id = 'busy'`, models.MaxFriends); err != nil {
		o.t.Fatal(err)
	}
	tokens := map[string]string{
		"ann": harness.Token(o.t, "ann", ""), "busy": harness.Token(o.t, "busy", ""), "new": harness.Token(o.t, "new", ""),
		"service": harness.Token(o.t, "1", "service"),
	}
	today := harness.Today()
	other := *o.ranking(tokens["ann"], "/v1/boards/steps/top?limit=1").NextCursor
	for _, call := range []struct {
		token, method, path, body string
		code                      models.Code
	}{
		{"ann", "POST", "/v1/friends/requests", `{"user_id":"busy"}`, models.CodeFriendLimit},
		{"busy", "POST", "/v1/friends/requests/ann/accept", "", models.CodeNotFound},
		{"service", "PUT", "/v1/users/ben/friends", `{"friend_ids":["busy"]}`, models.CodeFriendLimit},
		{"ann", "POST", "/v1/friends/requests", `{"user_id":"nobody"}`, models.CodeUserNotFound},
		{"ann", "POST", "/v1/friends/requests", `{"user_id":"ann"}`, models.CodeValidationFailed},
		{"ann", "POST", "/v1/friends/requests/nobody/accept", "", models.CodeNotFound},
		{"ann", "GET", "/v1/boards/steps/history?for=busy", "", models.CodeNotFound},
		{"ann", "GET", "/v1/boards/steps/friends?user_id=ben", "", models.CodeForbidden},
		{"ann", "GET", "/v1/boards/steps/friends?cursor=" + other, "", models.CodeInvalidCursor},
		{"ann", "GET", "/v1/boards/gifts/top?cursor=" + other, "", models.CodeInvalidCursor},
		{"ann", "GET", "/v1/friends?cursor=" + other, "", models.CodeInvalidCursor},
		{"ann", "POST", "/v1/boards/steps/scores", `{"date":"` + today + `","score":-1}`, models.CodeScoreOutOfRange},
		{"service", "POST", "/v1/boards/gifts/increments", `{"user_id":"ann","delta":1001,"event_id":"x"}`, models.CodeScoreOutOfRange},
		{"service", "POST", "/v1/boards/gifts/increments", `{"user_id":"ben","delta":1,"event_id":"0"}`, models.CodeEventIDConflict},
		{"ann", "POST", "/v1/groups/join", `{"invite_code":"x"}`, models.CodeNotFound},
		{"new", "GET", "/v1/boards/steps/groups/none", "", models.CodeNotFound},
		{"new", "GET", "/v1/boards/steps/me", "", ""},
		{"new", "DELETE", "/v1/friends/ann", "", ""},
	} {
		if a := o.hear(tokens[call.token], call.method, call.path, call.body); a.status >= 400 && a.code() != call.code || a.status < 400 && call.code != "" {
			o.t.Errorf("%s %s: %d %s, want %q", call.method, call.path, a.status, a.body, call.code)
		}
	}
}

// ranking reads a page of a ranking.
func (o *outside) ranking(token, path string) (r models.Ranking) {
	o.t.Helper()
	o.want(o.hear(token, "GET", path, ""), http.StatusOK, &r)
	return r
}
