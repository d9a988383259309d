package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// To the sender of a request every answer is the same, whether the other has declined it
// or has not decided yet.
func TestDeclinedLooksPendingOverHTTP(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Config.Friends.MaxPending, env.Config.Friends.RequestsPerDay = 2, 4
	p := &askedPairs{server: newServer(t, env)}
	for _, name := range []string{"ann", "ben", "cho", "dee"} {
		for _, who := range pairNames {
			p.want(p.service("PUT", "/v1/users/"+name+who, `{"nickname":"`+name+`"}`), 200, nil)
		}
	}
	ask := func(name string) { p.compare("POST", "/v1/friends/requests", `{"user_id":"`+name+`"}`) }
	withdraw := func() { p.compare("DELETE", "/v1/friends/requests/ben", "") }
	ask("ben")
	p.want(p.as("ben-declining", "DELETE", "/v1/friends/requests/ann-declining", nil), 204, nil)
	ask("ben") // again
	p.compare("POST", "/v1/friends/requests/ben/accept", "")
	p.compare("DELETE", "/v1/friends/ben", "")
	ask("cho")
	ask("dee") // one too many wait for an answer
	withdraw()
	withdraw()
	ask("ben")
	withdraw()
	ask("dee")
	ask("ben") // one too many wait for an answer
	env.Clock.Advance(24 * time.Hour)
	withdraw()
	p.compare("DELETE", "/v1/friends/requests/cho", "")
	for range 5 { // the last is one too many for a day
		ask("ben")
		withdraw()
	}
	env.Clock.Advance(6 * 24 * time.Hour)
	ask("ben") // after seven days it reaches the other again
	for _, who := range pairNames {
		if body := string(p.as(models.UserID("ben"+who), "GET", "/v1/friends/requests", nil).body); !strings.Contains(body, `"ann`+who) {
			t.Errorf("ben%s is not shown the request: %s", who, body)
		}
	}
}

// Where nobody has declined, and where ben has declined a request of ann, user ids end
// with these.
var pairNames = [2]string{"-calm", "-declining"}

// askedPairs makes the calls of ann in both places.
type askedPairs struct{ *server }

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// compare makes a call, and then those that list what the caller may see, in both places,
// and compares the answers. Names in the call are those without an ending.
func (p *askedPairs) compare(method, path, body string) {
	p.t.Helper()
	p.same(method, path, body)
	for _, list := range []string{
		"/v1/friends/requests", "/v1/friends", "/v1/me", "/v1/boards/steps/friends", "/v1/boards/steps/me",
		"/v1/boards/steps/history?for=ben",
	} {
		p.same("GET", list, "")
	}
}

func (p *askedPairs) same(method, path, body string) {
	p.t.Helper()
	var got [2]string
	for i, who := range pairNames {
		named := func(text string) string {
			return regexp.MustCompile(`\b(ben|cho|dee)\b`).ReplaceAllString(text, "${1}"+who)
		}
		var sent any
		if body != "" {
			sent = named(body)
		}
		a := p.as(models.UserID("ann"+who), method, named(path), sent)
		shown := strings.ReplaceAll(requestID.ReplaceAllString(string(a.body), ""), who, "")
		got[i] = fmt.Sprintf("%d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), shown)
	}
	if got[0] != got[1] {
		p.t.Errorf("%s %s %s: pending %s, declined %s", method, path, body, got[0], got[1])
	}
}

// A request of one too many says when to try again, and is counted.
func TestTooManyFriendRequests(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Config.Friends.MaxPending, env.Config.Friends.RequestsPerDay = 2, 3
	s := newServer(t, env)
	for _, id := range []string{"2", "3", "4", "5"} {
		s.want(s.service("PUT", "/v1/users/"+id, `{"nickname":"user"}`), 200, nil)
	}
	ask := func(id string) answer {
		t.Helper()
		return s.as("1", "POST", "/v1/friends/requests", `{"user_id":"`+id+`"}`)
	}
	s.want(ask("2"), 201, nil)
	s.want(ask("3"), 201, nil)
	for _, tt := range []struct{ limit, wait string }{{"pending", "3600"}, {"day", "86400"}} {
		refused := ask("4")
		s.refuse(refused, 429, models.CodeRequestLimit)
		if wait := refused.header.Get("Retry-After"); wait != tt.wait {
			t.Errorf("%s: Retry-After %s, want %s", tt.limit, wait, tt.wait)
		}
		want := `stepboard_friend_requests_refused_total{limit="` + tt.limit + `"} 1`
		if metrics := string(s.call("", "GET", "/metrics", nil).body); !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
		for _, id := range []string{"2", "3"} {
			s.want(s.as("1", "DELETE", "/v1/friends/requests/"+id, nil), 204, nil)
		}
		if tt.limit == "pending" {
			s.want(ask("5"), 201, nil)
		}
	}
}
