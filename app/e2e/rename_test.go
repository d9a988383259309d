package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A renamed user keeps everything, in each process, and webhooks name the new id from then on.
// The former id is nobody's, until somebody new writes under it.
func TestRename(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testRename)
}

func testRename(t *testing.T, env *testenv.Env) {
	t.Helper()
	backend := newBackend(t)
	s := newServer(t, env, withEvents, backend.use)
	s.waitForStartJobs()
	s.want(s.service("PUT", "/v1/users/ann", `{"nickname":"Ann"}`), 200, nil)
	s.want(s.service("PUT", "/v1/users/ann/friends", `{"friend_ids":["ben"]}`), 200, nil)
	var group struct {
		ID string `json:"group_id"`
	}
	s.read(s.as("ann", "POST", "/v1/groups", `{"name":"walkers"}`), 201, &group)
	day := models.DateOf(testenv.Noon)
	s.uploadDay(day, map[models.UserID]int{"ann": 4000, "ben": 3000})
	env.Clock.Advance(10 * 24 * time.Hour)
	s.archiveDue()
	today := models.DateOf(env.Clock.Now())
	s.uploadDay(today, map[models.UserID]int{"ann": 500, "ben": 600})
	s.want(s.service("POST", "/v1/boards/gifts/increments", `{"user_id":"ann","delta":7,"event_id":"a"}`), 200, nil)
	s.want(s.as("cho", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), 201, nil)
	_ = backend.received(t, models.OutcomeFriendRequested, 1)

	other := newServer(t, env, withEvents, backend.use)
	for _, s := range []*server{s, other} { // both have copies
		if got := s.rankedTo("ben", "/v1/boards/steps/friends"); got != "ben:600 ann:500" {
			t.Errorf("before: %s", got)
		}
	}
	s.want(s.service("POST", "/v1/users/ann/rename", `{"to":"auth0|ann"}`), http.StatusNoContent, nil)
	for name, s := range map[string]*server{"the process": s, "another process": other, "a new process": newServer(t, env, withEvents)} {
		testenv.Eventually(t, name+" knows the new id", func() bool {
			return s.rankedTo("ben", "/v1/boards/steps/friends") == "ben:600 auth0|ann:500" &&
				s.rankedTo("ann", "/v1/boards/steps/friends") == ""
		})
		for path, want := range map[string]string{
			"/v1/boards/steps/friends":                      "ben:600 auth0|ann:500",
			"/v1/boards/steps/friends?date=" + day.String(): "auth0|ann:4000 ben:3000",
			"/v1/boards/steps/top?date=" + day.String():     "auth0|ann:4000 ben:3000",
			"/v1/boards/gifts/top":                          "auth0|ann:7",
			"/v1/boards/steps/groups/" + group.ID:           "auth0|ann:500",
		} {
			if got := s.rankedTo("auth0|ann", path); got != want {
				t.Errorf("%s, %s: %q, want %q", name, path, got, want)
			}
		}
		var profile struct {
			UserID   models.UserID `json:"user_id"`
			Nickname string
		}
		s.read(s.as("auth0|ann", "GET", "/v1/me", nil), 200, &profile)
		if profile.UserID != "auth0|ann" || profile.Nickname != "Ann" {
			t.Errorf("%s has the profile %+v", name, profile)
		}
	}
	s.webhooksNameTheNewID(backend)
	var export struct {
		FormerIDs []struct {
			UserID models.UserID `json:"user_id"`
		} `json:"former_ids"`
	}
	s.read(s.as("auth0|ann", "GET", "/v1/me/export", nil), 200, &export)
	if len(export.FormerIDs) != 1 || export.FormerIDs[0].UserID != "ann" {
		t.Errorf("the export has the former ids %v", export.FormerIDs)
	}

	s.refuse(s.as("ann", "GET", "/v1/me/export", nil), http.StatusNotFound, models.CodeUserNotFound)
	s.refuse(s.as("ben", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), http.StatusNotFound, models.CodeUserNotFound)
	if env.Redis == nil {
		other = s // a folder has one process
	}
	other.want(other.as("ann", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":900}`, today)), 200, nil)
	if got := s.rankedTo("ben", "/v1/boards/steps/top"); got != "ann:900 ben:600 auth0|ann:500" {
		t.Errorf("with somebody new under the former id: %s", got)
	}
	if rows := harness.Rows(t, env.Gorm, []models.UserID{"ann", "auth0|ann"}); rows[0] <= rows[1] {
		t.Errorf("rows %v", rows)
	}
	s.refuse(s.service("POST", "/v1/users/ben/rename", `{"to":"ann"}`), http.StatusConflict, models.CodeUserExists)
	// The id of somebody who is being erased is free.
	s.want(s.service("DELETE", "/v1/users/ann", nil), http.StatusAccepted, nil)
	s.want(s.service("POST", "/v1/users/ben/rename", `{"to":"ann"}`), http.StatusNoContent, nil)
	s.finishErasures()
	if got := s.rankedTo("ann", "/v1/boards/steps/friends"); got != "ann:600 auth0|ann:500" {
		t.Errorf("after a renaming to the id of somebody who was erased: %s", got)
	}
}

// webhooksNameTheNewID sends the webhook about a request to ann once more.
func (s *server) webhooksNameTheNewID(backend *backend) {
	s.t.Helper()
	var list struct {
		Deliveries []struct{ ID string }
	}
	if err := json.Unmarshal(s.admin("GET", "/v1/admin/webhooks/deliveries?event=friend.requested", nil).body, &list); err != nil {
		s.t.Fatal(err)
	}
	s.want(s.admin("POST", "/v1/admin/webhooks/deliveries/"+list.Deliveries[0].ID+"/replay", nil), http.StatusOK, nil)
	testenv.Eventually(s.t, "the webhook names the new id", func() bool {
		return slices.Contains(backend.received(s.t, models.OutcomeFriendRequested, 2), `{"from":"cho","to":"auth0|ann"}`)
	})
}
