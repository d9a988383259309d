package browser

import (
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// The tab of the browser is named after the period that is shown, with dates as the visitor's own form
// of the language writes them.
func TestTitles(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.daysOf(rankingFrom(1, 2, 1), past(2, 1))
	p := newPage(t, viewport{width: 390, height: 844, language: "en-GB"})
	p.signIn(f.URL, fakeToken())
	p.until("today is there", "document.title === 'Today · Stepboard' && "+rankingShown)
	for _, tt := range [][2]string{{"#/day/" + dayBefore, "Thursday 19 November"}, {"#/week", "16 Nov – 22 Nov"}, {"#/month", "November"}} {
		p.goTo(tt[0])
		p.until("a title of "+tt[0], "document.title !== 'Today · Stepboard'")
		if title := eval[string](p, "document.title"); !strings.HasPrefix(title, tt[1]) || !strings.HasSuffix(title, " · Stepboard") {
			t.Errorf("%s is called %q, want %q", tt[0], title, tt[1])
		}
	}
	p.goTo("#/friends")
	p.until("friends have their title", "document.title === 'Friends · Stepboard'")
	p.goTo("#/")
	p.until("today has its own again", "document.title === 'Today · Stepboard'")
}

// Of people with one score, rows say since when each has it.
func TestTies(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	ranking := rankingFrom(1, 2, 3, 1, 4)
	entries := ranking["entries"].([]any)
	for i, at := range []string{"2026-11-20T01:00:00Z", "2026-11-20T02:03:04Z", "2026-11-20T02:03:05Z", "2026-11-20T01:00:00Z"} {
		entries[i].(map[string]any)["reached_at"] = at
	}
	entries[2].(map[string]any)["score"] = entries[1].(map[string]any)["score"]
	f.ranks(ranking)
	p := newPage(t, narrow)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	since := eval[[]string](p, "[...document.querySelectorAll('.row')].map((row) => row.querySelector('.since')?.textContent ?? '')")
	times := eval[[]string](p, "['2026-11-20T02:03:04Z', '2026-11-20T02:03:05Z'].map((at) => 'since ' + new Intl.DateTimeFormat(navigator.languages[0], { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(new Date(at)))")
	if want := []string{"", times[0], times[1], ""}; strings.Join(since, "|") != strings.Join(want, "|") {
		t.Errorf("the rows say %q, want %q", since, want)
	}
	p.checkLayout("ties")
	p.checkAccess("ties")
	p.screenshot("ties-320")
}
