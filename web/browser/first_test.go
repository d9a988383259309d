package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
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

// Nothing moves while the page loads over a slow network, and neither what comes later nor a
// lost connection moves the list.
func TestNothingMovesTheList(t *testing.T) {
	t.Parallel()
	f := newFakeDemo(t)
	f.ranks(friendsOf(30, 2))
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		// Slow 4G, as Chromium's tools have it.
		MatchedNetworkConditions: []*network.Conditions{{Latency: 562, DownloadThroughput: 180_000, UploadThroughput: 84_375}},
	})
	p.must(err)
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
	f.refuses("GET /v1/boards/steps/friends/stream", http.StatusServiceUnavailable, "unavailable")
	f.refuses("GET /v1/boards/steps/friends", http.StatusServiceUnavailable, "unavailable")
	f.CloseClientConnections()
	p.until("the hero says that it is old", "document.querySelector('.hero .goal.banner') !== null")
	unmoved("a lost connection")
	p.screenshot("stale-390")
	own := "document.querySelector('.own').getBoundingClientRect().top"
	if eval[bool](p, "getComputedStyle(document.querySelector('.own')).position === 'sticky'") {
		t.Error("the viewer's row sticks beside the hero")
	}
	eval[any](p, "scrollTo(0, 700)")
	p.until("the viewer's row sticks below the bar", own+" === document.querySelector('.top').getBoundingClientRect().bottom")
	p.screenshot("scrolled-390")
	p.ignoreFaults("")
}
