package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
)

// screen is a screen of the page or of the console.
type screen struct {
	name  string
	hash  string   // its address
	ready string   // what is true once it is shown
	open  []string // the buttons that open its dialog, one after the other
}

const (
	dialogShown = "document.querySelector('dialog[open]') !== null"
	peopleShown = "document.querySelectorAll('.person .round').length > 0"
)

// screensOf returns the screens of the page as the first person of a demo sees them.
func screensOf(t *testing.T, base string, me person) []screen {
	t.Helper()
	day := daysAgo(t, *rankingOf(t, base, me.Token, "").Date, 6)
	groups := groupsOf(t, base, me.Token)
	group := "#/groups/" + groups["Walkers"].GroupID
	family := "#/groups/" + groups["Family"].GroupID
	// Somebody else invites the first person, as a friend and to a group.
	var others struct{ People []person }
	callAPI(t, "", http.MethodGet, base+"/demo/people", nil, &others)
	other := others.People[len(others.People)-1].Token
	var friend struct {
		InviteCode string `json:"invite_code"`
	}
	callAPI(t, other, http.MethodGet, base+"/v1/me/invite", nil, &friend)
	var made groupAnswer
	callAPI(t, other, http.MethodPost, base+"/v1/groups", map[string]string{"name": "Readers"}, &made)
	ownHeart := "document.querySelector('.ranking .own .heart') !== null"
	profile := "!!document.querySelector('#nickname')?.value && document.querySelectorAll('.privacy .person').length > 0"
	members := "document.querySelectorAll('.person').length > 3"
	webhooks := "['friend.requested', 'like.given', 'board.final'].every((type) => [...document.querySelectorAll('.webhook b')].some((e) => e.textContent === type))"
	return []screen{
		{name: "today", hash: "#/", ready: rankingShown + " && " + ownHeart},
		{name: "likers", hash: "#/", ready: ownHeart, open: []string{".ranking .own .heart"}},
		{name: "share", hash: "#/", ready: "document.querySelector('.share') !== null", open: []string{".share"}},
		{name: "why", hash: "#/", ready: "document.querySelector('.why') !== null", open: []string{".why"}},
		{name: "add", hash: "#/", ready: addShown, open: []string{"[data-action=add]"}},
		{name: "day", hash: "#/day/" + day, ready: "document.querySelector('.hero .pill.final') !== null && " + rankingShown},
		{name: "week", hash: "#/week", ready: rankingShown},
		{name: "month", hash: "#/month", ready: rankingShown},
		{name: "history", hash: "#/history", ready: "document.querySelector('.plot canvas') !== null && document.querySelector('.streak b') !== null"},
		{name: "event", hash: "#/boards/gifts/top", ready: "document.querySelector('.about') !== null && " + rankingShown},
		{name: "rolling", hash: "#/boards/active-24h/around", ready: "document.querySelector('.about') !== null && " + rankingShown},
		{name: "groups", hash: "#/groups", ready: "document.querySelectorAll('a.inside').length > 0"},
		{name: "group", hash: group, ready: rankingShown},
		{name: "challenge", hash: group + "/challenge", ready: rankingShown},
		{name: "competing", hash: family, ready: "document.querySelector('a.about') !== null && " + rankingShown},
		{name: "competition", hash: family + "/competition/spring-walk", ready: "document.querySelector('.hero .score-big') !== null && " + rankingShown},
		{name: "competitors", hash: family + "/competition/spring-walk/individuals", ready: "document.querySelectorAll('.ranking > li').length > 3"},
		{name: "members", hash: group + "/members", ready: members},
		{name: "owner", hash: family + "/members", ready: "document.querySelector('.chip') !== null && " + members},
		{name: "leave", hash: group + "/members", ready: members, open: []string{"main .page > .buttons .button:first-child"}},
		{name: "invite", hash: "#/invite/" + friend.InviteCode, ready: "document.querySelector('main .strong') !== null"},
		{name: "invitation", hash: "#/join/" + made.InviteCode, ready: "document.querySelector('main .strong') !== null"},
		{name: "friends", hash: "#/friends", ready: peopleShown},
		{name: "friend-menu", hash: "#/friends", ready: peopleShown, open: []string{".person .round"}},
		{name: "friend-remove", hash: "#/friends", ready: peopleShown, open: []string{".person .round", "[data-action=remove]"}},
		{name: "profile", hash: "#/me", ready: profile},
		{name: "phones", hash: "#/me/phones", ready: "document.querySelectorAll('.how li').length === 12"},
		{name: "delete", hash: "#/me", ready: profile, open: []string{"#delete"}},
		{name: "webhooks", hash: "#/webhooks", ready: webhooks},
		{name: "missing", hash: "#/day/rubbish", ready: "document.querySelector('main .notice') !== null"},
	}
}

// screens returns the screens of the console.
func (c *console) screens() []screen {
	c.t.Helper()
	day := daysAgo(c.t, *rankingOf(c.t, c.base, c.people[0].Token, "").Date, 9)
	user := "#/users/" + url.PathEscape(c.people[0].UserID)
	screens := []screen{
		{name: "overview", hash: "#/", ready: overviewShown},
		{name: "boards", hash: "#/boards", ready: "document.querySelectorAll('.board').length > 3"},
		{name: "define", hash: "#/boards", ready: "document.querySelectorAll('.board').length > 3", open: []string{"[data-action=define]"}},
		{name: "board", hash: "#/boards/steps", ready: boardShown},
		{name: "day", hash: "#/boards/steps/" + day, ready: listShown},
		{name: "archive", hash: "#/boards/steps/" + day, ready: listShown, open: []string{".panel > .buttons [data-action=archive]"}},
		{name: "event", hash: "#/boards/gifts", ready: "document.querySelectorAll('.facts').length === 2"},
		{name: "competitions", hash: "#/competitions", ready: listShown},
		{name: "defineCompetition", hash: "#/competitions", ready: listShown, open: []string{"[data-action=defineCompetition]"}},
		{name: "competition", hash: "#/competitions/spring-walk", ready: standingShown},
		{name: "users", hash: "#/users", ready: "document.querySelector('#user') !== null"},
		{name: "nobody", hash: "#/users/named/nobody", ready: "document.querySelector('.empty') !== null"},
		{name: "named", hash: "#/users/named/" + url.PathEscape(string([]rune(c.people[0].Nickname)[:1])), ready: listShown},
		{name: "user", hash: user, ready: userShown},
		{name: "correct", hash: user, ready: userShown, open: []string{"[data-action=correct]"}},
		{name: "erase", hash: user, ready: userShown, open: []string{"[data-action=erase]"}},
	}
	screens = append(screens, screen{name: "deliveries", hash: "#/deliveries/state=delivered", ready: listShown})
	for _, name := range []string{"deadLetters", "corrections", "reviews", "holds", "runs", "erasures", "audit"} {
		screens = append(screens, screen{name: name, hash: "#/" + name, ready: listShown})
	}
	for _, s := range []screen{
		{name: "deadLetters", open: []string{"removeAll"}}, {name: "corrections", open: []string{"lift"}}, {name: "reviews", open: []string{"dismiss"}},
	} {
		screens = append(screens, screen{
			name: s.open[0], hash: "#/" + s.name, ready: listShown + " && document.querySelector('[data-action=" + s.open[0] + "]') !== null",
			open: []string{"[data-action=" + s.open[0] + "]"},
		})
	}
	return screens
}

// showScreen opens a screen and its dialog. Nothing that comes later, such as a card above
// a list, moves what is shown.
func (p *page) showScreen(s screen) {
	p.t.Helper()
	p.goTo(s.hash)
	p.until(s.name, s.ready)
	p.waitForAnswers()
	p.openDialog(s)
}

// openDialog opens the dialog of a screen by the keyboard, if it has one.
func (p *page) openDialog(s screen) {
	p.t.Helper()
	for _, button := range s.open {
		p.until(button+" is there", fmt.Sprintf("document.querySelector(%q) !== null", button))
		eval[any](p, fmt.Sprintf("document.querySelector(%q).focus()", button))
		p.press(kb.Enter)
		p.until("the dialog of "+button, dialogShown)
	}
}

// leaveDialog closes the dialog of a screen by the keyboard, and checks that the button that
// opened it has the focus again.
func (p *page) leaveDialog(s screen) {
	p.t.Helper()
	if len(s.open) == 0 {
		return
	}
	p.press(kb.Escape)
	p.until("the dialog of "+s.name+" is closed", dialogClosed)
	if !eval[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", s.open[0])) {
		p.t.Errorf("%s: after the dialog %s has the focus", s.name, eval[string](p, "document.activeElement.outerHTML.slice(0, 80)"))
	}
}

// look is how a screen is looked at.
type look struct {
	viewport
	language string
}

// looks returns the ways in which screens are looked at: on a phone and on a desktop, in English and in Chinese,
// light and dark.
func looks() (all []look) {
	for _, v := range []viewport{{width: 360, height: 740}, desktop} {
		for _, language := range []string{"en", "zh-CN"} {
			for _, dark := range []bool{false, true} {
				v.dark = dark
				all = append(all, look{v, language})
			}
		}
	}
	return all
}

// walk checks every screen: its layout, its language, and what an accessibility checker finds. A screen is opened
// once a size; language and colours change in place, except that a dialog covers the button for the language.
func (p *page) walk(screens []screen, prefix string) {
	p.t.Helper()
	all := looks()
	for i, s := range screens {
		var shown look
		turn := i % len(all) // so that the few looks at one screen are not those at the next one
		for n, l := range testenv.Forms(p.t, 1, slices.Concat(all[turn:], all[:turn])) {
			switch {
			case l.width != shown.width:
				if shown.width > 0 {
					p.leaveDialog(s)
				}
				p.emulate(l.viewport)
				p.speak(l.language)
				p.showScreen(s)
			case l.language != shown.language:
				p.leaveDialog(s)
				p.speak(l.language)
				p.openDialog(s)
			}
			shown = l
			p.emulate(l.viewport)
			p.until("the window has its size", "innerWidth === "+strconv.Itoa(int(l.width)))
			where := fmt.Sprintf("%s%s-%d-%s", prefix, s.name, l.width, l.language[:2])
			p.checkLayout(where)
			var rules []string // all of them
			if l.dark {
				where += "-dark"
				if n > 0 {
					rules = append(rules, "color-contrast")
				}
			}
			p.checkAccess(where, rules...)
			p.screenshot(where)
			p.checkLanguage(prefix+s.name, l.language)
		}
		p.leaveDialog(s)
	}
}

// checkLanguage checks that no text that the page shows or has for screen readers is of the
// other language. Names, ids and what the API calls something are of no language.
func (p *page) checkLanguage(where, language string) {
	p.t.Helper()
	wrong := "!/\\p{Script=Han}|^https:/u.test(text) && /[a-z]{3}/i.test(text)"
	if language != "zh-CN" {
		wrong = "/\\p{Script=Han}/u.test(text)"
	}
	found := eval[[]string](p, `(() => {
		const plain = 'bdi, code, option, .avatar, .name, .webhook, td:not(.row-actions), dd';
		const texts = [];
		for (const e of document.querySelectorAll('body *')) {
			if (!e.checkVisibility() || e.closest('svg, script, noscript, .language, .brand')) continue;
			for (const name of ['aria-label', 'placeholder', 'alt']) if (e.hasAttribute(name)) texts.push([e, e.getAttribute(name)]);
			if (e.matches('.state') || !e.closest(plain)) for (const n of e.childNodes) if (n.nodeType === 3) texts.push([e, n.data]);
		}
		return texts.filter(([, text]) => `+wrong+`).map(([e, text]) => e.tagName + '.' + e.className + ': ' + text.trim());
	})()`)
	if len(found) > 0 {
		p.t.Errorf("%s in %s shows\n%s", where, language, strings.Join(found, "\n"))
	}
}

// focusStop says what is wrong with what has the focus, and how many controls are left.
const focusStop = `(() => {
	const e = document.activeElement;
	const dialog = document.querySelector('dialog[open]');
	controls.delete(e);
	let wrong = '';
	if (e !== document.body) {
		const style = getComputedStyle(e);
		const box = e.getBoundingClientRect();
		const seen = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, innerHeight / 4));
		if (dialog && !dialog.contains(e)) wrong = 'is outside of the dialog';
		else if (style.outlineStyle === 'none' || style.outlineWidth === '0px') wrong = 'does not show the focus';
		else if (!seen || !(e.contains(seen) || seen.contains(e) || seen.closest('label')?.control === e)) wrong = 'is behind ' + seen?.outerHTML.slice(0, 100);
	}
	return { Left: controls.size, Wrong: wrong && e.outerHTML.slice(0, 150) + ' ' + wrong };
})()`

// checkKeyboard checks that the Tab key reaches every control of a screen, or of its dialog,
// and nothing outside of the dialog; that one sees where the focus is; and that nothing else
// reacts to clicks.
func (p *page) checkKeyboard(where string) {
	p.t.Helper()
	const controls = "a[href], button, input, select, textarea, summary, [tabindex='0']"
	n := eval[int](p, fmt.Sprintf(`(() => {
		document.activeElement.blur();
		const scope = document.querySelector('dialog[open]') ?? document;
		window.controls = new Set([...scope.querySelectorAll(%q)].filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility()));
		return controls.size;
	})()`, controls))
	type stop struct {
		Left  int
		Wrong string
	}
	left := n
	for i := 0; left > 0 && i < 3*n+20; i++ {
		p.press(kb.Tab)
		now := eval[stop](p, focusStop)
		if now.Wrong != "" { // it may have scrolled, or moved
			p.waitForAnimations()
			now = eval[stop](p, focusStop)
		}
		left = now.Left
		if now.Wrong != "" {
			p.t.Errorf("%s: %s", where, now.Wrong)
		}
	}
	if left > 0 {
		p.t.Errorf("%s: the keyboard does not reach\n%s", where, eval[string](p, "[...controls].map((e) => e.outerHTML.slice(0, 150)).join('\\n')"))
	}
	mouse, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll('body *')]
		.filter((e) => !e.closest('a, button, input, select, label, summary, .plot') && getEventListeners(e).click)
		.map((e) => e.outerHTML.slice(0, 150))`, chromedp.EvalWithCommandLineAPI))
	p.must(err)
	if len(mouse) > 0 {
		p.t.Errorf("%s: only a mouse can click\n%s", where, strings.Join(mouse, "\n"))
	}
}

// Every screen of the page and of the console has a sound layout, in both languages, on phones and desktops,
// light and dark, and an accessibility checker finds nothing.
func TestScreens(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	t.Run("page", func(t *testing.T) {
		t.Parallel()
		p := newPage(t, phone)
		p.reduceMotion()
		p.open(base)
		p.walk(screensOf(t, base, people[0]), "")
	})
	t.Run("console", func(t *testing.T) {
		t.Parallel()
		c := openConsoleOf(t, desktop, base, people)
		c.reduceMotion()
		c.walk(c.screens(), "console-")
		c.ignoreFaults("404") // of the user who does not exist
	})
}

// Everything can be done with the keyboard alone.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	check := func(p *page, prefix string, screens []screen) {
		p.reduceMotion()
		for _, s := range testenv.Forms(p.t, len(screens)/6, screens) {
			p.showScreen(s)
			p.checkKeyboard(prefix + s.name)
			p.leaveDialog(s)
		}
	}
	t.Run("page", func(t *testing.T) {
		t.Parallel()
		p := newPage(t, phone)
		p.open(base)
		check(p, "", screensOf(t, base, people[0]))
	})
	t.Run("console", func(t *testing.T) {
		t.Parallel()
		c := openConsoleOf(t, phone, base, people)
		check(c.page, "console ", c.screens())
		c.ignoreFaults("404") // of the user who does not exist
	})
}
