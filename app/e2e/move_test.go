package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// movedUsers is how many users a folder that is moved has.
const movedUsers = 40

func movedUser(i int) models.UserID { return models.UserID(fmt.Sprintf("u|%d", i%movedUsers)) }

// pathOf returns a user id as a part of a path.
func pathOf(user models.UserID) string { return url.PathEscape(string(user)) }

// openToMove opens a folder for the settings of an environment, whose clock it shares.
func openToMove(t testing.TB, dir string, servers *testenv.Env) *testenv.Env {
	t.Helper()
	cfg := servers.Config
	cfg.Redis, cfg.Postgres = config.Default().Redis, config.Default().Postgres
	return &testenv.Env{
		Stores: testenv.Must(stores.OpenFolder(t.Context(), dir, servers.Clock.Now)), Config: cfg, Clock: servers.Clock, Log: servers.Log,
	}
}

// fill stores something of everything.
func (s *server) fill() {
	s.t.Helper()
	s.want(s.admin("POST", "/v1/admin/boards", giftsDefinition), http.StatusCreated, nil)
	s.want(s.admin("POST", "/v1/admin/boards", `{"name":"laps","kind":"daily","max_score":100000,"order":"low"}`), http.StatusCreated, nil)
	s.want(s.admin("POST", "/v1/admin/boards", `{"name":"hours","kind":"rolling","max_score":1000}`), http.StatusCreated, nil)
	for i := range movedUsers {
		s.want(s.service("PUT", "/v1/users/"+pathOf(movedUser(i)), fmt.Sprintf(`{"nickname":"Name %d","avatar_url":"https://a.example/%d"}`, i, i)), http.StatusOK, nil)
	}
	for i := range movedUsers {
		var list []string
		for k := 1; k < 12; k++ {
			list = append(list, fmt.Sprintf("%q", movedUser(i+k*k)))
		}
		slices.Sort(list)
		list = slices.DeleteFunc(slices.Compact(list), func(id string) bool { return id == fmt.Sprintf("%q", movedUser(i)) })
		s.want(s.service("PUT", "/v1/users/"+pathOf(movedUser(i))+"/friends", `{"friend_ids":[`+strings.Join(list, ",")+`]}`), http.StatusOK, nil)
	}
	for day := range 6 {
		scores := make(map[models.UserID]int)
		for i := range movedUsers {
			scores[movedUser(i)] = (i*37+day*11)%30*100 + 1
		}
		s.uploadDay(harness.NoonDay+models.Date(day), scores)
		s.uploadToday("laps", movedUser(day), 60_000+day)
		s.uploadToday("laps", movedUser(day+1), 61_000)
	}
	s.correct(`{"board":"steps","date":"2026-11-20","user_id":%q,"kind":"set","score":77,"reason":"shaken"}`, movedUser(3))
	s.archiveDue()
	last := (harness.NoonDay + 5).String()
	s.correct(`{"board":"steps","date":%q,"user_id":%q,"kind":"set","score":500,"reason":"shaken"}`, last, movedUser(4))
	s.correct(`{"board":"steps","user_id":%q,"kind":"exclude","reason":"all"}`, movedUser(5))
	s.lift(s.correct(`{"board":"steps","date":%q,"user_id":%q,"kind":"exclude","reason":"a mistake"}`, last, movedUser(6)))
	for i := range movedUsers {
		user := movedUser(i)
		for _, b := range []string{"gifts", "hours"} {
			s.want(s.service("POST", "/v1/boards/"+b+"/increments", fmt.Sprintf(`{"user_id":%q,"delta":%d,"event_id":"e%d"}`, user, i%7+1, i)), http.StatusOK, nil)
		}
		s.as(user, "PUT", "/v1/boards/steps/likes/"+pathOf(movedUser(i+1))+"?date="+last, nil) // if they see them
		s.as(user, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, movedUser(i+2)))
		switch i % 8 {
		case 0:
			s.want(s.as(user, "PUT", "/v1/muted/"+pathOf(movedUser(i+1)), nil), http.StatusNoContent, nil)
			s.want(s.as(user, "POST", "/v1/groups", fmt.Sprintf(`{"name":"Group %d"}`, i)), http.StatusCreated, nil)
		case 1:
			s.want(s.as(user, "PUT", "/v1/blocked/"+pathOf(movedUser(i+7)), nil), http.StatusNoContent, nil)
		case 2:
			s.want(s.as(user, "PUT", "/v1/hidden-from/"+pathOf(movedUser(i+1)), nil), http.StatusNoContent, nil)
		}
	}
	s.want(s.service("PUT", "/v1/groups/team/members", fmt.Sprintf(`{"member_ids":[%q,%q,%q]}`, movedUser(1), movedUser(2), movedUser(9))), http.StatusOK, nil)
	s.compete(harness.NoonDay+5, "team")
	s.want(s.as(movedUser(10), "PUT", "/v1/me/privacy", `{"hidden":true}`), http.StatusOK, nil)
	s.want(s.as(movedUser(10), "PUT", "/v1/me/push", zedBrowser), http.StatusOK, nil)
	s.want(s.as(movedUser(10), "POST", "/v1/me/upload-addresses", `{"name":"phone","board":"steps"}`), http.StatusCreated, nil)
	s.want(s.as(movedUser(10), "PUT", "/v1/me/push", `{"tell":["passed"]}`), http.StatusOK, nil)
	s.want(s.service("POST", "/v1/users/"+pathOf(movedUser(11))+"/rename", `{"to":"renamed"}`), http.StatusNoContent, nil)
	s.want(s.as(movedUser(12), "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
	s.finishErasures()
	s.want(s.as(movedUser(39), "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil) // the latest row id
	s.finishErasures()
	if _, err := s.app.Reviews.Find(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	testenv.Must(s.app.Competitions.Run(s.t.Context()))
	s.uploadDay(harness.NoonDay+5, map[models.UserID]int{movedUser(7): 60_000}) // is held
	// Something comes late for a day that is archived.
	late := harness.DayBucket(s.t, s.env, "2026-11-20")
	row := harness.Rows(s.t, s.env.Gorm, []models.UserID{movedUser(20)})[0]
	if err := s.app.Entries.Raise(s.t.Context(), []models.Raise{{Bucket: late, Entry: models.Entry{User: row, Composite: board.Top.Composite - 1}}}); err != nil {
		s.t.Fatal(err)
	}
}

// ask makes a thousand calls and returns the answers. Those of pages follow cursors; with cursors, a
// page of before, they follow the cursors of that.
func (s *server) ask(before map[string]string) map[string]string {
	s.t.Helper()
	answers := make(map[string]string)
	days := []string{"2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24", "2026-11-25"}
	for i := 0; i < movedUsers; i += 2 {
		user := movedUser(i)
		paths := []string{"/v1/friends", "/v1/me", "/v1/me/privacy", "/v1/me/push", "/v1/me/upload-addresses", "/v1/groups", "/v1/friends/requests", "/v1/blocked", "/v1/muted",
			"/v1/hidden-from", "/v1/competitions", "/v1/boards", "/v1/boards/steps/summary", "/v1/boards/steps/history?from=2026-11-20&to=2026-11-25"}
		for _, day := range days {
			paths = append(paths, "/v1/boards/steps/friends?limit=3&include=likes&date="+day, "/v1/boards/steps/around?date="+day)
		}
		paths = append(paths, "/v1/boards/steps/friends?from=2026-11-20&to=2026-11-25&limit=3", "/v1/boards/gifts/friends?limit=3",
			"/v1/boards/hours/friends?limit=3", "/v1/boards/hours/top?limit=3",
			"/v1/boards/laps/friends?date=2026-11-20", "/v1/boards/laps/top?date=2026-11-25", "/v1/boards/laps/history?from=2026-11-20&to=2026-11-25", "/v1/boards/gifts/top?limit=3", "/v1/boards/gifts/me")
		for _, day := range days {
			paths = append(paths, "/v1/boards/steps/top?limit=5&date="+day)
		}
		for _, path := range paths {
			name := fmt.Sprint(user, " ", path)
			answers[name] = s.stable(s.as(user, "GET", path, nil))
			page := answers[name]
			if before != nil {
				page = before[name]
			}
			var next struct {
				NextCursor *string `json:"next_cursor"`
			}
			if json.Unmarshal([]byte(page[strings.Index(page, " "):]), &next) == nil && next.NextCursor != nil {
				answers[name+" next"] = s.stable(s.as(user, "GET", path+map[bool]string{false: "?", true: "&"}[strings.Contains(path, "?")]+"cursor="+*next.NextCursor, nil))
			}
		}
	}
	for _, path := range []string{"/v1/admin/corrections", "/v1/admin/reviews", "/v1/admin/holds", "/v1/admin/audit", "/v1/admin/archives", "/v1/admin/erasures",
		"/v1/competitions/week/people", "/v1/competitions/week/teams", "/v1/admin/boards/steps/buckets?from=2026-11-20&to=2026-11-25", "/v1/admin/users/u%7C1", "/v1/admin/users/renamed"} {
		answers[path] = s.stable(s.admin("GET", path, nil))
	}
	return answers
}

// stable returns an answer without what differs between two calls at different times.
func (s *server) stable(a answer) string {
	s.t.Helper()
	return fmt.Sprint(a.status, " ", string(a.body))
}

// A folder is moved to servers, and nobody notices: a thousand calls have the same answers, also with
// the cursors of before.
func TestMove(t *testing.T) {
	t.Parallel()
	servers := harness.RealWithSecret(t)
	dir := filepath.Join(t.TempDir(), "data")
	settings := func(c *config.Config) {
		c.Push = config.Push{Subject: "mailto:ops@example.com", PrivateNetwork: true}
		c.Boards[0].ReviewAbove, c.Boards[0].HoldAbove = 2000, 50_000
		c.Webhooks = []config.Webhook{{URL: "http://127.0.0.1:1/", Secrets: []string{webhookSecret}, PrivateNetwork: true}} // nobody listens
	}
	withoutJobs := func(o *app.Options) { o.Roles = app.Roles{API: true} } // nothing changes between calls
	var before map[string]string
	t.Run("folder", func(t *testing.T) {
		s := newServerOf(t, openToMove(t, dir, servers), withoutJobs, settings)
		s.fill()
		before = s.ask(nil)
	})
	if t.Failed() {
		return
	}
	args := []string{"move", "--data=" + dir, "--redis.addrs=" + servers.Config.Redis.Addrs[0], "--redis.key_prefix=" + servers.Config.Redis.KeyPrefix,
		"--postgres.dsn=" + servers.Config.Postgres.DSN, // The process's clock is not before the test's, whose hour has just begun.
		"--clock.offset=" + (time.Until(servers.Clock.Now()).Round(time.Second) + time.Second).String()}
	if out := mustRun(t, args...); !strings.Contains(out, " are in ") || !strings.Contains(out, "without data.dir") {
		t.Errorf("move prints %s", out)
	}
	again := harness.Outcome{}
	again.Stdout, again.Stderr, again.Status = testenv.Run(t, args...)
	again.Fails(t, 1, "was moved to database ")
	s := newServerOf(t, servers, withoutJobs, settings)
	after := s.ask(before)
	if len(before) < 1000 {
		t.Errorf("only %d calls", len(before))
	}
	differ := 0
	for name, want := range before {
		if got := after[name]; got != want {
			if differ++; differ <= 5 {
				t.Errorf("%s:\n%s\nafter the move:\n%s", name, want, got)
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d of %d answers differ", differ, len(before))
	}
	// A day that was archived and got another score is archived again.
	s.archiveDue()
	if got := string(s.as(movedUser(20), "GET", "/v1/boards/steps/me?date=2026-11-20", nil).body); !strings.Contains(got, `"global_rank":1,`) {
		t.Errorf("a late score is %s", got)
	}
	// The row id of somebody who was erased is not given again.
	s.want(s.service("PUT", "/v1/users/new", `{"nickname":"New"}`), http.StatusOK, nil)
	if row := harness.Rows(t, servers.Gorm, []models.UserID{"new"})[0]; row <= movedUsers {
		t.Errorf("a new user has row id %d", row)
	}
	if _, err := os.Stat(filepath.Join(dir, "moved")); err != nil {
		t.Error(err)
	}
}

// What can't be moved, or not there, is refused, and stays as it is.
func TestRefusedMoves(t *testing.T) {
	t.Parallel()
	servers := harness.RealWithSecret(t)
	dir := filepath.Join(t.TempDir(), "data")
	move := func(dir string, more ...string) harness.Outcome {
		return onFolder(t, dir, append([]string{
			"move", "--redis.addrs=" + servers.Config.Redis.Addrs[0], "--redis.key_prefix=" + servers.Config.Redis.KeyPrefix,
			"--postgres.dsn=" + servers.Config.Postgres.DSN,
		}, more...)...)
	}
	move(dir).Fails(t, 1, "no such file or directory")
	move(t.TempDir()).Fails(t, 1, "has no data")
	move(dir, "--postgres.dsn=").Fails(t, 1, "postgres.dsn: must be set")
	mustRun(t, "import", "friends", file(t, "1 2\n"), "--data="+dir)
	p := testenv.ServeFolder(t, dir)
	move(dir).Fails(t, 1, "in use by another process")
	p.Stop()
	for _, prefix := range []string{servers.Config.Redis.KeyPrefix, servers.Config.Redis.KeyPrefix + "[1]?:"} {
		key := prefix + "other"
		if err := servers.Redis.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		move(dir, "--redis.key_prefix="+prefix).Fails(t, 1, "redis has data already, such as key "+key)
		if err := servers.Redis.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(statement string) {
		t.Helper()
		if err := servers.Gorm.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	exec("INSERT INTO users (external_id, created_at) VALUES ('7', now())")
	move(dir).Fails(t, 1, "postgres has data already, in table users")
	exec("DELETE FROM users")
	exec("INSERT INTO folder_moves VALUES ('another', 'begun', now())")
	move(dir).Fails(t, 1, "another data folder")
	exec("DELETE FROM folder_moves")
	if got := files(t, dir); got != "lock secret stepboard.db" {
		t.Errorf("the folder has %s", got)
	}
	if out := move(dir).Succeeds(t); !strings.Contains(out, "boards: [{name: steps, time_zone: "+testenv.Morning+", global: service}]\n") {
		t.Errorf("move prints %s", out)
	}
	onFolder(t, dir, "serve", "--http.addr=127.0.0.1:0").Fails(t, 1, "was moved to database ")
}
