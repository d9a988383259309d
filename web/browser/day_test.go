package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
)

// daysOf lets a fake service have a ranking today and another one on the day before, both
// with likes for the viewer.
func (f *fakeService) daysOf(today, yesterday map[string]any) {
	withLikes(today, 1)
	withLikes(yesterday, 4)
	f.ranksAs("friends", func(r *http.Request) map[string]any {
		if r.URL.Query().Get("date") == dayBefore {
			return yesterday
		}
		return today
	})
}

// withLikes gives each line of a ranking as many likes, and returns the ranking.
func withLikes(ranking map[string]any, likes int) map[string]any {
	for _, line := range append([]any{ranking["me"]}, ranking["entries"].([]any)...) {
		if e, ok := line.(map[string]any); ok {
			e["likes"], e["liked"] = likes, false
		}
	}
	return ranking
}

// dayBefore is the day before the fake service's.
const dayBefore = "2026-11-19"

// past returns a ranking of the day before the fake service's.
func past(users ...int) map[string]any {
	ranking := rankingFrom(1, users...)
	ranking["date"], ranking["final"] = dayBefore, true
	return ranking
}

// Behind today's list one line says how yesterday went.
func TestYesterday(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.daysOf(rankingFrom(1, 2, 3, 1, 4), past(3, 1, 2, 4))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	const want = "Yesterday You came 2nd of 4 among friends"
	p.until("the line says "+want, "document.querySelector('.yesterday')?.innerText.replace(/\\s+/g, ' ') === '"+want+"'")
	if height := eval[float64](p, "document.querySelector('.yesterday').offsetHeight"); height > 48 {
		t.Errorf("the line is %.0f pixels high", height)
	}
	if eval[bool](p, "document.querySelector('.yesterday').getBoundingClientRect().top < document.querySelector('.ranking').getBoundingClientRect().bottom") {
		t.Error("the line is not behind the list")
	}
	p.checkLayout("the line about yesterday")
	p.screenshot("yesterday-390")
	p.click(".yesterday a")
	p.until("the past day is there", "!!document.querySelector('.day-card')?.innerText.includes('How the day went')")
}

// The line about yesterday leads to the day. There the first three are on a podium, with
// their names, also if they are fewer, and nothing stands for a day without scores.
func TestPodium(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.daysOf(rankingFrom(1, 1), past(3, 1))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.click(".yesterday a")
	p.until("the podium is there", "document.querySelectorAll('.podium li').length === 2")
	if got := eval[string](p, "document.querySelector('.podium').innerText.replace(/\\s+/g, ' ')"); !strings.Contains(got, "User 3 90,000") || !strings.Contains(got, "User 1 89,990") {
		t.Errorf("the podium shows %s", got)
	}
	p.screenshot("podium-390")
	f.daysOf(rankingFrom(1, 1), past())
	p.goTo("#/")
	p.until("today is there", "document.querySelector('.heart') !== null")
	p.goTo("#/day/" + dayBefore)
	p.until("the day is empty", "document.querySelector('.notice') !== null")
	if eval[bool](p, "document.querySelector('.day-card, .champion') !== null") {
		t.Error("a day without scores has a card or a header")
	}
	if tick := eval[float64](p, "document.querySelector('.hero .pill.final .icon').getBoundingClientRect().height"); tick < 8 || tick > 20 {
		t.Errorf("the tick of an empty day is %.0f pixels high", tick)
	}
	p.screenshot("empty-day-390")
}

// The card says how much of the goal is reached and what is left of the day. The goal is proposed from
// the last days, until another one is chosen, which the page keeps.
func TestGoal(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	ranking := rankingFrom(1, 2, 1)
	ranking["me"].(map[string]any)["score"] = 3150
	f.ranks(ranking)
	f.handle("GET /v1/boards/steps/history", func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Get("from") != "2026-11-06" || query.Get("to") != dayBefore {
			t.Errorf("the page asks for the days %v", query)
		}
		respond(w, http.StatusOK, map[string]any{"entries": []any{map[string]any{"date": dayBefore, "score": 6201}, map[string]any{"date": "2026-11-07", "score": 6200}}})
	})
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	const (
		aim = "document.querySelector('.hero .aim').innerText.trim().replace(/\\s*\\n\\s*/g, ' · ')"
		bar = "new DOMMatrix(document.querySelector('.hero .bar > span').style.transform).a"
	)
	p.until("a goal is proposed", "document.querySelector('.hero button.aim') !== null && "+aim+".startsWith('of 6,300 · 7 h left')")
	p.until("the bar is half full", bar+" === 0.5")
	p.typeIn(".aim", kb.Enter)
	p.until("the dialog says where the goal is from", "document.querySelector('#goal-hint')?.textContent.includes('6,300') === true")
	p.checkAccess("goal")
	p.screenshot("goal-390")
	p.set("#goal", "0")
	p.click("dialog .strong")
	p.until("a goal of 0 is refused", "document.querySelector('#goal-wrong').textContent !== ''")
	p.set("#goal", "3,000")
	p.click("dialog .strong")
	p.until("the goal is reached", dialogClosed+" && "+aim+".startsWith('✓ 3,000') && "+bar+" === 1")
	if !eval[bool](p, "document.activeElement.matches('.aim')") {
		t.Error("after the dialog another control has the focus")
	}
	p.signIn(f.URL, fakeToken())
	p.until("the goal is kept", "document.querySelector('.hero button.aim') !== null && "+aim+".startsWith('✓ 3,000')")
}

// Rows have an arrow for places won and lost since the last look, until the next day. What
// is kept for that has no user ids.
func TestPlacesSinceTheLastLook(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	named := func(ranking map[string]any) map[string]any {
		for _, line := range ranking["entries"].([]any) {
			if e := line.(map[string]any); e["user_id"] == "5" {
				e["user_id"] = "a-telling-id"
			}
		}
		return ranking
	}
	f.ranks(named(rankingFrom(1, 2, 5, 4, 1)))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	const arrows = "[...document.querySelectorAll('.ranking > li')].map((e) => e.querySelector('.move > [aria-hidden]')?.textContent ?? '').join()"
	p.until("the code is there", "document.querySelector('.share') !== null")
	if got := eval[string](p, arrows); got != ",,," {
		t.Errorf("the first look has the arrows %s", got)
	}
	f.ranks(named(rankingFrom(1, 1, 5, 2, 4, 6)))
	p.until("the viewer leads", "document.querySelector('.ranking > li').classList.contains('own')")
	if got := eval[string](p, arrows); got != ",,,," {
		t.Errorf("during the first look there are the arrows %s", got)
	}
	f.ranks(named(rankingFrom(1, 2, 5, 6, 4, 1)))
	p.until("the viewer is last", "document.querySelector('.ranking > li:last-child').classList.contains('own')")
	p.signIn(f.URL, fakeToken())
	f.ranks(named(rankingFrom(1, 5, 1, 2, 4, 6)))
	p.until("there are arrows", arrows+" === '▲1,▲3,▼2,,▼2'")
	if got := eval[string](p, "document.querySelector('.own .move .visually-hidden').textContent"); got != "Up 3 places since your last look" {
		t.Errorf("a screen reader says %q", got)
	}
	if got := eval[string](p, "document.querySelector('.hero .move').textContent.replace(/\\s+/g, ' ').trim()"); got != "▲3Up 3 places since your last look" {
		t.Errorf("the card says %q", got)
	}
	p.screenshot("places-390")
	if kept := eval[string](p, "localStorage.places"); strings.Contains(kept, "telling") || !strings.Contains(kept, "places") {
		t.Errorf("the page keeps the places %s", kept)
	}
	tomorrow := named(rankingFrom(1, 5, 1, 2, 4, 6))
	tomorrow["date"] = "2026-11-21"
	f.ranks(tomorrow)
	p.until("the next day has no arrows", arrows+" === ',,,,'")
}

// Who reaches the first three is told so, with confetti unless motion is to be reduced.
func TestCelebration(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	for _, still := range []bool{false, true} {
		t.Run(fmt.Sprint(still), func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t, false)
			f.ranks(rankingFrom(1, 2, 3, 4, 1, 5))
			p := newPage(t, phone)
			if still {
				p.reduceMotion()
			}
			p.signIn(f.URL, fakeToken())
			p.until("the code is there", "document.querySelector('.share') !== null")
			eval[any](p, `new MutationObserver(() => { if (document.querySelector('.confetti')) window.celebrated = true; }).observe(document.body, { childList: true })`)
			f.ranks(rankingFrom(1, 2, 3, 1, 4, 5))
			p.says("You are among the first three!")
			if still {
				if eval[bool](p, "window.celebrated === true") || len(p.requestsTo("celebrate")) > 0 {
					t.Error("there is confetti although motion is to be reduced")
				}
				return
			}
			p.until("there is confetti", "window.celebrated === true")
			p.until("the confetti is gone", "document.querySelector('.confetti') === null")
		})
	}
}

// The picture of a day can be shared, or saved where the browser can't share pictures.
func TestShareDay(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1, 4))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.click(".share")
	p.until("the picture is there", "document.querySelector('dialog canvas') !== null")
	const want = "3rd of 4, 89,980 steps. The first three: User 2, User 3, User 1"
	if got := eval[string](p, "document.querySelector('canvas').getAttribute('aria-label')"); got != want {
		t.Errorf("the picture is described as %q, want %q", got, want)
	}
	const colours = `(() => {
		const canvas = document.querySelector('canvas');
		const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
		return new Set(new Uint32Array(data.buffer)).size;
	})()`
	p.until("it is drawn", colours+" > 100")
	p.ignoreFaults("Canvas2D") // the browser would read a canvas faster that it is told is read often
	p.screenshot("share-390")
	eval[any](p, "HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href.slice(0, 5)].join(); }")
	p.click("dialog .strong")
	p.until("the picture is saved", "window.saved === 'stepboard-"+fakeDay+".png,blob:'")

	eval[any](p, `navigator.canShare = ({ files }) => files[0].type === 'image/png';
		navigator.share = async ({ files }) => { window.shared = [files[0].name, files[0].type, files[0].size > 10000].join(); };`)
	p.click("dialog .button")
	p.until("the picture is closed", "document.querySelector('dialog') === null")
	p.click(".share")
	p.click("dialog .strong")
	p.until("the picture is shared", "window.shared === 'stepboard-"+fakeDay+".png,image/png,true'")
}
