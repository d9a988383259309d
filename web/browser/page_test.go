package browser

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// Numbers of any length stay on one line, with names beside them.
func TestLongRanks(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(19_671, 2, 3, 1, 4))
	f.returns("GET /v1/boards/steps/around", rankingFrom(1_234_567, 2, 3, 1, 4))
	p := newPage(t, viewport{width: 320, height: 640})
	p.signIn(f.URL, fakeToken())
	for _, hash := range []string{"#/", "#/boards/steps/around"} {
		p.goTo(hash)
		p.until("the ranking is there", rankingShown)
		p.checkLayout(hash)
		if bad := eval[[]string](p, `[...document.querySelectorAll('.row .rank, .row .score')].filter((e) => {
			const text = document.createRange();
			text.selectNodeContents(e);
			const lines = new Set([...text.getClientRects()].map((r) => r.top));
			return lines.size !== 1 || e.matches('.rank') && text.getBoundingClientRect().right > e.closest('.row').querySelector('.who').getBoundingClientRect().left;
		}).map((e) => e.textContent)`); len(bad) > 0 {
			t.Errorf("%s: %q break or overlap", hash, bad)
		}
		if narrow := eval[float64](p, "Math.min(...[...document.querySelectorAll('.row .name')].map((e) => e.getBoundingClientRect().width))"); narrow < 40 {
			t.Errorf("%s: a name has %.0f pixels", hash, narrow)
		}
	}
	p.screenshot("long-ranks-320")
}

// A tab that is open while the demo restarts goes on with new tokens.
func TestDemoRestarts(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, true)
	token := atomic.Pointer[string]{}
	// restart gives new tokens to the people of the demo.
	restart := func(generation string) {
		bearer := "Bearer " + fakeToken() + generation
		token.Store(&bearer)
		person := func(id string) map[string]any {
			return map[string]any{"user_id": id, "nickname": "User " + id, "token": strings.TrimPrefix(bearer, "Bearer ")}
		}
		f.returns("GET /demo/people", map[string]any{"people": []any{person("4"), person("1")}})
	}
	restart("a")
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.checks(func(r *http.Request) bool {
		return !strings.HasPrefix(r.URL.Path, "/v1/") || r.Header.Get("Authorization") == *token.Load()
	})
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the ranking is there", rankingShown)
	p.switchTo("1")
	p.until("the visitor is user 1", "document.querySelector('.switch select')?.value === '1' && "+rankingShown)

	f.refuses("GET /demo/people", http.StatusServiceUnavailable, "unavailable")
	bearer := "Bearer of the next generation"
	token.Store(&bearer)
	f.ranks(rankingFrom(1, 2, 3, 4, 1)) // ends the stream
	testenv.Eventually(t, "the page asks for new tokens", func() bool { return len(p.requestsTo("/demo/people")) > 1 })
	restart("b")
	p.until("the new ranking is there", "document.querySelectorAll('.ranking > li').length === 4")
	p.until("the visitor is still user 1", "document.querySelector('.switch select').value === '1'")
	p.ignoreFaults("401")
	p.ignoreFaults("503")
}

// A stream whose token has expired goes on with a new token.
func TestTokenExpiresInAStream(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, true)
	gives := func(token string) {
		person := map[string]any{"user_id": "1", "nickname": "User 1", "token": token}
		f.returns("GET /demo/people", map[string]any{"people": []any{person}})
	}
	gives(fakeToken())
	before := f.stream(func(*http.Request) map[string]any { return rankingFrom(1, 2, 3, 1) })
	after := f.stream(func(*http.Request) map[string]any { return rankingFrom(1, 2, 3, 4, 1) })
	f.handle("GET /v1/boards/steps/friends/stream", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+fakeToken() {
			after(w, r)
			return
		}
		before(w, r)
		_, _ = fmt.Fprint(w, "event: error\ndata: {\"status\":401,\"code\":\"unauthenticated\"}\n\n")
	})
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the ranking is there", rankingShown)
	gives(fakeToken() + "new") // ends the stream
	p.until("the new ranking is there", "document.querySelectorAll('.ranking > li').length === 4")
}

// A broken address shows a message, and the page goes on from there.
func TestBrokenAddresses(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	for _, hash := range []string{"#/day/rubbish", "#/day/2026-02-30", "#/day/%", "#/day", "#/%E0%A4%A", "#/history/%", "#/boards/%/%", "#/__proto__"} {
		p.goTo(hash)
		p.until(hash+" shows something", "document.querySelector('main .notice, .ranking .row') !== null && document.querySelector('.tabs') !== null")
		p.goTo("#/")
		p.until("today is there again", rankingShown)
	}
	// What can't be drawn is replaced by a message until another screen is opened.
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{map[string]any{"date": "rubbish"}}})
	p.goTo("#/history")
	p.until("a message is shown", "document.querySelector('main .notice') !== null && document.querySelector('.tabs') !== null")
	p.goTo("#/")
	p.until("today is there again", rankingShown)
	p.ignoreFaults("404")
}

// Errors are shown in the visitor's language, never in the API's words.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	for _, language := range []string{"en-US", "zh-CN"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t, false)
			f.ranks(rankingFrom(1, 2, 3, 1))
			p := newPage(t, viewport{width: 390, height: 844, language: language})
			p.signIn(f.URL, fakeToken())
			p.until("the ranking is there", rankingShown)
			p.goTo("#/friends")
			ask := func(number, code string) string {
				t.Helper()
				p.until("the form is there", "document.querySelector('#ask') !== null")
				eval[any](p, "document.querySelector('#ask').value = ''")
				p.typeIn("#ask", number)
				p.until("the last error is gone", "document.querySelector('#ask-wrong').textContent === ''")
				p.click("form.ask .strong")
				p.until("an error is shown for "+code, "document.querySelector('#ask-wrong').textContent !== ''")
				text := eval[string](p, "document.querySelector('#ask-wrong').textContent")
				if strings.Contains(text, rawDetail) || language == "zh-CN" != regexp.MustCompile(`\p{Han}`).MatchString(text) {
					t.Errorf("%s shows %q", code, text)
				}
				return text
			}
			own := ask("1", "one's own number")
			texts := map[string]string{own: "one's own number"}
			for _, e := range []struct {
				status int
				code   models.Code
			}{
				{422, models.CodeValidationFailed},
				{400, models.CodeInvalidRequest},
				{404, models.CodeUserNotFound},
				{409, models.CodeFriendLimit},
				{403, models.CodeForbidden},
				{408, models.CodeRequestTimeout},
				{422, models.CodeDateClosed},
				{422, models.CodeDateInFuture},
				{422, models.CodeScoreOutOfRange},
				{429, models.CodeRateLimited},
				{429, models.CodeRequestLimit},
				{503, models.CodeUnavailable},
				{418, "a_new_code"},
			} {
				f.refuses("POST /v1/friends/requests", e.status, string(e.code))
				text := ask("2", string(e.code))
				if other, ok := texts[text]; ok {
					t.Errorf("%s and %s are both %q", other, e.code, text)
				}
				texts[text] = string(e.code)
			}
			p.ignoreFaults("status of")
			// A screen that can't be loaded says why.
			f.refuses("GET /v1/boards/steps/friends", 422, "date_in_future")
			p.goTo("#/day/2030-01-01")
			p.until("a message is shown", "document.querySelector('main .notice') !== null")
			if text := eval[string](p, "document.body.textContent"); strings.Contains(text, rawDetail) {
				t.Errorf("the page shows %q", text)
			}
			p.ignoreFaults("status of")
		})
	}
}

// longList lets friends of the board steps be in this order, in pages.
func (f *fakeService) longList(users []int) {
	page := func(r *http.Request) map[string]any {
		first, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		last := min(first+limit, len(users))
		ranking := rankingFrom(first+1, users[first:last]...)
		ranking["total"] = len(users)
		if last < len(users) {
			ranking["next_cursor"] = strconv.Itoa(last)
		}
		return ranking
	}
	f.handle("GET /v1/boards/steps/friends", func(w http.ResponseWriter, r *http.Request) { respond(w, http.StatusOK, page(r)) })
	f.handle("GET /v1/boards/steps/friends/stream", f.stream(page))
}

// A list of several pages follows all changes and loses nobody, and Back finds it
// where it was.
func TestLongList(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	users := make([]int, 450)
	for i := range users {
		users[i] = i + 1
	}
	f.longList(users)
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	shows := func(what string) {
		t.Helper()
		want := fmt.Sprint(users)
		testenv.Eventually(t, what, func() bool {
			shown := []string{}
			for _, row := range p.rows() {
				shown = append(shown, row.User)
			}
			return fmt.Sprint(shown) == want
		})
	}
	for _, n := range []int{100, 200, 400, 450} {
		p.click(".more")
		p.until("the list is longer", "document.querySelectorAll('.ranking > li').length === "+strconv.Itoa(n))
	}
	shows("all pages are there")
	// Somebody moves within the last page, and two change pages.
	users = slices.Clone(users)
	users[420], users[440] = users[440], users[420]
	users[100], users[300] = users[300], users[100]
	f.longList(users)
	shows("all pages are the new ones")

	eval[any](p, `document.querySelector('.ranking li[data-user="140"]').scrollIntoView({ block: 'center' })`)
	p.click(`.ranking li[data-user="140"] a`)
	p.until("the history is there", "location.hash === '#/history/140' && document.querySelector('main h1') !== null && scrollY === 0")
	eval[any](p, "history.back()")
	// What arrives late above the list changes scrollY, and not what is in sight.
	p.until("the list is where it was", "location.hash !== '#/history/140' && "+rankingShown+` && (() => {
		const row = document.querySelector('.ranking li[data-user="140"]')?.getBoundingClientRect();
		return row !== undefined && row.top >= 0 && row.bottom <= innerHeight;
	})()`)
	shows("all pages are there again")
}

// A board says how old it is while the service fails, and calls wait for as long as
// the service asks.
func TestOldBoard(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.returns("GET /v1/boards/steps/top", rankingFrom(1, 2, 3, 1))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.goTo("#/boards/steps/top")
	p.until("the board is there", "document.querySelector('.segments') !== null && "+rankingShown)
	eval[any](p, `(() => { const set = setTimeout; window.delays = []; window.setTimeout = (f, ms) => { delays.push(ms); return set(f, ms); }; })()`)
	f.handle("GET /v1/boards/steps/top", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		refuse(w, http.StatusServiceUnavailable, "unavailable")
	})
	p.until("the board says that it is old", "document.querySelector('.banner') !== null && "+rankingShown)
	p.until("the page waits for an hour", "delays.includes(3600000)")
	p.screenshot("old-board-390")
	p.ignoreFaults("503")
}

// A friend's name is shown on an address that was opened directly, and people can see their own
// number. The day since when two people are friends is the one in the board's time zone.
func TestNamesAndNumbers(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	friend := entry(10, 1, 1)
	friend["since"] = "2026-10-31T23:30:00.000Z" // in Shanghai it is the next day
	f.returns("GET /v1/friends", map[string]any{"friends": []any{friend}, "next_cursor": nil})
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/history/10", fakeToken())
	p.until("the friend's name is there", "document.querySelector('h1 .name')?.textContent === 'User 10'")
	p.goTo("#/friends")
	p.until("the own number is there", "document.querySelector('.ask .hint b')?.textContent === '1'")
	p.until("the day of the friendship is there", "document.querySelector('.since')?.textContent === 'Friends since Nov 1'")
	p.screenshot("own-number-390")

	// Pictures tell people without a name apart.
	requests := []any{}
	for _, user := range []int{1001, 2001} {
		request := entry(user, 1, 1)
		request["nickname"], request["direction"] = "", "incoming"
		requests = append(requests, request)
	}
	f.returns("GET /v1/friends/requests", map[string]any{"requests": requests})
	p.goTo("#/groups")
	p.goTo("#/friends")
	const pictures = "[...document.querySelectorAll('.person-actions')].map((e) => e.parentElement.querySelector('.avatar').textContent.trim()).join()"
	p.until("both requests are there", pictures+" === '1001,2001'")
	same, _ := ask[[]string](p, `import(document.querySelector('script').src.replace('app.js', 'components.js')).then(({ initials, avatarHue }) => {
		const ids = Array.from({ length: 1000 }, (_, i) => [String(1000 + i), String(20_000 + i), 'user-' + i]).flat();
		const pictures = ids.map((id) => initials('', id) + ' ' + avatarHue(id));
		return pictures.filter((picture, i) => pictures.indexOf(picture) !== i);
	})`)
	if len(same) > 0 {
		t.Errorf("of 3,000 people %d have the picture of another one: %q", len(same), same)
	}
}

// Who rises is drawn above those who are passed, and the viewer's row says how many
// they were, also where it sticks to the edge of the screen.
func TestOvertaking(t *testing.T) {
	t.Parallel()
	f := newFakeDemo(t)
	f.ranks(rankingFrom(1, 2, 3, 4, 5, 6, 7, 1))
	p := newPage(t, desktop)
	p.open(f.URL)
	p.until("the ranking is there", "document.querySelectorAll('.ranking > li').length === 7")
	// Animations stand still, so that they can be looked at.
	eval[any](p, `(() => {
		const animate = Element.prototype.animate;
		Element.prototype.animate = function (...how) { const a = animate.apply(this, how); a.pause(); return a; };
	})()`)
	f.ranks(rankingFrom(1, 2, 7, 3, 1, 4, 5, 6))
	p.until("the row says how many were passed", "document.querySelector('.own .passed')?.textContent === '▲ 3 passed'")
	if eval[bool](p, "(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)(document.querySelector('.own .name'))") {
		t.Error("the viewer's name is cut")
	}
	hidden := eval[[]string](p, `[50, 100, 150, 200, 300].flatMap((time) => {
		document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.currentTime = time; });
		return ['7', '1'].filter((user) => {
			const row = document.querySelector('.ranking [data-user="' + user + '"]');
			const box = row.getBoundingClientRect();
			return [0.1, 0.5, 0.9].some((part) => !row.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height * part)));
		}).map((user) => user + ' at ' + time);
	})`)
	// User 7 rises above everybody but the viewer.
	if len(hidden) > 0 {
		t.Errorf("rows that rise are hidden: %q", hidden)
	}
	eval[any](p, "document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.currentTime = 110; })")
	p.screenshot("overtaking-1280")
	eval[any](p, "document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.finish(); })")

	// On a phone the row sticks to the lower edge.
	p.emulate(phone)
	users := []int{}
	for user := 2; user < 40; user++ {
		users = append(users, user)
	}
	f.ranks(rankingFrom(1, append(slices.Clone(users), 1)...))
	p.until("the viewer is far down", "document.querySelector('.own .rank')?.textContent === '39'")
	eval[any](p, "scrollTo(0, 500)")
	eval[any](p, "document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.finish(); })")
	f.ranks(rankingFrom(1, append(slices.Clone(users[:30]), append([]int{1}, users[30:]...)...)...))
	p.until("the row says how many were passed", "document.querySelector('.own .passed')?.textContent === '▲ 8 passed'")
	p.until("the row moves where it sticks", "document.querySelector('.own').getAnimations().length === 1")
	type box struct{ Top, Bottom float64 }
	own := eval[box](p, "(({ top, bottom }) => ({ Top: top, Bottom: bottom }))(document.querySelector('.own').getBoundingClientRect())")
	if toast := eval[float64](p, "document.querySelector('.message').getBoundingClientRect().bottom"); toast > own.Top || own.Bottom > 844 {
		t.Errorf("a toast ends at %.0f, the row is at %+v", toast, own)
	}
	p.screenshot("overtaking-390")
}

// Every decision about a friend is confirmed in words, and the keyboard goes on from
// the heading of the screen. Text fields have an edge that can be seen.
func TestFriendDecisions(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	friend := entry(10, 1, 1)
	friend["since"] = "2026-01-01T00:00:00Z"
	f.returns("GET /v1/friends", map[string]any{"friends": []any{friend}, "next_cursor": nil})
	requests := []any{}
	for user, direction := range map[int]string{11: "incoming", 12: "incoming", 13: "outgoing"} {
		request := entry(user, 1, 1)
		request["direction"] = direction
		if direction == "outgoing" {
			request["nickname"] = ""
		}
		requests = append(requests, request)
	}
	f.returns("GET /v1/friends/requests", map[string]any{"requests": requests})
	for _, call := range []string{"POST /v1/friends/requests/11/accept", "DELETE /v1/friends/requests/12", "DELETE /v1/friends/requests/13", "DELETE /v1/friends/10"} {
		f.returns(call, map[string]any{})
	}
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.goTo("#/friends")
	p.until("one friend is counted", "document.querySelector('.list-head h2') !== null && [...document.querySelectorAll('h2')].some((e) => e.textContent === '1 friend')")
	const outgoing = "document.querySelector('section[aria-label=\"Your requests\"] .who')?.textContent.trim()"
	p.until("a request without a name shows the user id, once", outgoing+" === '#13'")
	for _, decision := range []struct{ label, text string }{
		{"Accept: User 11", "You and User 11 are friends now."},
		{"Decline: User 12", "The request of User 12 is declined."},
		{"Withdraw: #13", "The request to #13 is withdrawn."},
		{"", "User 10 is removed."},
	} {
		if decision.label == "" { // in the friend's menu
			p.click(".person .round")
			p.click("[data-action=remove]")
			p.click("dialog .danger")
		} else {
			p.click(`button[aria-label="` + decision.label + `"]`)
		}
		p.until("the page says: "+decision.text, "document.querySelector('.message').textContent === '"+decision.text+"'")
		p.until("the heading has the focus", "document.activeElement.matches('main h1')")
	}
	for _, dark := range []bool{false, true} {
		p.emulate(viewport{width: 390, height: 844, dark: dark})
		contrast := eval[float64](p, `(() => {
			const light = (color) => color.match(/\d+/g).slice(0, 3).map((n) => n / 255).map((n) => (n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4)).reduce((sum, n, i) => sum + n * [0.2126, 0.7152, 0.0722][i], 0);
			const style = getComputedStyle(document.querySelector('#ask'));
			const [a, b] = [style.borderTopColor, style.backgroundColor].map(light).sort((x, y) => y - x);
			return style.borderTopColor.startsWith('rgba') ? 1 : (a + 0.05) / (b + 0.05);
		})()`)
		if contrast < 3 {
			t.Errorf("the edge of a text field has contrast %.2f, want 3 (dark: %v)", contrast, dark)
		}
		p.screenshot(fmt.Sprintf("decisions-390-dark-%v", dark))
	}
}

// The keyboard reaches the navigation before the rows, and no row with the focus is
// behind the viewer's row.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	users := []int{}
	for user := 40; user > 0; user-- {
		users = append(users, user)
	}
	f.ranks(rankingFrom(1, users...))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	if !eval[bool](p, "(document.querySelector('.tabs').compareDocumentPosition(document.querySelector('main')) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0") {
		t.Error("the navigation comes after the rows")
	}
	hidden := eval[[]string](p, `[...document.querySelectorAll('.ranking > li:not(.own) > a')].filter((row) => {
		row.focus();
		return row.getBoundingClientRect().bottom > document.querySelector('.own').getBoundingClientRect().top + 0.5;
	}).map((row) => row.parentElement.dataset.user)`)
	if len(hidden) > 0 {
		t.Errorf("rows with the focus are behind the viewer's row: %q", hidden)
	}
}

// The bars of a list are of one length, however many digits the scores have.
func TestBars(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	ranking := rankingFrom(1, 2, 3, 1, 4, 5)
	for i, score := range []int{10_136, 9_577, 111, 9, 0} {
		ranking["entries"].([]any)[i].(map[string]any)["score"] = score
	}
	f.ranks(ranking)
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	for _, v := range []viewport{narrow, phone, desktop} {
		p.emulate(v)
		p.until("the window has its size", fmt.Sprintf("document.documentElement.clientWidth === %d", v.width))
		boxes := eval[[]string](p, `[...document.querySelectorAll('.row .bar')].map((bar) => {
			const { left, right } = bar.getBoundingClientRect();
			return Math.round(left) + ' to ' + Math.round(right);
		})`)
		if len(slices.Compact(boxes)) != 1 {
			t.Errorf("at %d pixels, bars are from %q", v.width, boxes)
		}
	}
	p.screenshot("bars-1280")
}

// With large letters the viewer's heart stays in the viewer's row.
func TestHeartInLargeLetters(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.daysOf(rankingFrom(1, 2, 3, 1, 4), past(2, 1))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the heart is there", "document.querySelector('.own .heart') !== null")
	p.setLetters(32)
	p.until("text has its size", "getComputedStyle(document.documentElement).fontSize === '32px'")
	if !eval[bool](p, `(() => {
		const [row, heart] = ['.own', '.own .heart'].map((e) => document.querySelector(e).getBoundingClientRect());
		return heart.top >= row.top - 1 && heart.bottom <= row.bottom + 1;
	})()`) {
		t.Error("the viewer's heart is outside of the viewer's row")
	}
}
