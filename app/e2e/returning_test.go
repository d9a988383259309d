package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// eraseSelf erases a user at the user's own request.
func (s *server) eraseSelf(user models.UserID) {
	s.t.Helper()
	s.want(s.as(user, "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
}

// uploadToday uploads a score of the current day.
func (s *server) uploadToday(board string, user models.UserID, score int) {
	s.t.Helper()
	today := models.DateOf(s.env.Clock.Now().UTC().Add(8 * time.Hour)) // in Shanghai
	body := fmt.Sprintf(`{"date":%q,"score":%d}`, today, score)
	s.want(s.as(user, "POST", "/v1/boards/"+board+"/scores", body), http.StatusOK, nil)
}

// lists returns the user ids of a list of a user's choices, or of those who have asked the user.
func (s *server) lists(user models.UserID, path string) string {
	s.t.Helper()
	type listed struct {
		UserID    string `json:"user_id"`
		Direction string
	}
	var page struct{ Users, Requests []listed }
	s.read(s.as(user, "GET", path, nil), http.StatusOK, &page)
	var ids []string
	for _, one := range append(page.Users, page.Requests...) {
		if one.Direction != "outgoing" {
			ids = append(ids, one.UserID)
		}
	}
	return strings.Join(ids, " ")
}

// nameAll gives users a profile.
func (s *server) nameAll(users ...models.UserID) {
	s.t.Helper()
	for _, user := range users {
		s.want(s.as(user, "PUT", "/v1/me", `{"nickname":"N"}`), http.StatusOK, nil)
	}
}

// returns calls test as eitherWay does. finish finishes the erasure if it is to be finished.
func returns(t *testing.T, test func(s *server, finish func()), change ...func(*config.Config)) {
	t.Helper()
	eitherWay(t, func(t *testing.T, env *testenv.Env, finished bool) {
		s := newServer(t, env, change...)
		finish := func() {}
		if finished {
			finish = s.finishErasures
		}
		test(s, finish)
	})
}

// eitherWay calls test with an erasure that is finished when the user returns, and with one that is under way: each on one
// kind of stores, and on the other one in turn.
func eitherWay(t *testing.T, test func(t *testing.T, env *testenv.Env, finished bool)) {
	t.Helper()
	for _, form := range testenv.Forms(t, 2, []struct {
		name     string
		open     func(testing.TB) *testenv.Env
		finished bool
	}{
		{"under way, on servers", testenv.Real, false}, {"finished, on servers", testenv.Real, true},
		{"finished, on a folder", testenv.Local, true}, {"under way, on a folder", testenv.Local, false},
	}) {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			test(t, form.open(t), form.finished)
		})
	}
}

// An excluded user who erases oneself and uploads again is not shown, in any process, before an
// operator lifts the exclusion. It may be lifted while the user is away, too.
func TestExclusionsOutliveErasures(t *testing.T) {
	t.Parallel()
	returns(t, func(s *server, finish func()) {
		s.nameAll("1", "cheat")
		const today, friends, top = "2026-11-20", "/v1/boards/steps/friends", "/v1/boards/steps/top"
		open := s.correct(`{"board":"steps","date":null,"user_id":"cheat","kind":"exclude","reason":"a machine"}`)
		s.uploadToday("private", "cheat", 1)
		s.correct(`{"board":"private","date":%q,"user_id":"cheat","kind":"exclude","reason":"a machine"}`, today)
		for range 3 {
			s.eraseSelf("cheat")
			finish()
			s.uploadToday("steps", "cheat", 90_000)
			s.uploadToday("private", "cheat", 90_000)
			s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["cheat"]}`), http.StatusOK, nil)
			s.check("me", s.standing("cheat", ""), "- - - excluded")
			s.check("me on the other board", s.standingOn("private", "cheat", ""), "- - - excluded")
			s.check("friends", s.ranked(friends), "")
			s.check("top", s.ranked(top), "")
		}
		other := newServer(s.t, s.env)
		other.uploadToday("steps", "cheat", 90_001)
		s.check("top of another process", other.ranked(top), "")
		if got := s.lift(open); got.UserID != "cheat" || got.Reason != "a machine" {
			s.t.Errorf("lifted: %+v", got)
		}
		// The other process may still correct the board by what it knew before.
		testenv.Eventually(s.t, "the user is on top again", func() bool { return s.ranked(top) == "cheat:90001" })

		again := s.correct(`{"board":"steps","date":null,"user_id":"cheat","kind":"exclude","reason":"again"}`)
		s.env.Clock.Advance(24 * time.Hour)
		s.eraseSelf("cheat")
		finish()
		if got := s.lift(again); got.UserID != "" {
			s.t.Errorf("lifted while the user is away: %+v", got)
		}
		s.uploadToday("steps", "cheat", 70_000)
		s.check("top", s.ranked(top), "cheat:70000")
	})
}

// Somebody who was blocked, and from whom others hide, is blocked after an erasure, too.
func TestBlocksOutliveErasures(t *testing.T) {
	t.Parallel()
	returns(t, func(s *server, finish func()) {
		s.nameAll("ann", "ben", "pest")
		s.uploadToday("steps", "ben", 5000)
		s.want(s.as("ann", "PUT", "/v1/blocked/pest", nil), http.StatusNoContent, nil)
		s.want(s.as("ben", "PUT", "/v1/hidden-from/pest", nil), http.StatusNoContent, nil)
		for range 2 {
			s.eraseSelf("pest")
			finish()
			if lists := s.lists("ann", "/v1/blocked"); lists != "" {
				s.t.Errorf("ann has blocked %s, who is erased", lists)
			}
			s.want(s.as("pest", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), http.StatusCreated, nil)
			s.check("requests", s.lists("ann", "/v1/friends/requests"), "")
			s.check("blocked", s.lists("ann", "/v1/blocked"), "pest")
			s.check("hidden from", s.lists("ben", "/v1/hidden-from"), "pest")
			if top := s.as("pest", "GET", "/v1/boards/steps/top", nil); strings.Contains(string(top.body), "ben") {
				s.t.Errorf("who hides from the user is shown: %s", top.body)
			}
			s.env.Clock.Advance(time.Hour)
		}
		s.want(s.as("ann", "DELETE", "/v1/blocked/pest", nil), http.StatusNoContent, nil)
		s.eraseSelf("pest")
		finish()
		s.want(s.as("pest", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), http.StatusCreated, nil)
		s.check("requests", s.lists("ann", "/v1/friends/requests"), "pest")
	})
}

// The cooldown after a decline and the limits of requests and of hiding hold after an erasure, and
// end when they would have ended.
func TestLimitsOutliveErasures(t *testing.T) {
	t.Parallel()
	limits := func(c *config.Config) { c.Friends.RequestsPerDay, c.Limits.HidingsPerHour = 2, 1 }
	returns(t, func(s *server, finish func()) {
		s.nameAll("ann", "ben", "cho", "pest")
		ask := func(other string) answer {
			return s.as("pest", "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, other))
		}
		s.want(ask("ann"), http.StatusCreated, nil)
		s.want(ask("ben"), http.StatusCreated, nil)
		s.want(s.as("ann", "DELETE", "/v1/friends/requests/pest", nil), http.StatusNoContent, nil)
		s.want(s.as("pest", "PUT", "/v1/me/privacy", `{"hidden":true}`), http.StatusOK, nil)
		s.eraseSelf("pest")
		finish()
		s.refuse(ask("cho"), http.StatusTooManyRequests, models.CodeRequestLimit)
		s.refuse(s.as("pest", "PUT", "/v1/me/privacy", `{"hidden":true}`), http.StatusTooManyRequests, models.CodeRateLimited)
		s.env.Clock.Advance(24 * time.Hour)
		s.want(ask("ann"), http.StatusCreated, nil)
		s.check("requests", s.lists("ann", "/v1/friends/requests"), "")
		s.env.Clock.Advance(6 * 24 * time.Hour)
		s.want(ask("ann"), http.StatusOK, nil)
		s.check("requests", s.lists("ann", "/v1/friends/requests"), "pest")
	}, limits)
}

// An import creates users again, too.
func TestImportedUsersReturn(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		s.eraseBlocked()
		s.finishErasures()
		rows := testenv.Must(s.app.Directory.EnsureMany(t.Context(), []models.UserID{"new", "pest", "ann"}))
		s.check("blocked", s.lists("ann", "/v1/blocked"), "pest")
		if again := testenv.Must(s.app.Directory.Find(t.Context(), "new", "pest", "ann")); !cmp.Equal(rows, again) {
			t.Errorf("the rows are %v, and then %v", rows, again)
		}
	})
}

// An id that was erased returns to a user who is renamed to it.
func TestRenamedToAnErasedID(t *testing.T) {
	t.Parallel()
	returns(t, func(s *server, finish func()) {
		s.nameAll("ann", "new", "pest")
		s.want(s.as("ann", "PUT", "/v1/blocked/pest", nil), http.StatusNoContent, nil)
		s.correct(`{"board":"steps","date":null,"user_id":"pest","kind":"exclude","reason":"a machine"}`)
		s.uploadToday("steps", "new", 100)
		s.want(s.as("new", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), http.StatusCreated, nil)
		s.want(s.as("ann", "POST", "/v1/friends/requests/new/accept", nil), http.StatusOK, nil)
		s.eraseSelf("pest")
		finish()
		s.want(s.service("POST", "/v1/users/new/rename", `{"to":"pest"}`), http.StatusNoContent, nil)
		s.check("blocked", s.lists("ann", "/v1/blocked"), "pest")
		s.check("me", s.standing("pest", ""), "- - - excluded")
		if friends := s.as("ann", "GET", "/v1/friends", nil); strings.Contains(string(friends.body), "pest") {
			s.t.Errorf("a blocked user is a friend: %s", friends.body)
		}
	})
}

// A user id is erased three times a day at most. A call that is repeated while an erasure is
// under way returns that one.
func TestErasuresOfADay(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		erase := func() answer { return s.as("pest", "DELETE", "/v1/me", `{"confirm":"erase"}`) }
		for n := range 3 {
			s.nameAll("pest")
			s.want(erase(), http.StatusAccepted, nil)
			s.check("the erasure under way", string(erase().body), fmt.Sprintf(`{"erasure_id":"%d"}`, n+1))
			s.env.Clock.Advance(time.Hour)
		}
		s.nameAll("pest")
		for _, a := range []answer{
			erase(), s.service("DELETE", "/v1/users/pest", nil), s.admin("DELETE", "/v1/admin/users/pest", `{"reason":"a test"}`),
			s.admin("DELETE", "/v1/admin/users/pest?dry_run=true", `{"reason":"a test"}`),
		} {
			s.refuse(a, http.StatusTooManyRequests, models.CodeRateLimited)
			if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait != 21*60*60 {
				t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
			}
		}
		s.env.Clock.Advance(21 * time.Hour)
		s.want(erase(), http.StatusAccepted, nil)
	})
}

// What is kept is forgotten after 365 days, and the hash of the user id a day after the erasure if
// nothing is kept any more.
func TestWhatIsKeptIsForgotten(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		forget := func(want ...bool) {
			t.Helper()
			testenv.Must(s.app.Erasure.Forget(t.Context()))
			var kept []bool
			if err := env.Gorm.Raw(`SELECT id_hash IS NOT NULL FROM erasures ORDER BY id`).Scan(&kept).Error; err != nil || !cmp.Equal(kept, want) {
				t.Errorf("hashes are kept: %v, want %v; %v", kept, want, err)
			}
		}
		s.nameAll("ann", "ben", "pest", "cheat", "dull", "gone")
		s.want(s.as("ann", "PUT", "/v1/blocked/pest", nil), http.StatusNoContent, nil)
		s.want(s.as("ben", "PUT", "/v1/blocked/gone", nil), http.StatusNoContent, nil)
		s.correct(`{"board":"steps","date":null,"user_id":"pest","kind":"exclude","reason":"a machine"}`)
		c := s.correct(`{"board":"steps","date":null,"user_id":"cheat","kind":"exclude","reason":"a machine"}`)
		for _, user := range []models.UserID{"pest", "cheat", "dull", "gone"} {
			s.eraseSelf(user)
		}
		s.finishErasures()
		s.finishErasures()
		forget(true, true, true, true)
		s.env.Clock.Advance(24 * time.Hour)
		forget(true, true, false, true)
		s.lift(c)
		s.want(s.service("DELETE", "/v1/users/ben", nil), http.StatusAccepted, nil)
		s.finishErasures()
		forget(true, false, false, false, true)
		s.env.Clock.Advance(363 * 24 * time.Hour)
		forget(true, false, false, false, false)
		s.env.Clock.Advance(24 * time.Hour)
		forget(false, false, false, false, false)
		for _, where := range []string{"kept_choices WHERE row_id < ?", "corrections WHERE user_id < ?"} {
			var left int64
			if err := env.Gorm.Raw("SELECT count(*) FROM "+where, models.FirstNobody).Scan(&left).Error; err != nil || left != 0 {
				t.Errorf("%d are kept in %s, %v", left, where, err)
			}
		}
		s.nameAll("pest")
		s.check("blocked", s.lists("ann", "/v1/blocked"), "")
	})
}

// eraseBlocked makes ann block pest, who erases themselves.
func (s *server) eraseBlocked() {
	s.t.Helper()
	s.nameAll("ann", "pest")
	s.want(s.as("ann", "PUT", "/v1/blocked/pest", nil), http.StatusNoContent, nil)
	s.eraseSelf("pest")
}

// A process dies after it has created a user again, and the user is erased once more before a job
// has moved what is kept. It holds for the user who returns after that.
func TestErasedAgainBeforeAnythingIsMoved(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		s.eraseBlocked()
		s.finishErasures()
		err := env.Gorm.Transaction(func(tx *gorm.DB) error {
			if err := tx.Exec(`INSERT INTO users (external_id, created_at) VALUES ('pest', ?)`, env.Clock.Now()).Error; err != nil {
				return err
			}
			return tx.Exec(`UPDATE erasures SET returned_row = (SELECT user_id FROM users WHERE external_id = 'pest')`).Error
		})
		if err != nil {
			t.Fatal(err)
		}
		s.eraseSelf("pest")
		s.finishErasures()
		s.env.Clock.Advance(24 * time.Hour)
		testenv.Must(s.app.Erasure.Forget(t.Context()))
		s.nameAll("pest")
		s.check("blocked", s.lists("ann", "/v1/blocked"), "pest")
	})
}

// The statement that creates a user again may not see an erasure that has committed after it began.
// A job makes up for that while the erasure is under way.
func TestReturnThatHasMissedTheErasure(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		s.eraseBlocked()
		if err := env.Gorm.Exec(`INSERT INTO users (external_id, created_at) VALUES ('pest', ?)`, env.Clock.Now()).Error; err != nil {
			t.Fatal(err)
		}
		s.sweep()
		s.check("blocked", s.lists("ann", "/v1/blocked"), "pest")
	})
}
