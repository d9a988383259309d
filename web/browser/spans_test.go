package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// weekOf returns the first and the last day of the week of a day, and monthOf those of its
// month.
func weekOf(t testing.TB, day string) (from, to string) {
	t.Helper()
	d := parseDay(t, day)
	monday := d - models.Date((int(d.UTC().Weekday())+6)%7)
	return monday.String(), (monday + 6).String()
}

func monthOf(t testing.TB, day string) (from, to string) {
	t.Helper()
	first := parseDay(t, day[:8]+"01").UTC()
	return first.Format(time.DateOnly), first.AddDate(0, 1, -1).Format(time.DateOnly)
}

func parseDay(t testing.TB, day string) models.Date {
	t.Helper()
	d, err := models.ParseDate(day)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// shows waits until the page shows the ranking of a path from one day to another.
func (p *page) shows(base, bearer, path, from, to string) {
	p.t.Helper()
	p.waitForRows(func() []row {
		var r models.Ranking
		callAPI(p.t, bearer, http.MethodGet, base+path+"?from="+from+"&to="+to, nil, &r)
		return rowsOf(r)
	})
}

const friendsPath = "/v1/boards/steps/friends"

// choose presses a button of the control of periods, counted from 1, by the keyboard.
func (p *page) choose(n int) {
	p.t.Helper()
	button := fmt.Sprintf(".side .segments button:nth-child(%d)", n)
	p.until("the periods are there", "document.querySelector('"+button+"') !== null")
	p.typeIn(button, kb.Enter)
	p.until("it is pressed", "document.querySelector('"+button+"')?.getAttribute('aria-pressed') === 'true'")
}

// Weeks and months of friends are the sums of the API. The address has the choice, so that
// the page opens there again.
func TestDemoSpans(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	me := people[0].Token
	p := newPage(t, phone)
	p.open(base)
	p.until("the ranking is there", rankingShown)
	today := *rankingOf(t, base, me, "").Date
	from, to := weekOf(t, today)

	p.choose(2)
	p.until("it is the current week", "location.hash === '#/week' && document.querySelector('.hero .pill.live')?.textContent === 'Still counting'")
	p.shows(base, me, friendsPath, from, to)
	p.checkLayout("a week")
	p.screenshot("week-390")

	// The week before, by the strip. Nobody walks there any more.
	before := daysAgo(t, from, 7)
	p.click(`.strip a[href="#/week/` + before + `"]`)
	p.until("it is the week before", "document.querySelector('.strip [aria-current]')?.getAttribute('href') === '#/week/"+before+"' && "+rankingShown)
	p.shows(base, me, friendsPath, before, daysAgo(t, from, 1))
	week := p.rows()
	p.open(base + "/#/week/" + daysAgo(t, from, 4)) // any day of the week
	p.until("the ranking is there", rankingShown)
	if diff := cmp.Diff(week, p.rows()); diff != "" {
		t.Errorf("opened again: -before +now:\n%s", diff)
	}

	p.choose(3)
	from, to = monthOf(t, today)
	p.until("it is the current month", "location.hash === '#/month' && "+rankingShown)
	p.shows(base, me, friendsPath, from, to)
	p.screenshot("month-390")
	last, end := monthOf(t, daysAgo(t, from, 1))
	p.click(`.strip a[href="#/month/` + last[:7] + `"]`)
	p.until("it is the month before", "location.hash === '#/month/"+last[:7]+"' && document.querySelector('.strip [aria-current] b') !== null")
	p.shows(base, me, friendsPath, last, end)
	p.set(".picker input", today)
	p.until("a day is picked", "location.hash === '#/month'")
	p.choose(1)
	p.until("it is today", "location.hash === '#/' && document.querySelector('.actions') !== null")
	p.waitForRanking(base, me)
}

// A group is ranked like friends, also on past days. Its challenge is among the periods of its rankings. The owner
// sets and removes it.
func TestDemoChallenge(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	me := people[0]
	all := groupsOf(t, base, me.Token)
	walkers, family := all["Walkers"], all["Family"]
	if walkers.Challenge == nil || family.Challenge != nil {
		t.Fatalf("the groups are %+v", all)
	}
	p := newPage(t, phone)
	p.open(base + "/#/groups/" + walkers.GroupID)
	p.until("the challenge is among the periods", "document.querySelectorAll('.side .segments button').length === 4")
	p.checkLayout("a group with a challenge")
	p.screenshot("group-challenge-390")
	if shown := eval[string](p, "document.querySelector('main').textContent"); strings.Contains(shown, "Spring walk") {
		t.Errorf("a group that takes no part in a competition shows %s", shown)
	}
	today := *rankingOf(t, base, me.Token, "").Date
	day := daysAgo(t, today, 6)
	p.click(`.strip a[href="#/groups/` + walkers.GroupID + `/day/` + day + `"]`)
	p.until("the day is final", "document.querySelector('.hero .pill.final') !== null && "+rankingShown)
	var past models.Ranking
	callAPI(t, me.Token, http.MethodGet, base+"/v1/boards/steps/groups/"+walkers.GroupID+"?date="+day, nil, &past)
	if diff := cmp.Diff(rowsOf(past), p.rows()); diff != "" {
		t.Errorf("a past day of the group: -API +page:\n%s", diff)
	}
	p.choose(4)
	p.until("the challenge is there", "location.hash.endsWith('/challenge') && "+rankingShown)
	p.until("it says how long it goes on", "document.querySelector('.about .pill.live')?.textContent.trim() === '5 days left'")
	if name := eval[string](p, "document.querySelector('.about b').textContent"); name != "Challenge: 14 days" {
		t.Errorf("the challenge is called %q", name)
	}
	p.shows(base, me.Token, "/v1/boards/steps/groups/"+walkers.GroupID, walkers.Challenge.From, walkers.Challenge.To)
	p.checkLayout("a challenge")
	p.screenshot("challenge-390")
	p.choose(2)
	p.until("the group's week is there", "location.hash === '#/groups/"+walkers.GroupID+"/week' && "+rankingShown)

	// The first person owns the family.
	p.goTo("#/groups/" + family.GroupID + "/members")
	p.until("the form is there", "document.querySelector('#challenge-from') !== null")
	set := func(from, to string) {
		t.Helper()
		p.until("the form can be used", "!document.querySelector('form:has(#challenge-from) .strong').disabled")
		for id, day := range map[string]string{"from": from, "to": to} {
			p.set("#challenge-"+id, day)
		}
		ask[any](p, drawn) // the form knows what was set
		p.click("form:has(#challenge-from) .strong")
	}
	set(today, daysAgo(t, today, 1))
	p.until("bad days are refused", "document.querySelector('#challenge-wrong').textContent.includes('1 to 31 days')")
	p.ignoreFaults("422")
	p.checkLayout("a bad challenge")
	set(today, daysAgo(t, today, -6))
	p.says("The challenge is set.")
	if c := groupsOf(t, base, people[1].Token)["Family"].Challenge; c == nil || c.From != today {
		t.Errorf("another member sees the challenge %+v", c)
	}
	p.screenshot("challenge-form-390")
	p.typeIn("#rename", "!")
	p.click("form:has(#rename) .strong")
	p.until("renaming keeps the challenge", "document.querySelector('h1').textContent === 'Family!' && document.querySelector('#challenge-from').value === '"+today+"'")
	p.click("form:has(#challenge-from) .field [type=button]")
	p.says("The challenge is removed.")
	p.until("another one can be started", "document.querySelector('form:has(#challenge-from) .strong').textContent.trim() === 'Start'")
	p.goTo("#/groups/" + family.GroupID + "/challenge")
	p.until("the page says so", "document.querySelector('main .notice h2')?.textContent === 'No challenge'")
	p.checkLayout("no challenge")
}

// The form offers challenges that have a name, of which one is chosen, so that one click starts it.
// Once it is over, another one can be started.
func TestChallengePresets(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	group := func(challenge any) map[string]any {
		return map[string]any{
			"group_id": "g1", "name": "Family", "owner_id": "1", "invite_code": "CODE", "members": 1,
			"challenge": challenge, "member_list": []any{entry(1, 1, 1)},
		}
	}
	over := map[string]any{"from": "2026-10-01", "to": "2026-10-31"}
	f.returns("GET /v1/groups/g1", group(over))
	stored := make(chan map[string]any, 1)
	f.handle("PUT /v1/groups/g1", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("a change: %v", err)
		}
		stored <- body
		respond(w, http.StatusOK, group(body["challenge"]))
	})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/groups/g1/members", fakeToken())
	const form = "form:has(#challenge-from) "
	p.until("the form is there", "document.querySelectorAll('"+form+".chip').length === 4 && !document.querySelector('.skeleton')")
	offered := func() (list []string) {
		for i := range 4 {
			chip := fmt.Sprintf("%s.chip:nth-child(%d)", form, i+1)
			p.click(chip)
			p.until("the days are chosen", "document.querySelector('"+chip+"').ariaPressed === 'true'")
			list = append(list, eval[string](p, "[document.querySelector('"+form+"[aria-pressed=true]').textContent.trim(), "+
				"document.querySelector('#challenge-from').value, document.querySelector('#challenge-to').value].join(' ')"))
		}
		return list
	}
	if text := eval[string](p, "['h2', '[aria-pressed=true]', '.strong'].map((of) => document.querySelector('"+form+"' + of).textContent.trim()).join(', ')"); text != "Challenge, 7 days, Start" {
		t.Errorf("the form has %s", text)
	}
	want := []string{
		"7 days 2026-11-20 2026-11-26", "14 days 2026-11-20 2026-12-03",
		"Weekend 2026-11-21 2026-11-22", "November 2026-11-01 2026-11-30",
	}
	if diff := cmp.Diff(want, offered()); diff != "" {
		t.Errorf("the form offers (-want +got):\n%s", diff)
	}
	p.checkLayout("a form of a challenge")
	p.screenshot("challenge-presets-390")
	p.click(form + ".strong")
	p.until("the challenge is there", "document.querySelector('"+form+"h2').textContent === 'Challenge: November' && document.querySelector('"+form+".strong').textContent.trim() === 'Save'")
	if diff := cmp.Diff(map[string]any{"name": "Family", "challenge": map[string]any{"from": "2026-11-01", "to": "2026-11-30"}}, <-stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	p.speak("zh-CN")
	want = []string{
		"7 天 2026-11-20 2026-11-26", "14 天 2026-11-20 2026-12-03", "周末 2026-11-21 2026-11-22", "十一月 2026-11-01 2026-11-30",
	}
	if diff := cmp.Diff(want, offered()); diff != "" {
		t.Errorf("in Chinese (-want +got):\n%s", diff)
	}
	p.screenshot("challenge-presets-zh-390")
}

// A span that is loading, empty, failing or long is shown like a day.
func TestSpanStates(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	span := func(users ...int) map[string]any {
		r := rankingFrom(1, users...)
		r["date"], r["from"], r["to"] = nil, "2026-11-16", "2026-11-22"
		return r
	}
	release := make(chan struct{})
	f.handle("GET "+friendsPath, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			respond(w, http.StatusOK, span())
		case <-r.Context().Done():
		}
	})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/week", fakeToken())
	p.until("it is loading", "document.querySelector('.skeleton') !== null && document.querySelector('.hero.ghostly') !== null && document.querySelector('.strip') !== null")
	p.checkLayout("a week that is loading")
	close(release)
	p.until("it is empty", "document.querySelector('.list .notice h2')?.textContent === 'No scores on these days' && document.querySelector('.hero h2').textContent.includes('no steps')")
	p.checkLayout("an empty week")
	p.screenshot("week-empty-390")
	if calls := p.requestsTo(friendsPath + "?from="); len(calls) != 1 || !strings.Contains(calls[0], "from=2026-11-16&to=2026-11-22&") {
		t.Errorf("the calls are %q", calls)
	}

	// What fails at first says so; what was there stays, with its time.
	f.refuses("GET "+friendsPath, http.StatusServiceUnavailable, "unavailable")
	p.goTo("#/month")
	p.until("the error is shown", "document.querySelector('.list .notice .button') !== null")
	p.screenshot("month-error-390")
	users := make([]int, 250)
	for i := range users {
		users[i] = i + 1
	}
	f.handle("GET "+friendsPath, func(w http.ResponseWriter, r *http.Request) {
		limit, query := 50, r.URL.Query()
		_, _ = fmt.Sscan(query.Get("limit"), &limit)
		if query.Get("cursor") == "next" && query.Get("from") == "2026-11-16" && query.Get("to") == "2026-11-22" {
			second := rankingFrom(201, users[200:]...)
			second["from"], second["to"], second["date"] = "2026-11-16", "2026-11-22", nil
			respond(w, http.StatusOK, second)
			return
		}
		first := span(users[:limit]...)
		first["next_cursor"] = "next"
		respond(w, http.StatusOK, first)
	})
	p.click(".list .notice .button")
	p.until("the month is there", rankingShown)
	p.goTo("#/week/2026-11-18")
	for _, n := range []int{100, 200, 250} {
		p.click(".more")
		p.until("the list is longer", fmt.Sprintf("document.querySelectorAll('.ranking > li').length === %d", n))
	}
	for _, hash := range []string{"#/week/2026-11-31", "#/month/2026-13", "#/week/%", "#/month/x"} {
		p.goTo(hash)
		p.until(hash+" is not found", "document.querySelector('main .notice') !== null")
	}
	f.refuses("GET "+friendsPath, http.StatusUnprocessableEntity, "date_in_future")
	p.goTo("#/week/2030-01-07")
	p.until("a future week says so", "!!document.querySelector('.list .notice')?.textContent.includes('has not begun')")
	p.ignoreFaults("503")
	p.ignoreFaults("422")
}
