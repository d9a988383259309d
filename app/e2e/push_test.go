package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/internal/testenv/browsers"
	"stepboard/models"
)

// Users are told in their browsers what they have chosen: likes, requests, and the digest, which only
// those get who want it. No log line, metric or answer to operators has the address of a browser.
func TestPush(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	service := browsers.New(t, nil)
	phone, gone := service.Browser("secret-phone"), service.Browser("secret-gone")
	s := newServer(t, env, func(c *config.Config) {
		c.Push = config.Push{Subject: "https://example.com/contact", PrivateNetwork: true}
		c.Jobs.DigestCron = "0 22 * * *"
	})
	for _, name := range []string{"ann", "ben", "cho", "dee"} {
		s.want(s.service("PUT", "/v1/users/"+name, fmt.Sprintf(`{"nickname":%q}`, strings.ToUpper(name))), 200, nil)
	}
	s.want(s.service("PUT", "/v1/users/ann/friends", `{"friend_ids":["ben","cho"]}`), 200, nil)
	s.want(s.as("ann", "PUT", "/v1/me/push", phone.JSON(`["likes","requests","digest"]`)), 200, nil)
	s.want(s.as("ben", "PUT", "/v1/me/push", gone.JSON(`["digest"]`)), 200, nil)
	s.want(s.as("ben", "DELETE", "/v1/me/push", fmt.Sprintf(`{"endpoint":%q}`, gone.Endpoint)), 204, nil)
	s.uploadDay(models.DateOf(testenv.Noon), map[models.UserID]int{"ann": 10, "ben": 20, "cho": 30})
	s.want(s.as("ben", "PUT", "/v1/boards/steps/likes/ann", nil), 204, nil)
	s.want(s.as("dee", "POST", "/v1/friends/requests", `{"user_id":"ann"}`), 201, nil)
	testenv.Eventually(t, "the like and the request have arrived", func() bool { return len(phone.Got()) == 2 })
	env.Clock.Set(testenv.Noon.Add(61 * time.Minute)) // 22:01 in Shanghai
	testenv.Eventually(t, "the digest has arrived", func() bool { return len(phone.Got()) == 3 })
	var got []string
	for _, push := range phone.Got() {
		got = append(got, push.Text)
	}
	for _, want := range []string{
		`{"type":"like.given","board":"steps","date":"2026-11-20","people":[{"user_id":"ben","nickname":"BEN"}],"rank":0,"total":0,"score":0,"url":"#/day/2026-11-20"}`,
		`{"type":"friend.requested","board":"","date":"","people":[{"user_id":"dee","nickname":"DEE"}],"rank":0,"total":0,"score":0,"url":"#/friends"}`,
		`{"type":"digest.ready","board":"steps","date":"2026-11-20","people":[{"user_id":"cho","nickname":"CHO"}],"rank":3,"total":3,"score":10,"url":"#/day/2026-11-20"}`,
	} {
		if !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("%s is missing among %s", want, got)
		}
	}
	if n := len(gone.Got()); n != 0 {
		t.Errorf("a browser whose user has signed out got %d", n)
	}
	var state struct {
		Key           string `json:"vapid_public_key"`
		Subscriptions []struct{ Endpoint string }
	}
	s.read(s.as("ann", "GET", "/v1/me/push", nil), 200, &state)
	if state.Key != phone.Got()[0].Key || len(state.Subscriptions) != 1 || state.Subscriptions[0].Endpoint != phone.Endpoint {
		t.Errorf("%+v, and the browser has seen the key %s", state, phone.Got()[0].Key)
	}
	for _, path := range []string{"/v1/admin/webhooks/deliveries", "/v1/admin/users/ann?board=steps", "/v1/admin/users/ann/export", "/v1/admin/status", "/metrics"} {
		if a := s.admin("GET", path, nil); a.status != 200 || strings.Contains(string(a.body), "secret-") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
