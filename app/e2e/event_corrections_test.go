package e2e_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// giftsCorrected counts gifts of users 1 to 3, who are friends of 1, and corrects the second
// and the third. It returns both corrections.
func (s *server) giftsCorrected() (set, out correction) {
	s.t.Helper()
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	for user, delta := range map[int]int{1: 300, 2: 900, 3: 500} {
		s.give(user, delta, "first")
	}
	set = s.correct(`{"board":"gifts","user_id":"2","kind":"set","score":400,"reason":"shaken"}`)
	out = s.correct(`{"board":"gifts","user_id":"3","kind":"exclude","reason":"a bicycle"}`)
	return set, out
}

// give counts an increment on board gifts.
func (s *server) give(user, delta int, id string) {
	s.t.Helper()
	body := harness.IncrementJSON(user, delta, string(testenv.ID(user))+id)
	s.want(s.service("POST", "/v1/boards/gifts/increments", body), http.StatusOK, nil)
}

// A corrected event is shown so in every list, whatever is counted meanwhile, and so is its
// archive. Lifting gives back what was counted.
func TestCorrectionsOfAnEvent(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Clock.Set(giftsStart)
	s := newServer(t, env, withEvents, func(c *config.Config) { c.Boards[2].ReviewAbove = 250 })
	s.waitForStartJobs()
	set, out := s.giftsCorrected()
	if set.Date != nil || set.FirstDate != nil || *set.Before != 900 || set.State != "applied" || out.Date != nil {
		t.Errorf("made %+v and %+v", set, out)
	}
	checkAll := func(when string) {
		t.Helper()
		s.check(when+": friends", s.ranked("/v1/boards/gifts/friends"), "2:400 1:300")
		s.check(when+": top", s.ranked("/v1/boards/gifts/top"), "2:400 1:300")
		s.check(when+": me", s.standingOn("gifts", "2", ""), "400 1 1 set")
		s.check(when+": me, excluded", s.standingOn("gifts", "3", ""), "- - - excluded")
		s.check(when+": me, another", s.standingOn("gifts", "1", ""), "300 2 2 -")
	}
	checkAll("at once")
	s.give(2, 100, "second")
	s.give(3, 200, "second")
	checkAll("after increments")
	if _, err := s.app.Reviews.Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The others are corrected already.
	if list, _ := s.reviewed(""); !slices.Equal(list, []string{"gifts none 1 300"}) {
		t.Errorf("to be reviewed are %v", list)
	}
	env.Clock.Set(giftsStart.AddDate(0, 0, 97))
	s.archiveDue()
	checkAll("archived")
	s.lift(set)
	s.lift(out)
	s.archiveDue()
	s.check("lifted: friends", s.ranked("/v1/boards/gifts/friends"), "2:1000 3:700 1:300")
	s.check("lifted: me", s.standingOn("gifts", "3", ""), "700 2 1 -")
}

// A user who is excluded from a rolling board is in none of its lists until that is lifted,
// and not on the list of scores to look at either.
func TestExclusionFromARollingBoard(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Clock.Set(giftsStart)
	s := newServer(t, env, withEvents, func(c *config.Config) { c.Boards[4].ReviewAbove = 20 })
	s.waitForStartJobs()
	toReview := func(when string, want ...string) {
		t.Helper()
		testenv.Must(s.app.Reviews.Find(t.Context()))
		if list, _ := s.reviewed("?board=active"); !slices.Equal(list, want) {
			t.Errorf("%s: to be reviewed are %v, want %v", when, list, want)
		}
	}
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2"]}`), http.StatusOK, nil)
	const increments = "/v1/boards/active/increments"
	s.want(s.service("POST", increments, harness.IncrementsJSON(
		harness.IncrementJSON(1, 10, "a"), harness.IncrementJSON(2, 50, "b"))), http.StatusOK, nil)
	toReview("counted", "active none 2 50")
	const refused = `{"board":"active","user_id":"2","kind":"set","score":10,"reason":"r"}`
	s.refuse(s.admin("POST", correctionsPath, refused), http.StatusConflict, models.CodeBoardKind)
	c := s.correct(`{"board":"active","user_id":"2","kind":"exclude","reason":"shaken"}`)
	env.Clock.Advance(time.Hour)
	s.want(s.service("POST", increments, harness.IncrementJSON(2, 5, "c")), http.StatusOK, nil)
	s.check("friends", s.ranked("/v1/boards/active/friends"), "1:10")
	s.check("top", s.ranked("/v1/boards/active/top"), "1:10")
	s.check("me", s.standingOn("active", "2", ""), "- - - excluded")
	toReview("excluded")
	s.lift(c)
	toReview("lifted", "active none 2 55")
	s.check("lifted: friends", s.ranked("/v1/boards/active/friends"), "2:55 1:10")
	s.check("lifted: top", s.ranked("/v1/boards/active/top"), "2:55 1:10")
	s.check("lifted: me", s.standingOn("active", "2", ""), "55 1 1 -")
}

// Friend rankings of an event from memory are corrected as those from Redis are.
func TestCorrectionsOfAnEventFromMemory(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Clock.Set(giftsStart)
	memory := func(c *config.Config) {
		c.Boards[2].ChangeStream, c.Rankings.MaxStaleness = true, time.Second
	}
	s := newServer(t, env, withEvents, memory)
	other := newServer(t, env, withEvents, memory)
	shows := func(what string, s *server, want string) {
		t.Helper()
		testenv.Eventually(t, what, func() bool {
			before := s.fromMemory()
			return s.ranked("/v1/boards/gifts/friends") == want && s.fromMemory() != before
		})
	}
	set, _ := s.giftsCorrected()
	s.check("at once", s.ranked("/v1/boards/gifts/friends"), "2:400 1:300")
	shows("the corrected score is in memory", s, "2:400 1:300")
	shows("the corrected score is in the other's memory", other, "2:400 1:300")
	testenv.Eventually(t, "the other process knows of the corrections", func() bool { return other.app.Corrections.Held() == 2 })
	other.give(2, 100, "second")
	shows("the score is the same in the other's memory", other, "2:400 1:300")
	s.lift(set)
	shows("the score is back", s, "2:1000 1:300")
	shows("the score is back in the other", other, "2:1000 1:300")
}
