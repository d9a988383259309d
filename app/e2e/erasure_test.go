package e2e_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
	"stepboard/services/people/teams"
)

const (
	// zed is the user who is erased, once called formerZed, and zedRow the row id, all
	// recognizable.
	zed            = "zed|4711"
	formerZed      = "former-zed"
	zedRow         = firstRow
	zedEvent       = `{"user_id":"zed|4711","delta":7,"event_id":"gift-1"}`
	zedSprintEvent = `{"user_id":"zed|4711","delta":5,"event_id":"sprint-1"}`
)

// traces returns the names of all tables and keys that name zed, by user id or by row id.
// Keys are named up to their first colon.
func (s *server) traces() []string {
	s.t.Helper()
	found := make(map[string]bool)
	for _, table := range s.tables() {
		rows, err := s.env.Gorm.Raw("SELECT * FROM " + table).Rows()
		if err != nil {
			s.t.Fatal(err)
		}
		columns := testenv.Must(rows.Columns())
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				s.t.Fatal(err)
			}
			for i, value := range values {
				if text := textOf(*value.(*any)); namesZed(text) && (table != "erasures" || columns[i] != "row_id") {
					found[table] = true
				}
			}
		}
		if err := rows.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
	for key, content := range s.keys() {
		if namesZed(key + content) {
			name, _, _ := strings.Cut(strings.TrimPrefix(key, s.env.Keys.Prefix), ":")
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func textOf(value any) string {
	if raw, ok := value.([]byte); ok {
		return string(raw)
	}
	return fmt.Sprint(value)
}

// namesZed reports whether a text has one of zed's user ids or the row id, the latter as digits or as a
// number of an update in a queue.
func namesZed(text string) bool {
	return strings.Contains(text, zed) || strings.Contains(text, formerZed) || strings.Contains(text, models.RowID(zedRow).String()) ||
		bytes.Contains([]byte(text), binary.AppendUvarint(nil, zedRow))
}

// tables returns the names of all tables.
func (s *server) tables() (tables []string) {
	s.t.Helper()
	query := `SELECT name FROM sqlite_master WHERE type = 'table'`
	if s.env.Pool != nil {
		query = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`
	}
	if err := s.env.Gorm.Raw(query).Scan(&tables).Error; err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(tables, func(name string) bool { return strings.HasPrefix(name, "sqlite_") })
}

// keys returns the content of all keys in Redis as text.
func (s *server) keys() map[string]string {
	s.t.Helper()
	ctx, rdb, all := s.t.Context(), s.env.Redis, make(map[string]string)
	scan := rdb.Scan(ctx, 0, s.env.Keys.Prefix+"*", 1000).Iterator()
	for scan.Next(ctx) {
		var content any
		switch key := scan.Val(); testenv.Must(rdb.Type(ctx, key).Result()) {
		case "string":
			content = rdb.Get(ctx, key).Val()
		case "set":
			content = rdb.SMembers(ctx, key).Val()
		case "zset":
			content = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "hash":
			content = rdb.HGetAll(ctx, key).Val()
		case "stream":
			content = rdb.XRange(ctx, key, "-", "+").Val()
		}
		all[scan.Val()] = fmt.Sprint(content)
	}
	if err := scan.Err(); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// setFirstRow makes the next user get a row id.
func setFirstRow(t testing.TB, env *testenv.Env, row models.RowID) {
	t.Helper()
	query := `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`
	if env.Pool != nil {
		query = `SELECT setval(pg_get_serial_sequence('users', 'user_id'), ?)`
	}
	if err := env.Gorm.Exec(query, row-1).Error; err != nil {
		t.Fatal(err)
	}
}

// zedBrowser subscribes a browser of zed whose push service never answers. The keys are those of the
// example of RFC 8291.
const zedBrowser = `{"endpoint":"http://127.0.0.1:9/of-zed","keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",` +
	`"auth":"BTBZMqHH6r4Tts7J_aSIgg"},"tell":["likes"]}`

// newErasable starts a service in which zed has left something everywhere: in archived days,
// one of them with scores that are equal in time, archived and running events, lists of
// others, decisions of operators, dead letters and webhooks.
func newErasable(t *testing.T, env *testenv.Env) *server {
	t.Helper()
	setFirstRow(t, env, zedRow)
	s := newServer(t, env, withEvents, newBackend(t).use, func(c *config.Config) {
		c.Boards[0].ReviewAbove, c.Boards[0].HoldAbove = 60_000, 90_000
		c.Push = config.Push{Subject: "mailto:ops@example.com", PrivateNetwork: true}
	})
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/"+formerZed, `{"nickname":"Zed"}`), 200, nil)
	s.want(s.service("POST", "/v1/users/"+formerZed+"/rename", `{"to":"zed|4711"}`), 204, nil)
	for _, user := range []models.UserID{"ann", "ben", "cho", "dee"} {
		s.want(s.as(user, "PUT", "/v1/me", `{"nickname":"N"}`), 200, nil)
	}
	s.want(s.service("POST", "/v1/boards/sprint/increments", zedSprintEvent), 200, nil)
	day := models.DateOf(testenv.Noon)
	s.uploadDay(day, map[models.UserID]int{zed: 4000, "ann": 4000, "ben": 4000, "cho": 5000, "dee": 3000})
	s.uploadDay(day+1, map[models.UserID]int{zed: 70_000, "ann": 100})
	s.correct(`{"board":"steps","date":%q,"user_id":%q,"kind":"set","score":900,"reason":"zed|4711 shook it","message":"dear zed|4711"}`, day+1, zed)
	env.Clock.Advance(10 * 24 * time.Hour)
	testenv.Eventually(t, "sprint is final", func() bool { // only then it is archived
		var top models.Ranking
		s.want(s.as("ann", "GET", "/v1/boards/sprint/top", nil), 200, &top)
		return top.Final
	})
	s.archiveDue()
	today := models.DateOf(env.Clock.Now())
	s.uploadDay(today, map[models.UserID]int{zed: 80_000, "ann": 100})
	testenv.Must(s.app.Reviews.Find(t.Context()))
	s.correct(`{"board":"steps","date":null,"user_id":%q,"kind":"exclude","reason":"again","message":"zed|4711, again"}`, zed)
	s.uploadDay(today, map[models.UserID]int{zed: 80_001})
	s.uploadDay(today, map[models.UserID]int{zed: 90_001}) // is held
	s.want(s.service("POST", "/v1/boards/gifts/increments", zedEvent), 200, nil)
	s.want(s.service("POST", "/v1/boards/active/increments", strings.Replace(zedEvent, "gift-1", "step-1", 1)), 200, nil)

	s.want(s.as(zed, "PUT", "/v1/me/push", zedBrowser), 200, nil)
	s.want(s.as(zed, "POST", "/v1/me/upload-addresses", `{"name":"phone","board":"steps"}`), 201, nil)
	s.want(s.as(zed, "POST", "/v1/friends/requests", `{"user_id":"ann"}`), 201, nil)
	s.want(s.as("ann", "POST", "/v1/friends/requests/zed%7C4711/accept", nil), 200, nil)
	s.want(s.as(zed, "PUT", "/v1/boards/steps/likes/ann", nil), 204, nil)
	s.want(s.as("ann", "PUT", "/v1/boards/steps/likes/zed%7C4711?date=2026-11-20", nil), 204, nil)
	s.want(s.as("ben", "POST", "/v1/friends/requests", `{"user_id":"zed|4711"}`), 201, nil)
	s.want(s.as(zed, "DELETE", "/v1/friends/requests/ben", nil), 204, nil)
	s.want(s.as("ben", "DELETE", "/v1/friends/requests/zed%7C4711", nil), 204, nil)
	for _, path := range []string{"hidden-from", "muted", "blocked"} {
		s.want(s.as(zed, "PUT", "/v1/"+path+"/cho", nil), 204, nil)
		s.want(s.as("dee", "PUT", "/v1/"+path+"/zed%7C4711", nil), 204, nil)
	}
	var group struct {
		ID   string `json:"group_id"`
		Code string `json:"invite_code"`
	}
	if err := json.Unmarshal(s.as(zed, "POST", "/v1/groups", `{"name":"walkers"}`).body, &group); err != nil {
		t.Fatal(err)
	}
	s.want(s.as("ann", "POST", "/v1/groups/join", fmt.Sprintf(`{"invite_code":%q}`, group.Code)), 200, nil)
	s.want(s.as(zed, "POST", "/v1/groups", `{"name":"alone"}`), 201, nil)
	s.compete(today, models.GroupID(group.ID))
	for _, path := range []string{"friends", "top", "groups/" + group.ID} {
		for _, user := range []models.UserID{zed, "ann", "cho", "dee"} {
			_ = s.as(user, "GET", "/v1/boards/steps/"+path, nil) // fills the caches; not all are members
		}
	}
	s.leaveLateAndBad()
	return s
}

// compete makes a group a team of a competition of a week.
func (s *server) compete(first models.Date, group models.GroupID) {
	s.t.Helper()
	testenv.Must(s.app.Teams.Put(s.t.Context(), teams.Definition{
		ID: "week", Board: "steps", Name: "Week", First: first, Last: first + 6,
		Measure: models.MeasureScore, Team: models.TeamMean, Groups: []models.GroupID{group},
	}))
}

// leaveLateAndBad leaves an update of zed for an archived day, and one that can't be applied.
func (s *server) leaveLateAndBad() {
	s.t.Helper()
	s.raiseLate(map[models.RowID]int64{zedRow: 4001})
	update := ingest.Update{Board: "nowhere", Bucket: "20261120", User: zedRow, Score: 1, ReachedAt: models.TimestampOf(testenv.Noon)}
	letter := models.DeadLetter{Position: "1", Reason: "no board", Payload: update.AppendTo(nil), QueuedAt: testenv.Noon, FailedAt: testenv.Noon}
	if err := ingest.NewDeadLetterStore(s.env.Gorm).Write(s.t.Context(), []models.DeadLetter{letter}); err != nil {
		s.t.Fatal(err)
	}
}

// raiseLate raises scores of the first archived day.
func (s *server) raiseLate(scores map[models.RowID]int64) {
	s.t.Helper()
	bucket := testenv.Must(s.app.Catalog.Buckets.Load(s.t.Context(), "steps", "20261120"))
	var raises []models.Raise
	for user, points := range scores {
		composite := testenv.Must(score.Of(bucket).Encode(bucket.Points(points), models.TimestampOf(testenv.Noon)))
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}})
	}
	if errs := s.app.Entries.Raise(s.t.Context(), raises); errs != nil {
		s.t.Fatal(errs)
	}
}

// sweep lets the job sweep once more, a minute later.
func (s *server) sweep() {
	s.t.Helper()
	if _, err := s.app.Erasure.Run(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.env.Clock.Advance(time.Minute)
}

// finishErasures sweeps until all erasures are finished.
func (s *server) finishErasures() {
	s.t.Helper()
	for range 5 {
		s.sweep()
		if testenv.Must(s.app.Erasure.List(s.t.Context(), 0, 1))[0].FinishedAt != nil {
			return
		}
	}
	s.t.Fatalf("the erasure is not finished: %+v", testenv.Must(s.app.Erasure.List(s.t.Context(), 0, 1)))
}

// keptOfZed are the tables that keep what must hold again when zed's id returns.
var keptOfZed = []string{"corrections", "kept_choices"}

// An erasure leaves nothing in any table and in no key that names the user, or leads back to
// them, but what must hold again when the user id returns.
func TestErasure(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newErasable(t, env)
	// A process that had not heard of the new id has stored a copy.
	if err := env.Redis.Set(t.Context(), env.Keys.UserRow(formerZed), zedRow, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	before := s.traces()
	for _, name := range []string{
		"users", "renames", "friendships", "friend_requests", "privacy_choices", "groups", "group_members", "competition_members", "archived_scores",
		"score_events", "score_totals", "likes", "corrections", "reported_scores", "reviews", "held_scores", "audit_log", "dead_letters",
		"webhook_deliveries", "push_subscriptions", "upload_addresses", "board", "user", "user-id", "friends", "not-shown", "group",
	} {
		if !slices.ContainsFunc(before, func(found string) bool { return strings.HasPrefix(found, name) }) {
			t.Errorf("the test leaves nothing in %s: %v", name, before)
		}
	}
	s.checkExport()
	var erasure struct {
		ID string `json:"erasure_id"`
	}
	s.want(s.as(zed, "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, &erasure)
	s.want(s.service("DELETE", "/v1/users/zed%7C4711", nil), http.StatusAccepted, nil)
	s.nobodyIsShown()
	s.finishErasures()
	testenv.Eventually(t, "nothing else is left, also of a sweep of the job", func() bool { return cmp.Equal(s.traces(), keptOfZed) })
	s.refuse(s.as(zed, "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusNotFound, models.CodeUserNotFound)
	var list struct {
		Erasures []struct {
			ID         string         `json:"id"`
			UserID     *models.UserID `json:"user_id"`
			FinishedAt *string        `json:"finished_at"`
		}
	}
	if err := json.Unmarshal(s.admin("GET", "/v1/admin/erasures", nil).body, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Erasures) != 1 || list.Erasures[0].ID != erasure.ID || list.Erasures[0].UserID != nil || list.Erasures[0].FinishedAt == nil {
		t.Errorf("operators see %+v", list)
	}
	s.ranksStayRight()
	s.comesBack()
}

// checkExport checks that an export has everything that zed has left, and neither a row id
// nor who has hidden from zed.
func (s *server) checkExport() {
	s.t.Helper()
	a := s.as(zed, "GET", "/v1/me/export", nil)
	var sections map[string]any
	if err := json.Unmarshal(a.body, &sections); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	for _, name := range []string{
		"profile", "former_ids", "current_scores", "friends", "friend_requests", "choices", "groups", "likes_given", "likes_received", "archived_scores", "increments", "totals", "corrections",
		"reported_scores", "reviews", "held_scores", "operator_actions", "dead_letters", "webhooks", "push_subscriptions", "push_browsers", "upload_addresses", "competitions",
	} {
		if list, _ := sections[name].([]any); len(list) == 0 {
			s.t.Errorf("the export has no %s: %v", name, sections[name])
		}
	}
	if of := s.admin("GET", "/v1/admin/users/zed%7C4711/export", nil); !strings.Contains(string(of.body), `"tell":["likes"]`) || strings.Contains(string(of.body), "of-zed") {
		s.t.Errorf("an operator gets %s", of.body)
	}
	text := string(a.body)
	if strings.Contains(text, models.RowID(zedRow).String()) || strings.Contains(text, "dee") {
		s.t.Errorf("the export shows a row id, or who has hidden from the user: %s", text)
	}
	for _, part := range []string{
		`"board":"steps","date":"2026-11-20","rank":`, `{"board":"gifts","delta":7,"event_id":"gift-1"`, `"kept":"late"`, `"kept":"reported"`,
		`"before_score":70000`, `"message":"dear zed|4711"`, `{"user_id":"ann","since":"`, `"kind":"blocked","user_id":"cho"`,
	} {
		if !hasFields(text, part) {
			s.t.Errorf("the export lacks %s: %s", part, text)
		}
	}
}

// hasFields reports whether some object in a text has all fields of a part of an object.
func hasFields(text, part string) bool {
	return slices.ContainsFunc(strings.Split(text, "}"), func(object string) bool {
		for _, field := range strings.Split(strings.Trim(part, "{"), ",") {
			if !strings.Contains(object, strings.TrimSuffix(field, `"`)) {
				return false
			}
		}
		return true
	})
}

// nobodyIsShown checks that the next answers name zed no more.
func (s *server) nobodyIsShown() {
	s.t.Helper()
	day := models.DateOf(testenv.Noon)
	for _, path := range []string{
		"friends", "top", "friends?date=" + day.String(), "top?date=" + day.String(), "history?for=zed%7C4711", "me",
	} {
		if a := s.as("ann", "GET", "/v1/boards/steps/"+path, nil); strings.Contains(string(a.body), "zed") || a.status >= 500 {
			s.t.Errorf("%s shows %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/v1/friends", "/v1/friends/requests", "/v1/groups", "/v1/blocked"} {
		for _, user := range []models.UserID{"ann", "ben", "dee"} {
			if a := s.as(user, "GET", path, nil); strings.Contains(string(a.body), "zed") || a.status != http.StatusOK {
				s.t.Errorf("%s shows %s %d %s", path, user, a.status, a.body)
			}
		}
	}
	s.refuse(s.as("cho", "POST", "/v1/friends/requests", `{"user_id":"zed|4711"}`), http.StatusNotFound, models.CodeUserNotFound)
}

// ranksStayRight checks the archived day of equal scores, before and after it is archived
// once more: zed's line stays, without a name.
func (s *server) ranksStayRight() {
	s.t.Helper()
	for range 2 {
		var top models.Ranking
		s.want(s.as("ann", "GET", "/v1/boards/steps/top?date=2026-11-20", nil), http.StatusOK, &top)
		var ranks []int64
		var scores []int64
		var nameless int
		for _, e := range top.Entries {
			ranks, scores = append(ranks, e.Rank), append(scores, e.Score)
			if e.User == "" {
				nameless++
			}
		}
		if !cmp.Equal(ranks, []int64{1, 2, 3, 4, 5}) || !cmp.Equal(scores, []int64{5000, 4000, 4000, 4000, 3000}) || nameless != 1 {
			s.t.Errorf("the archived day is %+v", top.Entries)
		}
		for _, user := range []models.UserID{"ann", "ben", "cho", "dee"} {
			var around models.Ranking
			s.want(s.as(user, "GET", "/v1/boards/steps/around?date=2026-11-20&radius=1", nil), http.StatusOK, &around)
			if around.Me == nil || top.Entries[around.Me.Rank-1].User != user {
				s.t.Errorf("%s has another rank around oneself: %+v", user, around.Me)
			}
		}
		// Another run merges an update that came late.
		s.raiseLate(map[models.RowID]int64{harness.Rows(s.t, s.env.Gorm, []models.UserID{"dee"})[0]: 2999, zedRow: 9000})
		s.archiveDue()
	}
}

// comesBack checks that the same user id is somebody else from the next write on, for whom what
// operators and others have decided holds.
func (s *server) comesBack() {
	s.t.Helper()
	for _, c := range []struct{ board, event string }{{"gifts", zedEvent}, {"sprint", zedSprintEvent}} {
		s.refuse(s.service("POST", "/v1/boards/"+c.board+"/increments", c.event), http.StatusConflict, models.CodeEventIDConflict)
	}
	s.want(s.as(zed, "PUT", "/v1/me", `{"nickname":"Zoe"}`), http.StatusOK, nil)
	if row := harness.Rows(s.t, s.env.Gorm, []models.UserID{zed})[0]; row <= zedRow {
		s.t.Errorf("the new user has the row id %v", row)
	}
	var me struct{ Score *int64 }
	if err := json.Unmarshal(s.as(zed, "GET", "/v1/boards/steps/me", nil).body, &me); err != nil {
		s.t.Fatal(err)
	}
	if me.Score != nil {
		s.t.Errorf("the new user has the score %d", *me.Score)
	}
	testenv.Must(s.app.Erasure.Guard(s.t.Context()))
	var profile struct{ Nickname string }
	if err := json.Unmarshal(s.as(zed, "GET", "/v1/me", nil).body, &profile); err != nil {
		s.t.Fatal(err)
	}
	if profile.Nickname != "Zoe" {
		s.t.Errorf("the new user's profile is %+v", profile)
	}
	s.check("me", s.standing(zed, ""), "- - - excluded")
	for _, path := range []string{"/v1/blocked", "/v1/hidden-from"} {
		s.check(path, s.lists("dee", path), zed)
	}
	s.check("muted", s.lists("dee", "/v1/muted"), "")
}

// After an older backup was restored, the erasures of a file are repeated, and somebody who
// came later under the same user id is spared. The backup may have a former id. Files that are none are refused.
func TestErasuresOfAFile(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	s := newServer(t, env)
	for _, user := range []models.UserID{zed, "ann", "mia"} {
		s.want(s.as(user, "PUT", "/v1/me", `{"nickname":"N"}`), http.StatusOK, nil)
	}
	rows := harness.Rows(t, env.Gorm, []models.UserID{zed, "ann", "mia"})
	for _, id := range []string{"ben", "bob"} {
		s.want(s.service("POST", "/v1/users/mia/rename", fmt.Sprintf(`{"to":%q}`, id)), http.StatusNoContent, nil)
		s.want(s.service("POST", "/v1/users/"+id+"/rename", `{"to":"mia"}`), http.StatusNoContent, nil)
	}
	s.want(s.service("POST", "/v1/users/mia/rename", `{"to":"zoe"}`), http.StatusNoContent, nil)
	for _, user := range []string{"zed%7C4711", "ann", "zoe"} {
		s.want(s.service("DELETE", "/v1/users/"+user, nil), http.StatusAccepted, nil)
	}
	s.finishErasures()
	path, flags := filepath.Join(t.TempDir(), "erasures"), testenv.Flags(env.Config)
	if got := mustRun(t, append([]string{"erasures", "export", path}, flags...)...); got != "3 erasures were exported\n" {
		t.Errorf("export prints %q", got)
	}
	if text := string(testenv.Must(os.ReadFile(path))); strings.Contains(text, "zed") || strings.Contains(text, "ann") || strings.Contains(text, "mia") {
		t.Errorf("the file names users: %s", text)
	}

	// The backup has zed, and Mia under that name, and knows nothing of erasures. Ann comes as somebody new.
	for _, statement := range []string{
		"DELETE FROM erasures", "DELETE FROM erasure_keys",
		fmt.Sprintf("INSERT INTO users (user_id, external_id, created_at) VALUES (%d, '%s', now())", rows[0], zed),
		fmt.Sprintf("INSERT INTO users (user_id, external_id, created_at) VALUES (%d, 'mia', now())", rows[2]),
		"INSERT INTO users (external_id, created_at) VALUES ('ann', now())",
	} {
		if err := env.Gorm.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	apply := append([]string{"erasures", "apply", path}, flags...)
	for _, want := range []string{"2 users are erased again\n", "0 users are erased again\n"} {
		if got := mustRun(t, apply...); got != want {
			t.Errorf("apply prints %q, want %q", got, want)
		}
	}
	if users := slices.Collect(maps.Values(harness.Users(t, env.Gorm))); !cmp.Equal(users, []models.UserID{"ann"}) {
		t.Errorf("the users are %v", users)
	}
	for _, text := range []string{"", "{}", `{"stepboard_erasures":1,"key":""}`, `{"stepboard_erasures":1,"key":"00"}{"hash":"x"}`} {
		_, stderr, status := testenv.Run(t, append([]string{"erasures", "apply", file(t, text)}, flags...)...)
		if status != 1 || !strings.Contains(stderr, "it is no file of erasures") {
			t.Errorf("%q: status %d, %s", text, status, stderr)
		}
	}
}
