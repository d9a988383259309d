package browser

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// person is one of those whom the demo offers to be.
type person struct {
	UserID   string `json:"user_id"`
	Nickname string
	Token    string
}

func startDemo(t *testing.T) (base string, people []person) {
	t.Helper()
	demo := testenv.Demo(t, "--users", "400")
	var answer struct{ People []person }
	ask(t, "", http.MethodGet, demo.URL+"/demo/people", nil, &answer)
	return demo.URL, answer.People
}

const listed = "document.querySelectorAll('.ranking > li').length > 0"

// showsWhatIsAnswered waits until the list is one that the API has answered:
// people walk all the time, and the page follows within seconds.
func (p *page) showsWhatIsAnswered(base, bearer string) {
	p.t.Helper()
	var answered [][]line
	testenv.Eventually(p.t, "the list is the API's", func() bool {
		answered = append(answered, linesOf(rankingOf(p.t, base, bearer, "")))
		shown := p.lines()
		return slices.ContainsFunc(answered, func(lines []line) bool { return slices.Equal(lines, shown) })
	})
}

// What a visitor of the demo does, on a phone.
func TestDemo(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, phone)
	p.open(base)
	p.until("the ranking is there", listed)
	if calls := p.asked("/v1/"); len(calls) != 1 {
		t.Errorf("it took the calls %q", calls)
	}
	p.until("everything is loaded", "document.readyState === 'complete'")
	var total float64
	p.mu.Lock()
	for address, n := range p.bytes {
		// Data is the browser's own: the picture of its calendar.
		if !strings.HasPrefix(address, base) && !strings.HasPrefix(address, "data:") {
			t.Errorf("%s is loaded", address)
		}
		total += n
	}
	p.mu.Unlock()
	t.Logf("the first load is %.1f KB", total/1000)
	if total == 0 || total >= 100_000 {
		t.Errorf("the first load is %.0f bytes", total)
	}

	p.showsWhatIsAnswered(base, me.Token)
	p.until("it is live", "document.querySelector('.hero .pill.live') !== null")
	p.holds("today")

	// Walking moves one up, to the top in the end.
	before := rankingOf(t, base, me.Token, "").Me
	first := "document.querySelector('.ranking > li').dataset.user === '" + me.UserID + "'"
	for rankingOf(t, base, me.Token, "").Me.Rank > 1 {
		was := rankingOf(t, base, me.Token, "").Me.Score
		p.click(".actions .button:nth-child(2)")
		testenv.Eventually(t, "the steps are counted", func() bool { return rankingOf(t, base, me.Token, "").Me.Score >= was+3000 })
	}
	p.until("one leads", first)
	p.until("the page says so", "document.querySelector('.hero .big').textContent === '1st'")
	if after := rankingOf(t, base, me.Token, "").Me; after.Score <= before.Score || after.Rank != 1 {
		t.Errorf("from %+v to %+v", before, after)
	}

	// A gift counts at the event.
	p.click(".actions .gift")
	p.until("it is said", "/gift of \\d+ coins/.test(document.querySelector('.message').textContent)")
	p.goTo("#/boards/gifts/around")
	p.until("one is on the event's board", "document.querySelector('.ranking .own') !== null")
	p.until("the time is told", "/\\d+ d \\d+ h left/.test(document.querySelector('[role=timer]')?.textContent)")
	p.goTo("#/boards/active-24h/top")
	p.until("the rolling board is there", "location.hash.includes('active') && document.querySelector('.about h2')?.textContent === 'Active 24 h' && "+listed)
	p.holds("boards")

	// Another person sees another ranking.
	p.goTo("#/")
	eval[any](p, `(() => { const s = document.querySelector('.switch select'); s.value = '`+people[7].UserID+`'; s.dispatchEvent(new Event('change', { bubbles: true })); })()`)
	p.until("the other one's line is marked", "document.querySelector('.ranking .own')?.dataset.user === '"+people[7].UserID+"'")
	p.showsWhatIsAnswered(base, people[7].Token)
}

// Days that are past, and histories.
func TestDemoPast(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, desktop)
	p.open(base)
	p.until("the ranking is there", listed)
	today := *rankingOf(t, base, me.Token, "").Date

	day := daysAgo(t, today, 9)
	want := rankingOf(t, base, me.Token, "?date="+day)
	if want.Source != models.SourceArchive || !want.Final || want.Total < 10 {
		t.Fatalf("%s is %+v", day, want)
	}
	p.click(`.strip a[href="#/day/` + day + `"]`)
	p.until("the day is final", "document.querySelector('.hero .pill.final') !== null && "+listed)
	if diff := cmp.Diff(linesOf(want), p.lines()); diff != "" {
		t.Errorf("-API +page:\n%s", diff)
	}
	p.holds("a past day")

	var history struct {
		Entries []struct {
			Date  string
			Score int64
		}
	}
	type row struct {
		Date  string
		Score int64
	}
	read := func() []row {
		return eval[[]row](p, `[...document.querySelectorAll('.past li')].map((li) => ({ Date: li.querySelector('a')?.getAttribute('href').slice(-10) ?? '', Score: Number(li.querySelector('.score').textContent.replace(/,/g, '')) }))`)
	}
	p.goTo("#/history")
	p.until("the chart is drawn", "document.querySelector('.plot canvas') !== null")
	ask(t, me.Token, http.MethodGet, base+"/v1/boards/steps/history", nil, &history)
	rows := read()
	if len(rows) != len(history.Entries) || len(rows) < 25 {
		t.Fatalf("%d days are shown of %d", len(rows), len(history.Entries))
	}
	for i, e := range history.Entries {
		// Today goes on.
		if rows[i].Date != e.Date || e.Date != today && rows[i].Score != e.Score {
			t.Errorf("%+v is shown as %+v", e, rows[i])
		}
	}
	p.holds("history")

	// A friend's, by tapping.
	p.goTo("#/")
	p.until("the ranking is there again", listed)
	friend := eval[string](p, "[...document.querySelectorAll('.ranking > li:not(.own)')][0].dataset.user")
	p.click(`.ranking li[data-user="` + friend + `"] a`)
	p.until("the friend's history is there", "location.hash === '#/history/"+friend+"' && document.querySelector('.plot canvas') !== null")
	ask(t, me.Token, http.MethodGet, base+"/v1/boards/steps/history?for="+friend, nil, &history)
	for i, r := range read() {
		if e := history.Entries[i]; e.Date != today && r.Score != e.Score {
			t.Errorf("%+v is shown as %+v", e, r)
		}
	}
}

// Friends come and go on the page.
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
	left := func() int {
		ask(t, me.Token, http.MethodGet, base+"/v1/friends/requests", nil, &requests)
		return len(requests.Requests)
	}
	n := left()
	if n == 0 {
		t.Fatal("nobody asks")
	}
	p.until("the requests are shown", "document.querySelectorAll('.person-actions').length === "+count(n))
	friends := eval[int](p, "document.querySelectorAll('a.inside').length")
	p.click(".person-actions .strong")
	p.until("the list is longer", "document.querySelectorAll('a.inside').length === "+count(friends+1))
	testenv.Eventually(t, "the request is gone", func() bool { return left() == n-1 })

	p.typeIn("#ask", "0")
	p.click(".ask .strong")
	p.until("that is no number", "document.querySelector('#ask-wrong').textContent !== ''")
	eval[any](p, "document.querySelector('#ask').value = ''")
	p.typeIn("#ask", "123")
	p.click(".ask .strong")
	p.until("it is asked", "document.querySelectorAll('.person-actions').length === "+count(n))

	p.click("a.inside + button")
	p.until("the page asks back", "document.querySelector('dialog[open]') !== null")
	p.click("dialog .danger")
	p.until("the list is shorter", "document.querySelectorAll('a.inside').length === "+count(friends))
}

// Every screen in Chinese, and in every size and colour, to be looked at.
func TestScreens(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	han := regexp.MustCompile(`\p{Han}`)
	day := daysAgo(t, *rankingOf(t, base, people[0].Token, "").Date, 6)
	screens := []struct{ name, hash, ready string }{
		{"today", "#/", listed},
		{"day", "#/day/" + day, "document.querySelector('.hero .pill.final') !== null && " + listed},
		{"history", "#/history", "document.querySelector('.plot canvas') !== null"},
		{"boards", "#/boards/gifts/top", "document.querySelector('.about') !== null && " + listed},
		{"friends", "#/friends", "document.querySelectorAll('a.inside').length > 0"},
	}
	for _, language := range []string{"en-US", "zh-CN"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := newPage(t, view{width: phone.width, height: phone.height, language: language})
			p.open(base)
			for _, s := range screens {
				p.goTo(s.hash)
				p.until(s.name, s.ready)
				title := eval[string](p, "document.querySelector('h1').textContent + document.title + [...document.querySelectorAll('.tabs a')].map((a) => a.textContent).join('')")
				if lang := eval[string](p, "document.documentElement.lang"); han.MatchString(title) != (language == "zh-CN") || !strings.HasPrefix(language, lang) {
					t.Errorf("%s in %s: %s", s.name, lang, title)
				}
				for _, size := range []struct {
					name string
					view
				}{{"360", narrow}, {"390", phone}, {"1280", desktop}} {
					for _, dark := range []bool{false, true} {
						v := size.view
						v.dark = dark
						p.look(v)
						p.until("it is laid out", "innerWidth === "+count(int(v.width)))
						p.holds(s.name + " " + size.name)
						name := s.name + "-" + size.name + "-" + language[:2]
						if dark {
							name += "-dark"
						}
						p.shot(name)
					}
				}
			}
		})
	}
}

// Where no stream comes through, the page asks from time to time.
func TestDemoWithoutStream(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{
		URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/v1/boards/:board/friends/stream*", Block: true}},
	})
	p.must(err)
	p.open(base)
	p.until("the ranking is there", listed)
	if eval[string](p, "document.querySelector('.hero .pill').textContent") != "Every few seconds" {
		t.Error("the page does not say how fresh it is")
	}
	p.showsWhatIsAnswered(base, people[0].Token)
	before := p.lines()
	testenv.Eventually(t, "the list follows", func() bool { return !slices.Equal(before, p.lines()) })
	p.expectFaults("ERR_BLOCKED")
}
