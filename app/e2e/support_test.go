package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// giftsDefinition defines an event.
const giftsDefinition = `{"name":"gifts","kind":"event","max_score":100,"start":"2026-11-01T00:00:00Z","end":"2026-12-01T00:00:00Z"}`

// supportedUser is a user as operators see them.
type supportedUser struct {
	UserID   models.UserID `json:"user_id"`
	Exists   bool
	Nickname string
	Friends  int
	Requests struct{ Received, Sent int }
	Privacy  struct {
		Hidden     bool
		HiddenFrom int `json:"hidden_from"`
		Muted      int
		Blocked    int
	}
	Groups []struct {
		Name  string
		Owner bool
	}
	Days []struct {
		Date  string
		Score int
	}
	Corrections []correction
	Reviews     []shownReview
	Erasure     *struct{ ID string }
}

func (s *server) support(user, query string) (u supportedUser) {
	s.t.Helper()
	s.read(s.admin("GET", "/v1/admin/users/"+user+query, nil), http.StatusOK, &u)
	return u
}

// Operators see what they need to know about a user, until the user's erasure has ended.
func TestSupport(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, func(c *config.Config) { c.Boards[0].ReviewAbove = 60_000 })
	s.waitForStartJobs()
	s.refuse(s.admin("GET", "/v1/admin/users/a%7Cb", nil), http.StatusNotFound, models.CodeUserNotFound)
	s.want(s.service("PUT", "/v1/users/a%7Cb", `{"nickname":"Ann"}`), http.StatusOK, nil)
	s.want(s.service("PUT", "/v1/users/a%7Cb/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	s.uploadDay(harness.NoonDay, map[models.UserID]int{"a|b": 3000, "4": 1, "5": 1})
	s.uploadDay(harness.NoonDay+1, map[models.UserID]int{"a|b": 98_800})
	s.want(s.as("4", "POST", "/v1/friends/requests", `{"user_id":"a|b"}`), http.StatusCreated, nil)
	s.want(s.as("a|b", "POST", "/v1/friends/requests", `{"user_id":"5"}`), http.StatusCreated, nil)
	s.want(s.as("a|b", "PUT", "/v1/muted/2", nil), http.StatusNoContent, nil)
	s.want(s.as("a|b", "PUT", "/v1/me/privacy", `{"hidden":true}`), http.StatusOK, nil)
	s.want(s.as("a|b", "POST", "/v1/groups", `{"name":"Family"}`), http.StatusCreated, nil)
	if _, err := s.app.Reviews.Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.correct(`{"board":"steps","date":"2026-11-20","user_id":"a|b","kind":"set","score":1000,"reason":"shaken"}`)

	u := s.support("a%7Cb", "?board=steps")
	got := fmt.Sprintf("%s %v %s %d %+v %+v %+v %+v", u.UserID, u.Exists, u.Nickname, u.Friends, u.Requests, u.Privacy, u.Groups, u.Days)
	s.check("a user", got, "a|b true Ann 2 {Received:1 Sent:1} {Hidden:true HiddenFrom:0 Muted:1 Blocked:0} "+
		"[{Name:Family Owner:true}] [{Date:2026-11-21 Score:98800} {Date:2026-11-20 Score:1000}]")
	if len(u.Corrections) != 1 || u.Corrections[0].Reason != "shaken" || len(u.Reviews) != 1 || u.Reviews[0].Score != 98_800 || u.Erasure != nil {
		t.Errorf("a user has %+v", u)
	}
	if other := s.support("4", ""); other.Requests.Sent != 1 || len(other.Days)+len(other.Corrections)+len(other.Reviews)+len(other.Groups) != 0 {
		t.Errorf("another user has %+v", other)
	}
	s.refuse(s.admin("GET", "/v1/admin/users/4?board=nix", nil), http.StatusNotFound, models.CodeBoardNotFound)
	s.want(s.admin("POST", "/v1/admin/boards", giftsDefinition), http.StatusCreated, nil)
	s.refuse(s.admin("GET", "/v1/admin/users/4?board=gifts", nil), http.StatusConflict, models.CodeBoardKind)
	list := s.reviewed("?user_id=a%7Cb")
	s.check("the user's reviews", fmt.Sprint(list), "[steps 2026-11-21 a|b 98800 Ann]")
	list = s.reviewed("?user_id=4")
	s.check("another user's reviews", fmt.Sprint(list), "[]")

	s.want(s.as("a|b", "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
	if u = s.support("a%7Cb", "?board=steps"); u.Exists || u.Erasure == nil || u.Nickname != "" || len(u.Days) != 0 {
		t.Errorf("a user who is being erased is %+v", u)
	}
	env.Clock.Advance(2 * time.Minute)
	s.uploadDay(harness.NoonDay+1, map[models.UserID]int{"a|b": 5})
	if u = s.support("a%7Cb", "?board=steps"); !u.Exists || u.Erasure == nil || u.Friends != 0 || len(u.Days) != 1 || u.Days[0].Score != 5 {
		t.Errorf("somebody new under the id is %+v", u)
	}
	s.finishErasures()
	if u = s.support("a%7Cb", ""); !u.Exists || u.Erasure != nil {
		t.Errorf("after the erasure: %+v", u)
	}
}

// On a board of local days a user's days end with the latest date that it is anywhere.
func TestSupportOnLocalDays(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env, func(c *config.Config) { c.Boards[0].TimeZone = models.LocalZone })
	env.Clock.Set(harness.NoonDay.UTC().Add(11 * time.Hour)) // it is the 21st at UTC+14
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-21","score":7}`), http.StatusOK, nil)
	if u := s.support("1", "?board=steps"); len(u.Days) != 1 || u.Days[0].Date != "2026-11-21" {
		t.Errorf("the user has %+v", u.Days)
	}
}
