package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// largest is a user id of the greatest length.
var largest = strings.Repeat("W", 128)

// fillScreens lets every screen of a fake service have something to show: long names,
// a person without a name whose id is the longest, long numbers.
func (f *fakeService) fillScreens() {
	ranking := rankingFrom(19_671, 2, 3, 4, 5, 1, 6, 7, 8, 9, 10, 11, 12)
	entries := ranking["entries"].([]any)
	for i, name := range map[int]string{0: "Wilhelmina van der Westerlaken", 2: "王小明", 3: strings.Repeat("W", 64)} {
		entries[i].(map[string]any)["nickname"] = name
	}
	nameless := entries[1].(map[string]any)
	nameless["user_id"], nameless["nickname"] = largest, ""
	f.ranks(ranking)
	f.returns("GET /v1/boards/gifts/top", ranking)
	month := rankingFrom(19_671, 2, 3, 4, 5, 1, 6, 7, 8, 9, 10, 11, 12)
	month["date"], month["from"], month["to"] = nil, "2026-11-01", "2026-11-30"
	for i, e := range month["entries"].([]any) {
		e.(map[string]any)["score"] = 3_099_999 - i
		e.(map[string]any)["nickname"] = entries[i].(map[string]any)["nickname"]
	}
	f.handle("GET /v1/boards/steps/friends", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("from") {
			respond(w, http.StatusOK, month)
			return
		}
		respond(w, http.StatusOK, ranking)
	})
	days := []any{}
	for ago := range 25 {
		days = append(days, map[string]any{
			"date": fmt.Sprintf("2026-11-%02d", 20-ago%20), "score": 99_999 - 3000*ago, "global_rank": 19_671 + ago, "global_total": 301_000, "reached_at": "2026-11-20T01:00:00Z",
		})
	}
	f.returns("GET /v1/boards/steps/friends/absent", map[string]any{
		"board": "steps", "date": fakeDay, "total": 3, "entries": entries[:3], "next_cursor": nil,
	})
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": days[:20], "partial": false})
	f.returns("GET /v1/boards/steps/summary", map[string]any{
		"week": 699_993, "month": 3_099_969, "average": 99_999, "best": map[string]any{"date": fakeDay, "score": 99_999},
		"streak": map[string]any{"current": 366, "longest": 366},
	})
	friends, requests := []any{}, []any{}
	for i, e := range entries {
		friend := map[string]any{"since": "2026-10-31T23:30:00Z", "direction": "incoming"}
		for _, key := range []string{"user_id", "nickname", "avatar_url"} {
			friend[key] = e.(map[string]any)[key]
		}
		friends = append(friends, friend)
		if i < 3 {
			requests = append(requests, friend)
		}
	}
	group := map[string]any{
		"group_id": "g1", "name": strings.Repeat("W", 64), "owner_id": "1", "invite_code": "KX7WQ2M5A4TDZBNC", "members": 12,
		"member_list": entries, "next_cursor": nil, "challenge": map[string]any{"from": "2026-10-25", "to": "2026-11-24"},
	}
	f.returns("GET /v1/groups", map[string]any{"groups": []any{group}})
	f.returns("GET /v1/groups/g1", group)
	f.returns("GET /v1/group-invites/KX7WQ2M5A4TDZBNC", map[string]any{
		"group_id": "g1", "name": strings.Repeat("W", 64), "owner_id": "1", "nickname": "Wilhelmina van der Westerlaken", "avatar_url": "", "members": 12, "member": false,
	})
	f.returns("GET /v1/friends/invites/KX7WQ2M5A4TDZBNC", map[string]any{"user_id": "2", "nickname": strings.Repeat("W", 64), "avatar_url": "", "friends": false})
	f.returns("GET /v1/boards/steps/groups/g1", month)
	f.handle("GET /v1/boards/steps/groups/g1/stream", f.stream(func(*http.Request) map[string]any { return ranking }))
	teams := teamsOf(true)
	for _, team := range teams["entries"].([]any) {
		team.(map[string]any)["name"] = strings.Repeat("W", 64)
	}
	competition := competitionOf("final", map[string]any{"rank": 19_671, "score": 3_099_999, "days": 9, "group_id": "g1"}, teams["entries"].([]any)[1])
	competition["name"] = strings.Repeat("W", 64)
	f.returns("GET /v1/competitions", map[string]any{"competitions": []any{competition}})
	f.returns("GET /v1/competitions/spring", competition)
	f.returns("GET /v1/competitions/spring/teams", teams)
	f.returns("GET /v1/muted", map[string]any{"users": entries[:3], "next_cursor": nil})
	f.returns("GET /v1/friends", map[string]any{"friends": friends, "next_cursor": nil})
	f.returns("GET /v1/friends/requests", map[string]any{"requests": requests})
	f.returns("GET /v1/me", map[string]any{"user_id": "1", "nickname": "Wilhelmina van der Westerlaken", "avatar_url": ""})
}

// The page grows with the reader's letters. In windows from 320 pixels on, on phones on
// their side, and with letters of twice the size, names stay readable and nothing is cut.
func TestSizes(t *testing.T) {
	t.Parallel()
	screens := []struct{ name, hash, ready string }{
		{"today", "#/", rankingShown},
		{"week", "#/week", rankingShown},
		{"month", "#/month", rankingShown},
		{"challenge", "#/groups/g1/challenge", "document.querySelector('.about .pill') !== null && " + rankingShown},
		{"boards", "#/boards/gifts/top", "document.querySelector('.about') !== null && " + rankingShown},
		{"history", "#/history", "document.querySelector('.plot canvas') !== null && document.querySelector('.streak b') !== null"},
		{"groups", "#/groups", "document.querySelector('a.inside') !== null"},
		{"group", "#/groups/g1", rankingShown},
		{"competition", "#/groups/g1/competition/spring", "document.querySelector('.champion') !== null && " + rankingShown},
		{"members", "#/groups/g1/members", "document.querySelector('#rename') !== null && document.querySelectorAll('.person').length > 3"},
		{"friends", "#/friends", "document.querySelectorAll('a.inside').length > 0 && document.querySelector('.person-actions') !== null"},
		{"profile", "#/me", "document.querySelector('#nickname') !== null && document.querySelectorAll('.privacy .person').length === 3"},
	}
	letters := []int64{16, 20, 24, 32} // pixels
	f := newFakeService(t, false)
	f.fillScreens()
	p := newPage(t, phone)
	p.reduceMotion()
	p.open(f.URL)
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	for _, pixels := range letters {
		p.setLetters(pixels)
		p.until("text grows", fmt.Sprintf("getComputedStyle(document.querySelector('.sign-in > p')).fontSize === '%dpx'", pixels))
		p.screenshot(fmt.Sprintf("sign-in-390-letters-%d", pixels))
	}
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	type form struct {
		screen struct{ name, hash, ready string }
		look
		letters int64
	}
	var forms []form
	for _, s := range screens {
		for _, language := range []string{"en", "zh-CN"} {
			for i, v := range []viewport{narrow, phone, sideways, {width: 640, height: 400}, desktop} {
				v.dark = i%2 == 1
				for _, pixels := range letters {
					forms = append(forms, form{s, look{v, language}, pixels})
				}
			}
		}
	}
	shown := ""
	for _, form := range testenv.Forms(t, 2*len(screens), forms) {
		s := form.screen
		if shown != s.name {
			p.goTo(s.hash)
			p.until(s.name, s.ready)
			shown = s.name
		}
		p.speak(form.language)
		p.emulate(form.viewport)
		p.until("the window has its size", fmt.Sprintf("document.documentElement.clientWidth === %d", form.width))
		p.setLetters(form.letters)
		p.until("text has its size", fmt.Sprintf("getComputedStyle(document.documentElement).fontSize === '%dpx'", form.letters))
		where := fmt.Sprintf("%s-%dx%d-letters-%d-%s", s.name, form.width, form.height, form.letters, form.language)
		p.checkLayout(where)
		p.checkNames(where, form.letters)
		if eval[bool](p, `[...document.querySelectorAll('.tabs a .badge')].some((badge) => {
			const [text, box] = [badge.parentElement.querySelector('.icon + span'), badge].map((e) => e.getBoundingClientRect());
			return box.left < text.right && box.right > text.left && box.top < text.bottom && box.bottom > text.top;
		})`) {
			t.Errorf("%s: a badge covers the name of its tab", where)
		}
		rows := eval[int](p, "[...document.querySelectorAll('.ranking > li')].filter((e) => e.getBoundingClientRect().bottom <= innerHeight).length")
		if form.viewport == sideways && form.letters == 16 && (s.name == "today" || s.name == "boards") && rows < 3 {
			t.Errorf("%s shows %d rows", where, rows)
		}
		p.screenshot("size-" + where)
	}
}

// setLetters changes the browser's default font size.
func (p *page) setLetters(pixels int64) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, cdppage.SetFontSizes, cdppage.SetFontSizesParams{FontSizes: &cdppage.FontSizes{Standard: pixels}})
	p.must(err)
}

// checkNames checks that each name has room for some letters, and that what is cut is
// cut on purpose, with an ellipsis.
func (p *page) checkNames(where string, pixels int64) {
	p.t.Helper()
	if short := eval[[]string](p, fmt.Sprintf(`[...document.querySelectorAll('main .name')].filter((e) =>
		e.scrollWidth > e.clientWidth && e.clientWidth < 4 * %d).map((e) => e.textContent.slice(0, 20) + ' ' + e.clientWidth)`, pixels)); len(short) > 0 {
		p.t.Errorf("%s: names are cut to %q", where, short)
	}
	if cut := eval[[]string](p, `[...document.querySelectorAll('main *, header *')].filter((e) => {
		const style = getComputedStyle(e);
		return !e.matches('.columns, .wide-column, .page, .crowned, input') && !e.closest('.visually-hidden, .plot, .strip, .chips, .picker, svg, select, .name') && e.clientWidth > 0 && style.display !== 'inline' && e.scrollWidth > e.clientWidth + 1;
	}).map((e) => e.tagName + '.' + e.className + ' ' + e.scrollWidth + '>' + e.clientWidth)`); len(cut) > 0 {
		p.t.Errorf("%s: contents are wider than their box: %q", where, cut)
	}
}
