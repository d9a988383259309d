package browser

import (
	"fmt"
	"net/http"
	"testing"

	"stepboard/internal/testenv"
)

// A history spans 31 days of the calendar, with and without a score, and its average
// leaves out today, which is not over.
func TestHistory(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	day := func(date string, score int) any {
		e := entry(1, 1, score)
		e["date"], e["global_rank"], e["global_total"] = date, 1, 2
		return e
	}
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{
		day(fakeDay, 100), day("2026-11-18", 1000), day("2026-11-10", 3000),
	}})
	f.returns("GET /v1/boards/steps/me", map[string]any{"score": 100, "friends_rank": 3, "friends_total": 19, "correction": nil})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/history", fakeToken())
	p.until("the chart is drawn", "document.querySelector('.plot canvas') !== null")
	const place = "document.querySelector('.tile')?.innerText.replace(/\\s+/g, ' ')"
	p.until("the place among friends comes first", place+" === 'Among friends 3rd of 19 · Nov 20'")
	if average := eval[string](p, "document.querySelector('.tile:nth-child(2) b').textContent"); average != "2,000" {
		t.Errorf("the average of 1,000 and 3,000 is %s", average)
	}
	// Each day has its place among 31, where the pointer finds it.
	for i, name := range map[int]string{20: "Nov 10", 28: "Nov 18", 30: "Nov 20"} {
		p.until(name+" is found", fmt.Sprintf(`(() => {
			const over = document.querySelector('.plot .u-over');
			const box = over.getBoundingClientRect();
			over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.left + box.width * (%d + 0.5) / 31, clientY: box.top + 9, bubbles: true }));
			return document.querySelector('.reading').textContent.includes('%s');
		})()`, i, name))
	}
	p.screenshot("history-gaps-390")

	// A friend's places are those among everybody, and say so.
	p.goTo("#/history/2")
	p.until("the best place says among whom", "[...document.querySelectorAll('.tile dt')].some((e) => e.textContent === 'Best place among all people')")

	// Somebody without an ended day has no average.
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{day(fakeDay, 100)}})
	p.goTo("#/")
	p.goTo("#/history")
	p.until("there is no average yet", "document.querySelector('.tile:nth-child(2) b')?.textContent === '–'")
}

// Where the lowest score is first, nothing is shown that counts upwards: no goal, weeks, months, averages
// and charts.
func TestFastestFirst(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.returns("GET /v1/boards", map[string]any{"boards": []any{map[string]any{
		"name": "steps", "kind": "daily", "order": "low", "time_zone": "Asia/Shanghai", "current": map[string]any{"date": fakeDay},
	}}})
	first, me := entry(2, 1, 60_000), entry(1, 2, 61_000)
	ranking := rankingFrom(1, 2, 1)
	ranking["entries"], ranking["me"] = []any{first, me}, me
	f.ranks(ranking)
	f.returns("GET /v1/boards/steps/top", ranking)
	day := entry(1, 2, 61_000)
	day["date"], day["global_rank"], day["global_total"] = fakeDay, 2, 2
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{day}})
	f.returns("GET /v1/boards/steps/me", map[string]any{"score": 61_000, "friends_rank": 2, "friends_total": 2, "correction": nil})
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the next friend is named", "document.querySelector('.hero .goal')?.textContent === '1,000 points behind User 2'")
	p.until("there are days only", "document.querySelectorAll('.period-bar option').length === 1")
	p.until("there is no goal", "document.querySelector('.aim-goal') === null")
	p.goTo("#/history")
	p.until("the place is the only figure", "document.querySelectorAll('.tile').length === 1 && document.querySelector('.past-day') !== null")
	p.until("there is no chart", "document.querySelector('.plot') === null && document.querySelector('.sums') === null")
	p.goTo("#/boards/steps/top")
	p.until("the board says so", "document.querySelector('.about-text p')?.textContent.startsWith('Fastest first') === true")
}

// The history shows the week, the month and the streak as the API adds them up, and no figure twice.
// The goal that somebody chooses is kept.
func TestDemoSummary(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, phone)
	type sums struct {
		Week, Month int64
		Streak      struct{ Current, Longest int }
	}
	sumsOf := func(query string) (s sums) {
		callAPI(t, me.Token, http.MethodGet, base+"/v1/boards/steps/summary"+query, nil, &s)
		return s
	}
	before := sumsOf("")
	p.open(base + "/#/history")
	figures := func() []int64 {
		return eval[[]int64](p, "[...document.querySelectorAll('.sums .tile b, .streak b')].map((e) => parseInt(e.textContent.replace(/,/g, ''), 10))")
	}
	p.until("a goal is proposed", "document.querySelector('.streak .button') !== null")
	proposed := eval[string](p, "document.querySelector('.streak .button').textContent.replace(/\\D/g, '')")
	for i, goal := range []string{proposed, "5000"} {
		want := sumsOf("?goal=" + goal)
		p.until("the streak is there", fmt.Sprintf("document.querySelector('.streak b') !== null && document.querySelector('.streak .label:last-child').textContent.includes('%d day')", want.Streak.Longest))
		got := figures()
		// Today's steps still rise, and the week and the month with them. In a month that has just begun the week is more.
		if len(got) != 3 || got[0] < before.Week || got[1] < before.Month || got[2] != int64(want.Streak.Current) {
			t.Errorf("goal %s: %v, want %+v", goal, got, want)
		}
		if i == 0 {
			before = sumsOf("")
			p.click(".streak .button")
			p.set("#goal", "5000")
			p.click("dialog .strong")
			p.until("the goal is another one", "document.querySelector('.streak .button').textContent.includes('5,000')")
			p.waitForAnswers()
		}
	}
	if twice := eval[[]string](p, "[...document.querySelectorAll('.tile dt')].map((e) => e.textContent).filter((text, i, all) => all.indexOf(text) !== i)"); len(twice) > 0 {
		t.Errorf("%q are shown twice", twice)
	}
	p.checkLayout("sums")
	eval[any](p, "document.querySelector('.sums').scrollIntoView({ block: 'center' })")
	p.screenshot("sums-390")
	p.open(base + "/?again#/history")
	p.until("the goal is kept", "document.querySelector('.streak .button')?.textContent.includes('5,000') === true")
}

// Sums that can't be read leave the rest of the history as it is.
func TestSummaryIsAway(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.fillScreens()
	f.refuses("GET /v1/boards/steps/summary", http.StatusServiceUnavailable, "unavailable")
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/history", fakeToken())
	p.until("the error is shown", "document.querySelector('main .notice') !== null && document.querySelectorAll('.past li').length === 20")
	f.fillScreens()
	p.until("the sums are there", "document.querySelector('.streak b') !== null")
	p.ignoreFaults("503")
}
