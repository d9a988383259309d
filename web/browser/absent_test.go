package browser

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// absentRows are the names below the ranking.
const absentRows = "[...document.querySelectorAll('.absent .person .name')].map((e) => e.textContent).join(', ')"

// Those without a score are below the last row, in grey, and lead to their days. Who begins moves up.
func TestAbsentPeople(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.daysOf(rankingFrom(1, 2, 1, 3), past(3, 1))
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople(4, 5))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("they are listed", absentRows+" === 'User 4, User 5'")
	p.until("the heading says so", "document.querySelector('.absent h2').textContent === 'Nothing yet today'")
	if !eval[bool](p, "document.querySelector('.absent').getBoundingClientRect().top >= document.querySelector('.ranking').getBoundingClientRect().bottom") {
		t.Error("they are not below the ranking")
	}
	p.checkLayout("absent people")
	p.checkAccess("absent people")
	p.screenshot("absent-390")
	dark := phone
	dark.dark = true
	p.emulate(dark)
	p.checkAccess("absent people in the dark")
	p.screenshot("absent-390-dark")
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople(5))
	f.daysOf(rankingFrom(1, 2, 1, 3, 4), past(3, 1))
	p.until("User 4 has moved up", absentRows+" === 'User 5' && document.querySelectorAll('.ranking > li').length === 4")
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople(2, 4))
	p.goTo("#/day/" + dayBefore)
	p.until("the past day has its own", absentRows+" === 'User 2, User 4' && document.querySelector('.absent h2').textContent === 'Nothing on that day'")
	p.click(".absent .person:nth-child(2) a")
	p.until("a row leads to the days of a friend", "location.hash === '#/history/4'")
}

// While the ranking has further pages, nobody is asked for, and a failed call is silent.
func TestAbsentPeopleFollowTheLastPage(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	long := rankingFrom(1, 2, 1, 3)
	long["next_cursor"] = "abc"
	f.daysOf(long, past(3, 1))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the hearts are there", "document.querySelector('.heart') !== null")
	isAbsent := func(path string) bool { return strings.HasSuffix(path, "/absent") }
	if asked := f.paths(); slices.ContainsFunc(asked, isAbsent) {
		t.Errorf("the page asks for %q", asked)
	}
	failed := make(chan bool, 1)
	f.handle("GET /v1/boards/steps/friends/absent", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusServiceUnavailable, "unavailable")
		select {
		case failed <- true:
		default:
		}
	})
	f.daysOf(rankingFrom(1, 2, 1, 3), past(3, 1))
	<-failed
	if eval[bool](p, "document.querySelector('.absent, .list .notice') !== null") {
		t.Error("a failed call is shown")
	}
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople(4))
	p.until("it is asked for again", absentRows+" === 'User 4'")
	p.ignoreFaults("503")
}

// A group has its own, whose rows lead nowhere, as those of its ranking.
func TestAbsentMembers(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.fillScreens()
	f.returns("GET /v1/boards/steps/groups/g1/absent", absentPeople(20, 21))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.goTo("#/groups/g1")
	p.until("they are listed", absentRows+" === 'User 20, User 21'")
	if eval[bool](p, "document.querySelector('.absent a') !== null") {
		t.Error("a row is a link")
	}
	p.checkLayout("absent members")
}
