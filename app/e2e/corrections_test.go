package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// correction is a correction as the API shows it.
type correction struct {
	ID         *string
	Board      string
	Date       *string
	FirstDate  *string `json:"first_date"`
	UserID     string  `json:"user_id"`
	Kind       string
	Score      *int
	Before     *int
	Reason     string
	Message    string
	Actor      string
	State      string
	LiftedBy   *string `json:"lifted_by"`
	LiftReason *string `json:"lift_reason"`
}

const correctionsPath = "/v1/admin/corrections"

// correct makes a correction, whose body is JSON.
func (s *server) correct(body string, args ...any) (c correction) {
	s.t.Helper()
	s.read(s.admin("POST", correctionsPath, fmt.Sprintf(body, args...)), http.StatusCreated, &c)
	return c
}

func (s *server) lift(c correction) (lifted correction) {
	s.t.Helper()
	s.read(s.admin("POST", correctionsPath+"/"+*c.ID+"/lift", `{"reason":"a marathon"}`), http.StatusOK, &lifted)
	return lifted
}

// ranked returns the users and scores of a ranking of user 1, such as "2:500 1:300".
func (s *server) ranked(path string) string {
	s.t.Helper()
	return s.rankedTo("1", path)
}

// rankedTo is ranked for another user than 1.
func (s *server) rankedTo(user models.UserID, path string) string {
	s.t.Helper()
	var r struct {
		Entries []struct {
			UserID string `json:"user_id"`
			Score  int
		}
	}
	s.read(s.as(user, "GET", path, nil), http.StatusOK, &r)
	var list []string
	for _, e := range r.Entries {
		list = append(list, fmt.Sprintf("%s:%d", e.UserID, e.Score))
	}
	return strings.Join(list, " ")
}

// standing returns score, global rank, friends' rank and correction of `me` on board steps.
func (s *server) standing(user models.UserID, query string) string {
	s.t.Helper()
	return s.standingOn("steps", user, query)
}

// standingOn is standing on any board.
func (s *server) standingOn(board string, user models.UserID, query string) string {
	s.t.Helper()
	var me struct {
		Score       *int
		GlobalRank  *int `json:"global_rank"`
		FriendsRank *int `json:"friends_rank"`
		Correction  *string
	}
	s.read(s.as(user, "GET", "/v1/boards/"+board+"/me"+query, nil), http.StatusOK, &me)
	text := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	kind := "-"
	if me.Correction != nil {
		kind = *me.Correction
	}
	return strings.Join([]string{text(me.Score), text(me.GlobalRank), text(me.FriendsRank), kind}, " ")
}

// read expects a status and decodes those fields of the answer that the value has.
func (s *server) read(a answer, status int, into any) {
	s.t.Helper()
	if err := json.Unmarshal(s.succeeds(a, status).body, into); err != nil {
		s.t.Fatal(err)
	}
}

// check compares what a call shows.
func (s *server) check(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A corrected score is shown in every list, also after the user has reported more and
// after the day has moved to the archive. Lifting gives back what was reported.
func TestCorrections(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	s.uploadDay(harness.NoonDay, map[models.UserID]int{"1": 3000, "2": 98_800, "3": 5000})
	const friends, top = "/v1/boards/steps/friends?date=2026-11-20", "/v1/boards/steps/top?date=2026-11-20"
	set := s.correct(`{"board":"steps","date":"2026-11-20","user_id":"2","kind":"set","score":4000,"reason":"shaken"}`)
	if *set.Before != 98_800 || *set.Score != 4000 || set.State != "applied" || set.Actor != "1" || set.UserID != "2" || *set.Date != "2026-11-20" {
		t.Errorf("made %+v", set)
	}
	out := s.correct(`{"board":"steps","user_id":"3","kind":"exclude","reason":"a bicycle"}`)
	if out.Date != nil || *out.FirstDate != "2026-11-20" {
		t.Errorf("made %+v", out)
	}
	checkAll := func(when string) {
		t.Helper()
		s.check(when+": friends", s.ranked(friends), "2:4000 1:3000")
		s.check(when+": top", s.ranked(top), "2:4000 1:3000")
		s.check(when+": me", s.standing("2", "?date=2026-11-20"), "4000 1 1 set")
		s.check(when+": me, excluded", s.standing("3", "?date=2026-11-20"), "- - - excluded")
		s.check(when+": me, another", s.standing("1", "?date=2026-11-20"), "3000 2 2 -")
		s.check(when+": history", s.days("2"), "2026-11-20:4000")
		s.check(when+": history of somebody excluded", s.days("3"), "")
	}
	checkAll("at once")
	var accepted struct{ Accepted []struct{ Score int } }
	s.read(s.as("2", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":99000}`), http.StatusOK, &accepted)
	if accepted.Accepted[0].Score != 99_000 {
		t.Errorf("the phone was answered %+v", accepted)
	}
	s.want(s.service("POST", "/v1/boards/steps/scores/batch",
		`{"scores":[{"user_id":"3","date":"2026-11-20","score":7000}]}`), http.StatusOK, nil)
	checkAll("after reports")
	env.Clock.Advance(6 * 24 * time.Hour)
	s.archiveDue()
	checkAll("archived")
	if lifted := s.lift(set); lifted.State != "pending" || *lifted.LiftedBy != "1" || *lifted.LiftReason != "a marathon" {
		t.Errorf("lifted %+v", lifted)
	}
	s.lift(out)
	s.archiveDue()
	s.check("lifted: friends", s.ranked(friends), "2:99000 3:7000 1:3000")
	s.check("lifted: top", s.ranked(top), "2:99000 3:7000 1:3000")
	s.check("lifted: me", s.standing("3", "?date=2026-11-20"), "7000 2 1 -")
	s.check("lifted: history", s.days("2"), "2026-11-20:99000")
}

// days returns a user's days, such as "2026-11-20:4000".
func (s *server) days(user models.UserID) string {
	s.t.Helper()
	var h struct {
		Entries []struct {
			Date  string
			Score int
		}
	}
	s.read(s.as(user, "GET", "/v1/boards/steps/history", nil), http.StatusOK, &h)
	var list []string
	for _, d := range h.Entries {
		list = append(list, fmt.Sprintf("%s:%d", d.Date, d.Score))
	}
	return strings.Join(list, " ")
}

// The commands make the same corrections without a running service.
func TestCorrectCommand(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	now := time.Now()
	env.Clock.Set(now)
	s := newServer(t, env)
	s.waitForStartJobs()
	day := models.DateOf(now.In(testenv.Must(time.LoadLocation("Asia/Shanghai"))))
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":3000}`, day)), http.StatusOK, nil)
	run := func(args ...string) string {
		t.Helper()
		return mustRun(t, append(append([]string{"correct", args[0]}, testenv.Flags(env.Config)...), args[1:]...)...)
	}
	made := run("set", "--board=steps", "--date="+day.String(), "--user=1", "--score=1000", "--reason=shaken", "--actor=ann")
	if !strings.Contains(made, "set 1000\tbefore=3000\tapplied\t") || !strings.Contains(made, "by ann: shaken") {
		t.Errorf("printed %q", made)
	}
	if err := s.app.Corrections.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.check("after the command", s.standing("1", ""), "1000 1 1 set")
	id, _, _ := strings.Cut(made, "\t")
	if lifted := run("lift", id, "--reason=no", "--actor=bob"); !strings.Contains(lifted, "by bob: no") {
		t.Errorf("printed %q", lifted)
	}
	out := run("exclude", "--board=steps", "--user=1", "--reason=again", "--actor=ann")
	if list := run("list", "--active"); list != out {
		t.Errorf("listed %q, made %q", list, out)
	}
	_, stderr, status := testenv.Run(t, append([]string{"correct", "lift", "99", "--reason=x", "--actor=y"}, testenv.Flags(env.Config)...)...)
	if status != 1 || !strings.Contains(stderr, "there is no correction of this id") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
