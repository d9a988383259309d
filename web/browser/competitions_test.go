package browser

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// competitionOf returns a competition as the user 1 of a fake service sees it, in a state and with the place of
// the user, if there is one.
func competitionOf(state string, me, team any) map[string]any {
	asOf := any("2026-11-20T01:00:00Z")
	if team == nil {
		asOf = nil
	}
	return map[string]any{
		"competition_id": "spring", "board": "steps", "name": "Spring walk", "from": "2026-11-16", "to": "2026-11-24", "cap": 30_000, "goal": nil,
		"measure": "score", "team": "mean", "join_code": nil, "state": state, "as_of": asOf, "revision": 0, "me": me, "my_team": team, "created_at": "2026-11-10T13:00:00Z",
	}
}

// teamsOf returns the standing of two teams; the group g1 is the second one.
func teamsOf(final bool) map[string]any {
	return map[string]any{"as_of": "2026-11-20T01:00:00Z", "final": final, "total": 2, "next_cursor": nil, "entries": []any{
		map[string]any{"rank": 1, "group_id": "g2", "name": "Office", "score": nil, "members": 2},
		map[string]any{"rank": 2, "group_id": "g1", "name": "Family", "score": 41_234, "members": 5},
	}}
}

// The owner enters a group by the code of a competition. Then the page shows its days, its teams and people,
// which are mine, and at last the result.
func TestCompetition(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.returns("GET /v1/groups/g1", map[string]any{
		"group_id": "g1", "name": "Family", "owner_id": "1", "invite_code": "CODE", "members": 1, "member_list": []any{entry(1, 1, 1)},
	})
	f.ranksAmong("groups/g1", rankingFrom(1, 2, 1))
	f.refuses("POST /v1/competitions/join", http.StatusNotFound, "not_found")
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/groups/g1/members", fakeToken())
	p.typeIn("#competition-code", "KX7WQ2M5A4TDZBNC")
	p.click("form:has(#competition-code) .strong")
	wrong := "document.querySelector('#competition-code-wrong').textContent"
	p.until("the code is unknown", wrong+".includes('No competition has this code')")
	f.refuses("POST /v1/competitions/join", http.StatusConflict, "competition_full")
	p.click("form:has(#competition-code) .strong")
	p.until("there is no room", wrong+".includes('no room')")

	const path = "GET /v1/competitions/spring"
	planned := competitionOf("planned", nil, nil)
	planned["from"] = "2026-11-21"
	bodies := make(chan map[string]any, 1)
	f.handle("POST /v1/competitions/join", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("an entry: %v", err)
		}
		bodies <- body
		respond(w, http.StatusOK, planned)
	})
	f.returns(path, planned)
	p.click("form:has(#competition-code) .strong")
	p.says("takes part in Spring walk")
	if body := <-bodies; body["code"] != "KX7WQ2M5A4TDZBNC" || body["group_id"] != "g1" {
		t.Errorf("the entry is %v", body)
	}
	p.until("there is no standing", "document.querySelector('main .notice')?.textContent.includes('No standing yet') === true && document.querySelector('.about .pill')?.textContent === 'Begins tomorrow'")
	p.checkLayout("a competition without a standing")
	p.screenshot("competition-first-390")

	team := teamsOf(false)["entries"].([]any)[1]
	me := map[string]any{"rank": 3, "score": 123_456, "days": 5, "group_id": "g1"}
	running := competitionOf("running", me, team)
	f.returns(path, running)
	f.returns("GET /v1/competitions", map[string]any{"competitions": []any{running}})
	f.returns(path+"/teams", teamsOf(false))
	people := rankingFrom(1, 2, 3, 1)
	hidden := map[string]any{"user_id": nil, "nickname": "", "avatar_url": "", "anonymous": true, "score": 7, "reached_at": nil}
	for _, rank := range []int{4, 5} {
		line := map[string]any{"rank": rank}
		for key, value := range hidden {
			line[key] = value
		}
		people["entries"] = append(people["entries"].([]any), line)
	}
	f.returns(path+"/people", people)
	p.goTo("#/groups/g1")
	p.until("the group's screen leads to it", "document.querySelector('a.about')?.textContent.includes('2nd of 2 teams') === true && document.querySelector('a.about .pill')?.textContent === '5 days left'")
	p.checkLayout("a group that competes")
	p.screenshot("competing-390")
	p.click("a.about")
	p.until("its teams are there", "document.querySelectorAll('.ranking > li').length === 2")
	for _, c := range []struct{ what, js, want string }{
		{"the own place", "document.querySelector('.hero').ariaLabel", "Family: 2nd of 2 teams"},
		{"the own score", "document.querySelector('.hero .goal').textContent", "You: 3rd of all, with 123,456 steps"},
		{"the own team", "document.querySelector('.ranking .own .name').textContent", "Family"},
		{"its score", "document.querySelector('.ranking .own .score').textContent", "41,234"},
		{"a score that is not shown", "document.querySelector('.ranking .score').textContent", "Not shown"},
		{"the days left", "document.querySelector('.hero .pill').textContent.trim()", "5 days left"},
	} {
		if got := eval[string](p, c.js); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	p.checkLayout("a competition")
	p.checkAccess("a competition")
	p.screenshot("competition-390-en")
	p.click(".segments button:nth-child(2)")
	p.until("its people are there", "location.hash === '#/groups/g1/competition/spring/individuals' && document.querySelectorAll('.ranking > li').length === 5 && document.querySelector('.ranking .own .name').textContent === 'User 1'")
	p.checkAccess("the people of a competition")
	p.screenshot("competition-people-390")

	final := competitionOf("final", me, team)
	f.returns(path, final)
	f.returns(path+"/teams", teamsOf(true))
	p.goTo("#/groups/g1")
	p.goTo("#/groups/g1/competition/spring")
	p.until("the winner is there", "document.querySelector('.hero .champion .name')?.textContent === 'Office' && document.querySelector('.hero .pill.final') !== null")
	p.until("the message is gone", "document.querySelector('.message').textContent === ''")
	p.speak("zh-CN")
	p.until("it is in Chinese", "document.querySelector('.hero .champion .label').textContent === '冠军'")
	p.checkLayout("a final competition")
	p.checkLanguage("a competition", "zh-CN")
	p.screenshot("competition-390-zh")
	p.ignoreFaults("404")
	p.ignoreFaults("409")
}

// An operator defines a competition, changes it, sees and saves the standing, and deletes it.
func TestConsoleCompetitions(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	group := groupsOf(t, c.base, c.people[0].Token)["Walkers"].GroupID
	c.show("competitions")
	c.click("[data-action=defineCompetition]")
	for field, value := range map[string]string{
		"id": "spring", "name": "Spring walk", "board": "gifts", "from": "2099-03-01", "to": "2099-03-14", "measure": "goal_days", "open": "yes", "groups": " " + group + ", ",
	} {
		c.set("#act-"+field, value)
	}
	c.set("#act-goal", "8000")
	c.checkAccess("the form of a competition")
	c.screenshot("console-competition-define-1280")
	define := func() {
		c.t.Helper()
		c.click("dialog .strong")
		c.seePreview("from 2099-03-01 to 2099-03-14")
		c.click("dialog .buttons button:last-child")
	}
	define()
	c.until("no event has competitions", "document.querySelector('dialog .wrong').textContent !== ''")
	c.set("#act-board", "steps")
	define()
	c.until("it is defined", dialogClosed+" && !!document.querySelector('a[href=\"#/competitions/spring\"]')")
	c.screenshot("console-competitions-1280")
	type definition struct {
		Name     string
		Goal     int64
		Measure  string
		JoinCode *string `json:"join_code"`
	}
	get := func() (d definition) {
		callAPI(t, c.token, http.MethodGet, c.base+"/v1/competitions/spring", nil, &d)
		return d
	}
	if d := get(); d.Name != "Spring walk" || d.Goal != 8000 || d.Measure != "goal_days" || d.JoinCode == nil {
		t.Errorf("the competition is %+v", d)
	}
	c.goTo("#/competitions/spring")
	c.until("its code is shown", "document.querySelector('.facts')?.textContent.includes('"+*get().JoinCode+"') === true")
	c.click("[data-action=replaceCompetition]")
	c.typeIn("#act-name", " 2")
	define()
	c.until("it is changed", dialogClosed+" && document.querySelector('h1').textContent === 'Spring walk 2'")
	if d := get(); d.Goal != 8000 || d.JoinCode == nil {
		t.Errorf("the changed competition is %+v", d)
	}
	c.goTo("#/competitions")
	c.click("tr:has(a[href='#/competitions/spring']) [data-action=deleteCompetition]")
	c.seePreview("deleted with its standings")
	c.click("dialog .danger")
	c.until("it is deleted", dialogClosed+" && document.querySelector('a[href=\"#/competitions/spring\"]') === null")

	c.goTo("#/competitions/spring-walk")
	c.until("the standing is there", standingShown+" && document.querySelectorAll('tbody tr').length === 12")
	c.screenshot("console-competition-1280")
	c.click("[data-action=replaceCompetition]")
	if eval[bool](c.page, "document.querySelector('#act-board, #act-from') !== null") {
		t.Error("a competition that has begun offers to change what is fixed")
	}
	c.click("dialog .button")
	var people struct{ Total int }
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/competitions/spring-walk/people", nil, &people)
	file := c.downloads("individuals.csv")
	c.click(".panel:last-of-type [data-action=csv]")
	testenv.Eventually(t, "the file has all pages", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.HasPrefix(string(text), "\ufeffrank,user_id,") && strings.Count(string(text), "\r\n") == people.Total+1
	})
	if people.Total <= 10 {
		t.Errorf("the standing has %d people, want more than a page", people.Total)
	}
	c.ignoreFaults("409")
}

// A final competition is computed again for a reason.
func TestConsoleRecomputesACompetition(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	const path = "/v1/competitions/spring"
	final := competitionOf("final", nil, teamsOf(true)["entries"].([]any)[1])
	final["revision"], final["my_team"], final["changed_at"] = 1, nil, "2026-11-20T12:00:00.000Z"
	f.returns("GET /v1/admin/status", map[string]any{"work": map[string]any{}})
	f.returns("GET "+path, final)
	f.returns("GET "+path+"/teams", teamsOf(true))
	f.returns("GET "+path+"/people", rankingFrom(1, 2, 1))
	reasons := make(chan string, 1)
	f.handle("POST /v1/admin/competitions/spring/recompute", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Reason string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("a recomputation: %v", err)
		}
		if r.URL.Query().Get("dry_run") == "true" {
			respond(w, http.StatusOK, final)
			return
		}
		reasons <- body.Reason
		respond(w, http.StatusAccepted, final)
	})
	c := &console{page: newPage(t, desktop)}
	c.open(f.URL + "/console#/competitions/spring")
	c.typeIn("#token", fakeToken())
	c.click(".sign-in .strong")
	c.until("the standing is there", standingShown)
	c.until("it says that a day has changed since", "document.querySelector('.facts').innerText.includes('A day has changed since')")
	c.screenshot("console-changed")
	c.act("[data-action=recompute]", "Revision 2 is made", "wrong members")
	if reason := testenv.Receive(t, "the call", reasons); reason != "wrong members" {
		t.Errorf("the reason is %q", reason)
	}
}
