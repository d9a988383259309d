package browser

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"stepboard/internal/testenv"
)

// A user without friends is led to a link, which stays the same until it is renewed. Opening it
// changes nothing: somebody sees who invites, and only the button makes them friends. One's own link,
// one that was accepted, and one that was renewed say so.
func TestDemoFriendInvitation(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	me, guest := people[0], people[19]
	p := newPage(t, phone)
	p.open(base + "/#/friends")
	p.until("the link is there", "!!document.querySelector('#invite')?.value.startsWith('"+base+"/#/invite/')")
	p.checkAccess("friends with a link")
	link := eval[string](p, "document.querySelector('#invite').value")
	p.click("main details summary")
	p.until("the QR code is there", "document.querySelector('.qr path')?.getAttribute('d').length > 1000")
	p.checkLayout("friends")
	p.screenshot("invite-390")
	hash := link[strings.Index(link, "#"):]
	p.goTo(hash)
	p.until("one's own link says so", "document.querySelector('h1')?.textContent === 'This is your own link'")

	friends := func() (ids []string) {
		var list struct {
			Friends []struct {
				UserID string `json:"user_id"`
			}
		}
		callAPI(t, guest.Token, http.MethodGet, base+"/v1/friends?limit=200", nil, &list)
		for _, f := range list.Friends {
			ids = append(ids, f.UserID)
		}
		return ids
	}
	p.switchTo(guest.UserID)
	p.goTo(hash)
	p.until("who invites is shown", "!!document.querySelector('h1')?.textContent.endsWith(' invites you to be friends')")
	p.checkLayout("an invitation of a friend")
	p.screenshot("befriend-390")
	before := len(friends())
	p.click("main .strong")
	p.until("the ranking is there", "location.hash === '#/' && "+rankingShown)
	if after := len(friends()); after != before+1 {
		t.Errorf("%d friends, and %d before", after, before)
	}
	p.goTo(hash)
	p.until("it was accepted", "!!document.querySelector('h1')?.textContent.endsWith(' are friends')")

	p.switchTo(me.UserID)
	p.goTo("#/friends")
	p.until("the link is the same", "document.querySelector('#invite')?.value === '"+link+"'")
	p.click("main .ask .button[aria-haspopup=dialog]")
	p.click("dialog .danger")
	p.until("the link is another one", "document.querySelector('#invite')?.value !== '"+link+"' && document.querySelector('dialog') === null")
	p.switchTo(guest.UserID)
	p.goTo(hash)
	p.until("the old link is refused", "!!document.querySelector('main .wrong')?.textContent.includes('new link')")
	p.ignoreFaults("404")
}

// A new user is offered to invite friends, in place of an empty list and below a list of one. A link
// survives signing in first.
func TestFriendInvitation(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1))
	f.returns("GET /v1/friends/invites/CODE", map[string]any{"user_id": "2", "nickname": "Ben", "avatar_url": "", "friends": false})
	var joined atomic.Int32
	f.handle("POST /v1/friends/join", func(w http.ResponseWriter, _ *http.Request) {
		joined.Add(1)
		refuse(w, http.StatusConflict, "friend_limit")
	})
	p := newPage(t, phone)
	p.open(f.URL + "/#/invite/CODE")
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	if text := eval[string](p, "document.querySelector('.sign-in > p').textContent"); !strings.Contains(text, "friend invites you") {
		t.Errorf("somebody who is not signed in reads %q", text)
	}
	p.typeIn("#token", fakeToken())
	p.click(".sign-in .strong")
	p.until("the invitation is there", "document.querySelector('h1')?.textContent === 'Ben invites you to be friends'")
	if n := joined.Load(); n != 0 {
		t.Errorf("opening the link has joined %d times", n)
	}
	p.click("main .strong")
	p.until("the error is shown", "document.querySelector('main .wrong').textContent !== ''")
	p.ignoreFaults("409")

	p.goTo("#/")
	p.until("an empty list offers to invite", "document.querySelector('.list .notice .button')?.textContent === 'Invite friends'")
	p.screenshot("new-user-390")
	f.ranks(rankingFrom(1, 1))
	p.until("a list of one does, too", rankingShown+" && document.querySelector('.list .notice .button')?.textContent === 'Invite friends'")
	p.checkLayout("alone")
	p.screenshot("alone-390")
	p.click(".list .notice .button")
	p.until("the link is there", "document.querySelector('#invite')?.value === '"+f.URL+"/#/invite/KX7WQ2M5A4TDZBNC'")
}
