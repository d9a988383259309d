package browser

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// listed reports whether a user is on one of the lists of choices.
func listed(t testing.TB, base, bearer, list, user string) bool {
	t.Helper()
	var answer struct{ Users []person }
	callAPI(t, bearer, http.MethodGet, base+"/v1/"+list, nil, &answer)
	return slices.ContainsFunc(answer.Users, func(p person) bool { return p.UserID == user })
}

// On the page a person mutes, hides from and blocks a friend, hides from everybody, and
// undoes it.
func TestDemoPrivacy(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	ranked := rankingOf(t, base, me.Token, "").Entries
	friend := string(ranked[slices.IndexFunc(ranked, func(e models.RankedEntry) bool { return string(e.User) != me.UserID })].User)
	p := newPage(t, phone)
	p.open(base + "/#/friends")
	row := `.person:has(a[href="#/history/` + url.PathEscape(friend) + `"])`
	menu := row + " .round"
	p.until("the friends are there", "document.querySelector('"+row+"') !== null")

	// The keyboard closes the menu, and the button has the focus again.
	eval[any](p, "document.querySelector('"+menu+"').focus()")
	p.typeIn(menu, kb.Enter)
	p.until("the menu is open", "document.querySelector('dialog[open] .menu-item') === document.activeElement")
	p.waitForAnimations()
	p.screenshot("menu-390")
	p.typeIn("dialog .menu-item", kb.Escape)
	p.until("the menu is closed", "document.querySelector('dialog') === null && document.activeElement === document.querySelector('"+menu+"')")

	for _, choice := range []struct{ kind, said, tag string }{{"muted", "is muted", "Muted"}, {"hidden-from", "no longer sees", "Does not see you"}} {
		p.click(menu)
		p.click("[data-action=" + choice.kind + "]")
		p.says(choice.said)
		p.until("the row says so", "[...document.querySelectorAll('"+row+" .pill')].some((e) => e.textContent === '"+choice.tag+"')")
		if !listed(t, base, me.Token, choice.kind, friend) {
			t.Errorf("%s is not on the list of %s", friend, choice.kind)
		}
	}
	p.checkLayout("friends with choices")
	if slices.ContainsFunc(rankingOf(t, base, me.Token, "").Entries, func(e models.RankedEntry) bool { return string(e.User) == friend }) {
		t.Error("a friend who is muted is still ranked")
	}
	p.click(menu)
	p.click("[data-action=muted]")
	p.says("You see the steps")
	if listed(t, base, me.Token, "muted", friend) {
		t.Error("the menu does not undo muting")
	}

	// The lists of the profile undo, too. The demo has one more of each kind.
	p.goTo("#/me")
	p.until("the lists are there", "document.querySelectorAll('.privacy .person').length === 4")
	p.checkLayout("privacy")
	p.screenshot("privacy-390")
	n := eval[int](p, "[...document.querySelectorAll('.choices:nth-of-type(1) .person')].length")
	p.click(".choices .person .button")
	p.until("the row is gone", "document.querySelectorAll('.privacy .person').length === 3")
	if n != 2 {
		t.Errorf("%d people are listed whom I hide from", n)
	}
	var hidden struct{ Hidden bool }
	for _, want := range []bool{true, false} {
		p.until("the switch can be used", "document.querySelector('#hide')?.disabled === false")
		p.click("#hide")
		testenv.Eventually(t, "the choice is stored", func() bool {
			callAPI(t, me.Token, http.MethodGet, base+"/v1/me/privacy", nil, &hidden)
			return hidden.Hidden == want
		})
	}

	p.goTo("#/friends")
	p.click(menu)
	p.click("[data-action=blocked]")
	p.until("the page asks", "document.querySelector('dialog .danger')?.textContent === 'Block'")
	p.click("dialog .danger")
	p.until("the friend is gone", "document.querySelector('dialog, "+row+"') === null")
	if !listed(t, base, me.Token, "blocked", friend) {
		t.Error("the friend is not blocked")
	}
}

// A choice that could not be stored is not shown as if it were.
func TestPrivacyErrors(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	friend := entry(10, 1, 1)
	friend["since"] = "2026-10-31T23:30:00.000Z"
	f.returns("GET /v1/friends", map[string]any{"friends": []any{friend}, "next_cursor": nil})
	f.refuses("PUT /v1/muted/10", http.StatusConflict, "choice_limit")
	f.refuses("PUT /v1/me/privacy", http.StatusServiceUnavailable, "unavailable")
	p := newPage(t, narrow)
	p.signIn(f.URL+"/#/friends", fakeToken())
	p.click(".person .round")
	p.click("[data-action=muted]")
	p.until("the error is shown", "document.querySelector('dialog .wrong').textContent.includes('list is full')")
	p.click("dialog .buttons .button")
	p.goTo("#/me")
	p.until("the switch is there", "document.querySelector('#hide')?.disabled === false")
	p.click("#hide")
	p.says("not available")
	p.until("nothing has changed", "document.querySelector('#hide').checked === false")
	p.ignoreFaults("409")
	p.ignoreFaults("503")
}

// Whoever has uploaded an unusually large total is told that it waits, and is shown what counts. The viewer reads
// that operators have corrected a score, on the day that it concerns.
func TestDemoDecisions(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	today := *rankingOf(t, base, people[0].Token, "").Date
	callAPI(t, people[0].Token, http.MethodPost, base+"/v1/boards/steps/scores", map[string]any{"date": today, "score": 99_500}, nil)
	p := newPage(t, phone)
	p.open(base)
	p.until("the hint is there", "[...document.querySelectorAll('.yesterday')].some((e) => e.textContent.includes('99,500 is unusual and waits'))")
	if shown := eval[string](p, "document.querySelector('.ranking').textContent"); shown == "" || strings.Contains(shown, "99,500") {
		t.Errorf("the ranking shows the held total: %s", shown)
	}
	p.screenshot("held-390")
	p.goTo("#/day/" + daysAgo(t, today, 1))
	p.until("the note is shown", "document.querySelector('.hero .goal')?.textContent.includes('operators have changed') === true")
	p.screenshot("correction-set-390")
	for _, other := range people {
		var own struct{ Correction string }
		callAPI(t, other.Token, http.MethodGet, base+"/v1/boards/steps/me", nil, &own)
		if own.Correction != "excluded" {
			continue
		}
		p.switchTo(other.UserID)
		p.goTo("#/")
		p.until("the note is shown", "document.querySelector('.hero h2')?.textContent === 'You are not ranked' && document.querySelector('.hero .goal').textContent.includes('operators')")
		p.checkLayout("excluded")
		p.screenshot("correction-excluded-390")
		return
	}
	t.Error("nobody is excluded")
}

// A correction that is made while the page is open is noticed when the score falls, and
// its end when the score rises.
func TestCorrectionOfAnOpenPage(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	ranking := func(score int) map[string]any {
		r := rankingFrom(1, 2, 3, 1)
		r["me"].(map[string]any)["score"] = score
		return r
	}
	f.ranks(ranking(5000))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the page has asked", "document.querySelector('.hero .goal .name') !== null")
	f.returns("GET /v1/boards/steps/me", map[string]any{"correction": "set"})
	f.ranks(ranking(100))
	p.until("the note is shown", "document.querySelector('.hero .goal').textContent.includes('operators')")
	f.returns("GET /v1/boards/steps/me", map[string]any{"correction": nil})
	f.ranks(ranking(6000))
	p.until("the note is gone", "document.querySelector('.hero .goal .name') !== null")
}
