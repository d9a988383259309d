package browser

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// person is one of the people whom a visitor of the demo may be.
type person struct {
	UserID   string `json:"user_id"`
	Nickname string
	Token    string
}

func startDemo(t *testing.T) (base string, people []person) {
	t.Helper()
	demo := testenv.Demo(t, "--users", "400")
	var answer struct{ People []person }
	callAPI(t, "", http.MethodGet, demo.URL+"/demo/people", nil, &answer)
	return demo.URL, answer.People
}

const rankingShown = "document.querySelectorAll('.ranking > li').length > 0"

// waitForRanking waits until the page shows a ranking that the API has returned.
// The simulated people walk all the time, and the page follows within seconds.
func (p *page) waitForRanking(base, bearer string) {
	p.t.Helper()
	p.waitForRows(func() []row { return rowsOf(rankingOf(p.t, base, bearer, "")) })
}

// waitForRows waits until the page shows rows that current has returned.
func (p *page) waitForRows(current func() []row) {
	p.t.Helper()
	var returned [][]row
	testenv.Eventually(p.t, "the page shows a ranking of the API", func() bool {
		returned = append(returned, current())
		shown := p.rows()
		return slices.ContainsFunc(returned, func(rows []row) bool { return slices.Equal(rows, shown) })
	})
}

// checkFirstLoad checks what was loaded before the ranking was shown, and what the page has
// loaded afterwards by itself.
func (p *page) checkFirstLoad(base string) {
	p.t.Helper()
	p.until("the hearts are there", "document.querySelector('.heart') !== null")
	p.until("everything is loaded", "document.readyState === 'complete'")
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := slices.IndexFunc(p.order, func(address string) bool { return strings.HasSuffix(address, "/page/day.js") })
	var first, later float64
	for address, n := range p.bytes {
		switch {
		case strings.HasPrefix(address, "data:"): // pictures of the browser's own calendar
		case !strings.HasPrefix(address, base):
			p.t.Errorf("the page loads %s", address)
		case slices.Index(p.order, address) < shown:
			first += n
		default:
			later += n
		}
	}
	// Once the ranking is there, the page asks whether the score was corrected.
	for _, address := range p.order[:shown] {
		if strings.Contains(address, "/v1/") && !strings.Contains(address, "/friends/stream") && !strings.Contains(address, "/v1/boards/steps/me") {
			p.t.Errorf("the page calls %s before the ranking is there", address)
		}
	}
	// The icon is both in the tab and on the page, from one answer.
	asked := slices.DeleteFunc(slices.Clone(p.order[:shown]), func(address string) bool { return strings.HasPrefix(address, "data:") })
	slices.Sort(asked)
	if asked = slices.Compact(asked); len(asked) > 20 {
		p.t.Errorf("the page makes %d requests before the ranking is there: %q", len(asked), asked)
	}
	p.t.Logf("the first load is %.1f KB in %d requests, and %.1f KB follow", first/1000, len(asked), later/1000)
	if first == 0 || first >= 60_000 || later >= 30_000 {
		p.t.Errorf("the first load is %.0f bytes, want less than 60,000; %.0f follow, want less than 30,000", first, later)
	}
}

// A visitor of the demo, on a phone, loads the page, walks, gives a gift, looks at
// other boards and switches to another person.
func TestDemo(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, phone)
	p.open(base)
	p.until("the ranking is there", rankingShown)
	p.checkFirstLoad(base)

	p.waitForRanking(base, me.Token)
	p.until("it is live", "document.querySelector('.hero .pill.live') !== null")
	p.checkLayout("today")

	// Walking moves the visitor up, finally to the top.
	before := rankingOf(t, base, me.Token, "").Me
	first := "document.querySelector('.ranking > li').dataset.user === '" + me.UserID + "'"
	for rankingOf(t, base, me.Token, "").Me.Rank > 1 {
		was := rankingOf(t, base, me.Token, "").Me.Score
		p.click(".actions .button:nth-child(2)")
		testenv.Eventually(t, "the steps are counted", func() bool { return rankingOf(t, base, me.Token, "").Me.Score >= was+3000 })
	}
	p.until("the visitor leads", first)
	p.until("the page says so", "document.querySelector('.hero .big').textContent === '1st'")
	if after := rankingOf(t, base, me.Token, "").Me; after.Score <= before.Score || after.Rank != 1 {
		t.Errorf("from %+v to %+v", before, after)
	}

	// A gift counts at the event.
	p.click(".actions .gift")
	p.until("a toast reports the gift", "/gift of \\d+ coins?/.test(document.querySelector('.message').textContent)")
	p.goTo("#/boards/gifts/around")
	p.until("the visitor is on the event's board", "document.querySelector('.ranking .own') !== null")
	p.until("the countdown is shown", "/\\d+ d \\d+ h left/.test(document.querySelector('[role=timer]')?.textContent)")
	p.goTo("#/boards/active-24h/top")
	p.until("the rolling board is there", "location.hash.includes('active') && document.querySelector('.about h2')?.textContent === 'Active 24 h' && "+rankingShown)
	p.checkLayout("boards")

	// Another person sees another ranking.
	p.goTo("#/")
	p.switchTo(people[7].UserID)
	p.until("the other person's row is marked", "document.querySelector('.ranking .own')?.dataset.user === '"+people[7].UserID+"'")
	p.waitForRanking(base, people[7].Token)
}

// stranger returns the id of a person to whom the first one has no relationship. It
// is not a number.
func stranger(t *testing.T, base string, people []person) string {
	t.Helper()
	known := map[string]bool{}
	for _, list := range []string{"/v1/friends?limit=200", "/v1/friends/requests?limit=200"} {
		var answer struct{ Friends, Requests []person }
		callAPI(t, people[0].Token, http.MethodGet, base+list, nil, &answer)
		for _, other := range slices.Concat(answer.Friends, answer.Requests) {
			known[other.UserID] = true
		}
	}
	for _, other := range people[1:] {
		if _, err := strconv.Atoi(other.UserID); err != nil && !known[other.UserID] {
			return other.UserID
		}
	}
	t.Fatal("the demo offers no stranger")
	return ""
}

// Requests are accepted and sent, and friends removed, on the page.
func TestDemoFriends(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, phone)
	p.open(base + "/#/friends")
	var requests struct {
		Requests []struct {
			UserID    string `json:"user_id"`
			Direction string
		}
	}
	countRequests := func() int {
		callAPI(t, me.Token, http.MethodGet, base+"/v1/friends/requests", nil, &requests)
		return len(requests.Requests)
	}
	n := countRequests()
	if n == 0 {
		t.Fatal("there are no requests")
	}
	p.until("the requests are shown", "document.querySelectorAll('.person-actions').length === "+strconv.Itoa(n))
	p.until("the friends are shown", "document.querySelector('a.inside') !== null")
	friends := eval[int](p, "document.querySelectorAll('a.inside').length")
	p.click(".person-actions .strong")
	p.until("the list is longer", "document.querySelectorAll('a.inside').length === "+strconv.Itoa(friends+1))
	testenv.Eventually(t, "the request is gone", func() bool { return countRequests() == n-1 })

	p.typeIn("#ask", "no id")
	p.click("form.ask .strong")
	p.until("the id is refused", "document.querySelector('#ask-wrong').textContent !== ''")
	eval[any](p, "document.querySelector('#ask').value = ''")
	p.typeIn("#ask", stranger(t, base, people))
	p.click("form.ask .strong")
	p.until("the request is sent", "document.querySelectorAll('.person-actions').length === "+strconv.Itoa(n))

	p.click(".person .round")
	p.click("[data-action=remove]")
	p.click("dialog .danger")
	p.until("the list is shorter", "document.querySelectorAll('a.inside').length === "+strconv.Itoa(friends))
}

// If the stream is blocked, the page polls.
func TestDemoWithoutStream(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{
		URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/v1/boards/:board/friends/stream*", Block: true}},
	})
	p.must(err)
	p.open(base)
	p.until("the ranking is there", rankingShown)
	if eval[string](p, "document.querySelector('.hero .pill').textContent") != "Every few seconds" {
		t.Error("the page does not say how fresh it is")
	}
	p.waitForRanking(base, people[0].Token)
	before := p.rows()
	testenv.Eventually(t, "the list follows", func() bool { return !slices.Equal(before, p.rows()) })
	p.ignoreFaults("ERR_BLOCKED")
}
