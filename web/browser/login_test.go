package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"stepboard/web"
)

// Somebody who is not signed in goes to the app's login, and comes back to the invitation that was
// opened. What the login brings back can't show another page.
func TestLogin(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 1))
	f.install(web.New(web.Files(), web.Options{Login: f.URL + "/login?app=steps"}))
	back := ""
	f.handle("GET /login", func(w http.ResponseWriter, r *http.Request) {
		to := r.URL.Query().Get("return_to")
		if r.URL.Query().Get("app") != "steps" || to != "/#/join/CODE" {
			t.Errorf("the login is asked for %s", r.URL)
		}
		if back != "" {
			to = back
		}
		http.Redirect(w, r, f.URL+"/#token="+fakeToken()+"&return_to="+url.QueryEscape(to), http.StatusFound)
	})
	p := newPage(t, phone)
	p.open(f.URL + "/#/join/CODE")
	p.until("the login is offered", "document.querySelector('.sign-in .button') !== null")
	p.checkAccess("sign in")
	if eval[bool](p, "document.querySelector('#token').checkVisibility()") {
		t.Error("the form for a token is open")
	}
	p.screenshot("login-390")
	p.click(".sign-in > .button")
	p.until("the invitation is there", "location.hash === '#/join/CODE' && document.querySelector('.tabs') !== null")

	for _, back = range []string{"https://example.com/#/groups", "//example.com/#/groups", "/console#/groups", "/#token=x", "javascript:alert(1)", "http://[", "/"} {
		p.open(f.URL + "/?again#/join/CODE")
		p.until("the login is offered again", "document.querySelector('.sign-in > .button') !== null")
		p.click(".sign-in > .button")
		p.until("the ranking is there", rankingShown)
		if at := eval[string](p, "location.href"); at != f.URL+"/#/" {
			t.Errorf("back at %s, the page is %s", back, at)
		}
	}

	p.open(f.URL + "/?again#/join/CODE")
	p.until("the login is offered again", "document.querySelector('.sign-in > .button') !== null")
	p.click(".sign-in summary")
	p.typeIn("#token", fakeToken())
	p.click(".sign-in form .button")
	p.until("the invitation is there", "location.hash === '#/join/CODE' && document.querySelector('.tabs') !== null")
}

// Where people can also sign in by codes, invitations still lead to the app's login, unless they make new people, too.
func TestInvitationBesideALogin(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.install(web.New(web.Files(), web.Options{Login: f.URL + "/login?app=steps", Codes: true}))
	f.returns("POST /v1/session/code", map[string]any{"kind": "group", "new": true, "nickname": nil, "group": "Family"})
	p := newPage(t, phone)
	for join, fields := range map[string]int{"nobody": 0, "invited": 1} {
		f.returns("GET /v1/sign-in", map[string]any{"codes": true, "join": join, "providers": []any{}})
		p.open(f.URL + "/?" + join + "#/join/CODE")
		p.until("the login is offered, and a name asked for if somebody new may join: "+join, fmt.Sprintf(
			"document.querySelector('.sign-in > .button') !== null && document.querySelectorAll('#name').length === %d", fields))
	}
}
