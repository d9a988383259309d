package browser

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
)

// groupAnswer is a group as the API returns it.
type groupAnswer struct {
	GroupID    string `json:"group_id"`
	Name       string
	InviteCode string `json:"invite_code"`
	Members    int
	Challenge  *struct{ From, To string }
}

// groupsOf returns the groups of a token's owner by name.
func groupsOf(t testing.TB, base, bearer string) map[string]groupAnswer {
	t.Helper()
	var answer struct{ Groups []groupAnswer }
	callAPI(t, bearer, http.MethodGet, base+"/v1/groups", nil, &answer)
	byName := make(map[string]groupAnswer)
	for _, g := range answer.Groups {
		byName[g.Name] = g
	}
	return byName
}

// switchTo makes the visitor of a demo another person.
func (p *page) switchTo(user string) {
	p.t.Helper()
	p.set(".switch select", user)
}

// says waits until a toast is shown.
func (p *page) says(text string) {
	p.t.Helper()
	p.until("the page says "+text, "document.querySelector('.message').textContent.includes('"+text+"')")
}

// An owner makes, renames and ends a group, and removes a member; others join by the link
// and leave.
func TestDemoGroups(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me, guest := people[0], people[19]
	p := newPage(t, desktop)
	p.open(base + "/#/groups")
	p.typeIn("#group-name", "Climbers")
	p.click("form:has(#group-name) .strong")
	p.until("the group is there", "document.querySelector('h1')?.textContent === 'Climbers'")
	made := groupsOf(t, base, me.Token)["Climbers"]
	p.goTo("#/groups/" + made.GroupID + "/members")
	p.until("the link is there", "document.querySelector('#invite')?.value === '"+base+"/#/join/"+made.InviteCode+"'")
	p.checkLayout("members")
	p.screenshot("members-1280")

	// Somebody else joins by the link.
	p.switchTo(guest.UserID)
	p.goTo("#/join/" + made.InviteCode)
	p.click("main .strong")
	p.until("the guest is in the group", "location.hash === '#/groups/"+made.GroupID+"' && document.querySelector('h1').textContent === 'Climbers'")
	if n := groupsOf(t, base, guest.Token)["Climbers"].Members; n != 2 {
		t.Errorf("the group has %d members", n)
	}
	p.goTo("#/groups/" + made.GroupID + "/members")
	p.until("the members are there", "document.querySelectorAll('main .person').length === 2")
	if eval[bool](p, "document.querySelector('#rename, .person .button') !== null") {
		t.Error("a member who is not the owner can change the group")
	}

	// The owner removes the guest, whom the old link no longer lets in.
	p.switchTo(me.UserID)
	p.click(".person .button")
	p.click("dialog .danger")
	p.until("the guest is removed", "document.querySelectorAll('main .person').length === 1 && document.querySelector('dialog') === null")
	p.until("the link is another one", "!document.querySelector('#invite').value.endsWith('"+made.InviteCode+"')")
	p.switchTo(guest.UserID)
	p.goTo("#/join/" + made.InviteCode)
	p.until("the old link is refused", "!!document.querySelector('main .wrong')?.textContent.includes('new link')")
	p.ignoreFaults("404")
	newCode := groupsOf(t, base, me.Token)["Climbers"].InviteCode
	p.goTo("#/groups")
	p.typeIn("#group-code", base+"/#/join/"+strings.ToLower(newCode))
	p.click("form:has(#group-code) .strong")
	p.until("the guest is back", "location.hash === '#/groups/"+made.GroupID+"'")

	// Leaving, renaming and ending. A call about the group that is under way would be answered
	// with 404.
	p.goTo("#/groups/" + made.GroupID + "/members")
	p.waitForAnswers()
	p.click("main .page > .buttons .button:first-child")
	p.click("dialog .danger")
	p.until("the guest has left", "location.hash === '#/groups'")
	p.switchTo(me.UserID)
	p.goTo("#/groups/" + made.GroupID + "/members")
	p.until("the name is there", "document.querySelector('#rename')?.value === 'Climbers'")
	p.typeIn("#rename", " of hills")
	p.click("form:has(#rename) .strong")
	p.until("the group is renamed", "document.querySelector('h1').textContent === 'Climbers of hills'")
	p.waitForAnswers()
	p.click("main .page > .buttons .button:last-child")
	p.click("dialog .danger")
	p.until("the group has ended", "location.hash === '#/groups' && document.querySelectorAll('main a.inside').length === 3")
	if _, there := groupsOf(t, base, me.Token)["Climbers of hills"]; there {
		t.Error("the group still exists")
	}
}

// A link to a group works for somebody who is not signed in, and errors are shown.
func TestInvitation(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	group := map[string]any{"group_id": "g1", "name": "Family", "owner_id": "2", "invite_code": "CODE", "members": 2}
	invitation := map[string]any{"group_id": "g1", "name": "Family", "owner_id": "2", "nickname": "Ben", "avatar_url": "", "members": 2, "member": false}
	f.returns("GET /v1/group-invites/CODE", invitation)
	f.refuses("POST /v1/groups/join", http.StatusConflict, "group_full")
	p := newPage(t, phone)
	p.open(f.URL + "/#/join/CODE")
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	if text := eval[string](p, "document.querySelector('.sign-in > p').textContent"); !strings.Contains(text, "invited to a group") {
		t.Errorf("somebody who is not signed in reads %q", text)
	}
	p.typeIn("#token", fakeToken())
	p.click(".sign-in .strong")
	p.until("the invitation is there", "document.querySelector('h1')?.textContent === 'You are invited to Family'")
	if who := eval[string](p, "document.querySelector('main .who .label').textContent"); who != "2 members · owned by Ben" {
		t.Errorf("the invitation says %q", who)
	}
	p.click("main .strong")
	p.until("the error is shown", "document.querySelector('main .wrong').textContent.includes('as many members')")
	p.checkLayout("an invitation")
	p.screenshot("join-390")
	f.handle("POST /v1/groups/join", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, group) })
	f.returns("GET /v1/groups/g1", group)
	f.ranksAmong("groups/g1", rankingFrom(1, 2, 1))
	p.click("main .strong")
	p.until("the group's ranking is there", "document.querySelector('h1')?.textContent === 'Family' && document.querySelectorAll('.ranking > li').length === 2")
	p.ignoreFaults("409")

	// A change that fails says why, and the dialog stays.
	f.returns("GET /v1/groups/g1", map[string]any{"group_id": "g1", "name": "Family", "owner_id": "1", "invite_code": "CODE", "members": 1, "member_list": []any{entry(1, 1, 1)}})
	f.refuses("POST /v1/groups/g1/invite", http.StatusServiceUnavailable, "unavailable")
	p.goTo("#/groups/g1/members")
	p.until("the user is the owner", "document.querySelector('#rename') !== null")
	p.click(".card:has(#invite) .button:last-child")
	p.click("dialog .danger")
	p.until("the error is in the dialog", "!!document.querySelector('dialog .wrong')?.textContent.includes('not available')")
	p.ignoreFaults("503")
}

// What a change of a group leaves out is removed. So each one has what the change before has
// stored, also if that is not answered yet, or the group as it was is answered late. The page
// does not fetch the group after a change, whose answer it has.
func TestChangesOfAGroupFollowEachOther(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	groupOf := func(name string, challenge any) map[string]any {
		return map[string]any{
			"group_id": "g1", "name": name, "owner_id": "1", "invite_code": "CODE", "members": 1,
			"challenge": challenge, "member_list": []any{entry(1, 1, 1)},
		}
	}
	var calls atomic.Int64
	late := make(chan struct{})
	f.handle("GET /v1/groups/g1", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") == "1" && calls.Add(1) == 2 { // the first call shows the forms, which make the second
			<-late
		}
		respond(w, http.StatusOK, groupOf("Family", nil))
	})
	bodies, answers := make(chan map[string]any), make(chan map[string]any)
	f.handle("PUT /v1/groups/g1", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("a change: %v", err)
		}
		bodies <- body
		respond(w, http.StatusOK, <-answers)
	})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/groups/g1/members", fakeToken())
	p.until("the forms are there", "document.querySelector('#rename')?.value === 'Family' && !document.querySelector('.skeleton')")
	testenv.Eventually(t, "the forms fetch the group", func() bool { return calls.Load() == 2 })
	days := map[string]any{"from": "2026-11-16", "to": "2026-11-22"}
	for key, day := range days {
		p.set("#challenge-"+key, day.(string))
	}
	p.click("form:has(#challenge-from) .strong")
	first := <-bodies
	p.typeIn("#rename", "!")
	p.click("form:has(#rename) .strong") // while the first change is under way
	answers <- groupOf("Family", days)
	second := <-bodies
	answers <- groupOf("Family!", days)
	p.until("the group has its new name", "document.querySelector('h1').textContent === 'Family!'")
	close(late)
	p.waitForAnswers()
	p.until("the name is the new one", "document.querySelector('#rename').value === 'Family!'")
	p.typeIn("#rename", "!")
	p.click("form:has(#rename) .strong")
	third := <-bodies
	answers <- groupOf("Family!!", days)
	p.until("the group has its last name", "document.querySelector('h1').textContent === 'Family!!' && document.querySelector('#challenge-to').value === '2026-11-22'")
	want := []map[string]any{
		{"name": "Family", "challenge": days}, {"name": "Family!", "challenge": days}, {"name": "Family!!", "challenge": days},
	}
	if diff := cmp.Diff(want, []map[string]any{first, second, third}); diff != "" {
		t.Errorf("the changes (-want +got):\n%s", diff)
	}
	p.waitForAnswers()
	if n := calls.Load(); n != 2 {
		t.Errorf("the group was fetched %d times, want 2", n)
	}
}
