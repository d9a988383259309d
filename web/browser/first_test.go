package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
)

// friendsOf returns a ranking of n people, the viewer at a place.
func friendsOf(n, place int) map[string]any {
	users := make([]int, n)
	for i := range users {
		users[i] = i + 2
	}
	users[place-1] = 1
	return rankingFrom(1, users...)
}

// wholeRows counts the rows of the list that are in full view above the navigation.
const wholeRows = `(() => {
	const bottom = document.querySelector('.tabs').getBoundingClientRect().top;
	return [...document.querySelectorAll('.ranking > li')].filter((e) => e.getBoundingClientRect().bottom <= bottom && !e.matches('.own')).length;
})()`

const listTop = "document.querySelector('.ranking').getBoundingClientRect().top"

// A phone shows the list of friends without scrolling: it begins high up, and most of the
// screen is rows.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(friendsOf(30, 2))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.until("the hearts' module is there", "document.querySelector('.share') !== null")
	for _, c := range []struct{ width, height, rows int64 }{{390, 844, 9}, {360, 740, 7}, {320, 568, 4}} {
		p.emulate(viewport{width: c.width, height: c.height})
		p.until("the window has its size", fmt.Sprintf("innerWidth === %d", c.width))
		for _, language := range []string{"en", "zh-CN"} {
			p.speak(language)
			where := fmt.Sprintf("first-%dx%d-%s", c.width, c.height, language)
			p.checkLayout(where)
			// The viewer's row is one of those in view.
			if rows := eval[int64](p, wholeRows) + 1; rows < c.rows {
				t.Errorf("%s: %d whole rows, want %d", where, rows, c.rows)
			}
			if top := eval[float64](p, listTop); top > 260 {
				t.Errorf("%s: the list begins at %.0f", where, top)
			}
			p.screenshot(where)
		}
	}
}

// Whoever is far down sees their own row, too: above the navigation, until the list is scrolled to it.
func TestOwnRowIsOnTheFirstScreen(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(friendsOf(19, 15))
	p := newPage(t, phone)
	p.reduceMotion()
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	const (
		own  = "document.querySelector('.ranking .own').getBoundingClientRect()"
		tabs = "document.querySelector('.tabs').getBoundingClientRect().top"
	)
	for _, v := range []viewport{phone, {width: 320, height: 568}, {width: 1440, height: 900}} {
		p.emulate(v)
		p.until("the window has its size", fmt.Sprintf("innerWidth === %d", v.width))
		bottom := tabs
		if v.width > 900 {
			bottom = "innerHeight"
		}
		p.until("the own row is above the edge", own+".bottom <= "+bottom+" + 1.5 && "+own+".top > "+listTop)
		if v.width < 900 && !eval[bool](p, own+".bottom > "+bottom+" - 1.5") {
			t.Errorf("at %d pixels the row is not at the edge", v.width)
		}
		p.screenshot(fmt.Sprintf("own-row-%d", v.width))
	}
	p.emulate(phone)
	eval[any](p, "scrollTo(0, document.documentElement.scrollHeight)")
	p.until("the row is at its place", "(() => { const rows = [...document.querySelectorAll('.ranking > li')]; return Math.abs(rows[14].getBoundingClientRect().top - rows[13].getBoundingClientRect().bottom) < 1; })()")
}

// With letters of twice the size the first screen has a row of the ranking, too. The navigation is
// behind one button, and the period is chosen from a list.
func TestFirstScreenWithLargeLetters(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.fillScreens()
	f.ranks(friendsOf(19, 15))
	p := newPage(t, phone)
	p.reduceMotion()
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.setLetters(32)
	for _, v := range []viewport{phone, {width: 320, height: 568}} {
		p.emulate(v)
		p.until("the window has its size", fmt.Sprintf("innerWidth === %d && getComputedStyle(document.documentElement).fontSize === '32px'", v.width))
		for _, language := range []string{"en", "zh-CN"} {
			p.speak(language)
			p.waitForAnswers()
			if bottom := eval[float64](p, "document.querySelector('.ranking > li').getBoundingClientRect().bottom"); bottom > float64(v.height) {
				t.Errorf("%dx%d in %s: the first row ends at %.0f", v.width, v.height, language, bottom)
			}
			p.screenshot(fmt.Sprintf("large-letters-%d-%s", v.width, language))
		}
	}
	const open = "document.querySelector('.menu-button').getAttribute('aria-expanded') === 'true' && document.querySelector('.tabs a').checkVisibility()"
	p.typeIn(".menu-button", kb.Enter)
	p.until("the menu is open", open)
	p.press(kb.Escape)
	p.until("the menu is closed", "!("+open+") && document.activeElement.matches('.menu-button')")
	p.press(kb.Enter)
	p.until("the menu is open", open)
	p.typeIn(".tabs a[href='#/history']", kb.Enter)
	p.until("the history is there", "location.hash === '#/history' && !("+open+")")
	p.goTo("#/")
	p.until("the ranking is there again", rankingShown)
	p.set(".period-bar select", "week")
	p.until("the week is there", "location.hash === '#/week'")
}

// Nothing moves while the page loads over a slow network, and neither what comes later nor a
// lost connection moves the list.
func TestNothingMovesTheList(t *testing.T) {
	t.Parallel()
	f := newFakeDemo(t)
	f.ranks(friendsOf(30, 2))
	p := newPage(t, phone)
	f.slowDown()
	p.open(f.URL)
	p.until("the ranking is there", rankingShown)
	top := eval[float64](p, listTop)
	p.until("the rest is there", "document.querySelector('.share') !== null")
	p.waitForAnswers()
	shift, err := chromedp.Run(p.ctx, chromedp.Evaluate[float64](`new Promise((resolve) => {
		let sum = 0;
		const add = (list) => list.getEntries().forEach((e) => { sum += e.value; });
		new PerformanceObserver(add).observe({ type: 'layout-shift', buffered: true });
		requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(sum))));
	})`, chromedp.EvalAwaitPromise))
	p.must(err)
	if shift >= 0.01 {
		t.Errorf("the layout shifts by %.3f", shift)
	}
	unmoved := func(what string) {
		t.Helper()
		if now := eval[float64](p, listTop); now != top {
			t.Errorf("%s: the list moves from %.0f to %.0f", what, top, now)
		}
	}
	unmoved("what is loaded later")
	p.until("the visitor can walk", "document.querySelector('.actions .button') !== null")
	for _, v := range []viewport{phone, {width: 320, height: 568}, desktop} {
		p.emulate(v)
		p.until("the window has its size", fmt.Sprintf("innerWidth === %d", v.width))
		if covered := eval[[]string](p, `(() => {
			const button = document.querySelector('.actions .button').getBoundingClientRect();
			return [...document.querySelectorAll('.row, .hero, .period-name, .picker, .top a, .top summary')].filter((e) => {
				const box = e.getBoundingClientRect();
				return box.left < button.right && box.right > button.left && box.top < button.bottom && box.bottom > button.top;
			}).map((e) => e.className + e.tagName);
		})()`); len(covered) > 0 {
			t.Errorf("at %d pixels the button to walk covers %q", v.width, covered)
		}
	}
	p.emulate(phone)
	p.until("it is a phone again", "innerWidth === 390")
	f.refuses("GET /v1/boards/steps/friends/stream", http.StatusServiceUnavailable, "unavailable")
	f.refuses("GET /v1/boards/steps/friends", http.StatusServiceUnavailable, "unavailable")
	f.CloseClientConnections()
	p.until("the hero says that it is old", "document.querySelector('.hero .goal.banner') !== null")
	unmoved("a lost connection")
	p.screenshot("stale-390")
	own := "document.querySelector('.own').getBoundingClientRect().top"
	eval[any](p, "scrollTo(0, 700)")
	p.until("the viewer's row sticks below the bar", own+" === document.querySelector('.top').getBoundingClientRect().bottom")
	p.screenshot("scrolled-390")
	p.ignoreFaults("")
}
