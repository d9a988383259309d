package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// fakeLikes holds the likes of a fake service: what each user's score has, without the
// viewer's like, and whom the viewer likes.
type fakeLikes struct {
	mu     sync.Mutex
	others map[string]int
	own    map[string]bool
	calls  []string
}

// likes lets a fake service rank users, with likes on request, and take likes of user 2.
func (f *fakeService) likes(users ...int) *fakeLikes {
	l := &fakeLikes{others: map[string]int{"1": 4, "2": 7}, own: map[string]bool{}}
	f.ranksAs("friends", func(r *http.Request) map[string]any {
		ranking := rankingFrom(1, users...)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range ranking["entries"].([]any) {
			if line := e.(map[string]any); r.URL.Query().Get("include") == "likes" {
				user := line["user_id"].(string)
				line["liked"], line["likes"] = l.own[user], l.others[user]
				if l.own[user] {
					line["likes"] = l.others[user] + 1
				}
			}
		}
		return ranking
	})
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		f.handle(method+" /v1/boards/steps/likes/2", func(w http.ResponseWriter, r *http.Request) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.own["2"] = method == http.MethodPut
			l.calls = append(l.calls, method+" "+r.URL.Query().Get("date"))
			w.WriteHeader(http.StatusNoContent)
		})
	}
	return l
}

// heart is an expression for what the heart of a user shows.
func heart(user string) string {
	return fmt.Sprintf(`((e) => e && [e.getAttribute('aria-pressed'), e.textContent, e.getAttribute('aria-label')].join(' '))`+
		`(document.querySelector('.ranking li[data-user="%s"] .heart'))`, user)
}

// A heart shows a like at once. If the call fails, the like is taken back with a message.
func TestLikes(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	l := f.likes(2, 1, 3)
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the likes are there", heart("2")+" === 'false 7 Like User 2, 7 likes'")
	p.until("a score without likes has a heart", heart("3")+" === 'false  Like User 3, 0 likes'")

	arrived, release := make(chan struct{}, 2), make(chan struct{})
	put := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			arrived <- struct{}{}
			<-release
			if status != http.StatusNoContent {
				refuse(w, status, "unavailable")
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.own["2"] = true
			w.WriteHeader(status)
		}
	}
	f.handle("PUT /v1/boards/steps/likes/2", put(http.StatusServiceUnavailable))
	p.click(`.ranking li[data-user="2"] .heart`)
	<-arrived
	p.until("the like is shown before the answer", heart("2")+" === 'true 8 Like User 2, 8 likes'")
	release <- struct{}{}
	p.until("the like is taken back", heart("2")+" === 'false 7 Like User 2, 7 likes'")
	p.says("Your like for User 2 was not saved. Try again.")
	p.screenshot("like-failed-390")
	p.ignoreFaults("503")

	f.handle("PUT /v1/boards/steps/likes/2", put(http.StatusNoContent))
	p.click(`.ranking li[data-user="2"] .heart`)
	<-arrived
	p.until("the like is shown", heart("2")+" === 'true 8 Like User 2, 8 likes'")
	p.click(`.ranking li[data-user="2"] .heart`)
	p.until("a second tap takes it back", heart("2")+" === 'false 7 Like User 2, 7 likes'")
	release <- struct{}{}
	testenv.Eventually(t, "the withdrawal follows the like", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Equal(l.calls, []string{"DELETE " + fakeDay})
	})
	p.until("it stays taken back", heart("2")+" === 'false 7 Like User 2, 7 likes'")
	if eval[bool](p, "location.hash !== '' && location.hash !== '#/'") {
		t.Error("a tap on a heart follows the row's link")
	}
}

// The rankings of a past day and of a board have the same hearts as the first screen.
func TestLikesOfOtherRankings(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	for name, address := range map[string]string{"past day": "/#/day/" + fakeDay, "board": "/#/boards/steps/friends"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t, false)
			l := f.likes(2, 1, 3)
			p := newPage(t, phone)
			p.signIn(f.URL+address, fakeToken())
			p.until("the likes are there", heart("2")+" === 'false 7 Like User 2, 7 likes'")
			p.click(`.ranking li[data-user="2"] .heart`)
			p.until("the like is shown", heart("2")+" === 'true 8 Like User 2, 8 likes'")
			testenv.Eventually(t, "the like is for this day", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return slices.Equal(l.calls, []string{"PUT " + fakeDay})
			})
		})
	}
}

// The viewer's row has no heart to give, but opens the list of those who like the score.
func TestLikers(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	l := f.likes(2, 1, 3)
	likers := []any{}
	for user := 2; user < 6; user++ {
		liker := entry(user, 1, 1)
		liker["liked_at"] = "2026-11-20T08:00:00Z"
		likers = append(likers, liker)
	}
	f.returns("GET /v1/boards/steps/likes/1", map[string]any{"likes": likers, "next_cursor": nil})
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	const own = `document.querySelector('.ranking .own .heart')`
	p.until("the own row says how many like it", heart("1")+" === ' 4 Who likes your steps: 4 likes'")
	eval[any](p, own+".focus()")
	p.press("\r")
	p.until("the list is there", "document.querySelectorAll('dialog .person').length === 4")
	names := eval[string](p, "[...document.querySelectorAll('dialog .name')].map((e) => e.textContent).join()")
	if names != "User 2,User 3,User 4,User 5" {
		t.Errorf("the list has %s", names)
	}
	p.screenshot("likers-390")
	p.press("\x1b")
	p.until("the list is closed", "document.querySelector('dialog') === null")
	p.until("the focus is back", "document.activeElement === "+own)

	l.mu.Lock()
	l.others = map[string]int{}
	l.mu.Unlock()
	p.goTo("#/day/" + fakeDay)
	p.until("the hearts are there", heart("2")+" === 'false  Like User 2, 0 likes'")
	if eval[bool](p, own+" !== null") {
		t.Error("the viewer's row has a heart without likes")
	}
}

// In the demo people like each other, and the page shows what the API returns.
func TestDemoLikes(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	me := people[0]
	p := newPage(t, phone)
	p.open(base)
	ranked := func() map[string]models.RankedEntry {
		entries := map[string]models.RankedEntry{}
		for _, e := range rankingOf(t, base, me.Token, "?include=likes").Entries {
			entries[string(e.User)] = e
		}
		return entries
	}
	before := ranked()
	if *before[me.UserID].Likes == 0 {
		t.Error("nobody likes the first person's steps")
	}
	var friend string
	for _, user := range slices.Sorted(maps.Keys(before)) {
		if user != me.UserID && !*before[user].Liked {
			friend = user
			break
		}
	}
	button := `.ranking li[data-user="` + friend + `"] .heart`
	p.click(button)
	p.until("the heart is filled", `document.querySelector('`+button+`').getAttribute('aria-pressed') === 'true'`)
	testenv.Eventually(t, "the API has the like", func() bool { return *ranked()[friend].Liked })

	p.click(".ranking .own .heart")
	p.until("the list is there", "document.querySelectorAll('dialog .person').length > 0")
	var answer struct{ Likes []person }
	callAPI(t, me.Token, http.MethodGet, base+"/v1/boards/steps/likes/"+me.UserID, nil, &answer)
	shown := eval[string](p, "[...document.querySelectorAll('dialog .name')].map((e) => e.textContent).join()")
	names := make([]string, len(answer.Likes))
	for i, liker := range answer.Likes {
		names[i] = liker.Nickname
	}
	// More likes may have been given since the list was opened.
	if !strings.HasSuffix(strings.Join(names, ","), shown) {
		t.Errorf("%q are shown of %q", shown, names)
	}
}

// The demo receives its own webhooks, and the page lists them.
func TestDemoWebhooks(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	base, people := startDemo(t)
	res, err := http.Post(base+"/demo/webhooks", "application/json", strings.NewReader(`{"type":"forged"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a message without a signature is %d", res.StatusCode)
	}
	p := newPage(t, phone)
	p.open(base + "/#/webhooks")
	friends := rankingOf(t, base, people[0].Token, "?include=likes")
	others := slices.DeleteFunc(friends.Entries, func(e models.RankedEntry) bool {
		return string(e.User) == people[0].UserID || *e.Liked
	})
	// The page shows the last ten likes. As long as those with which the demo begins arrive, a
	// like may be gone before the page asks again, so another one follows when the page has.
	var given []string
	seen := "nothing"
	testenv.Eventually(t, "a like arrives", func() bool {
		shown := eval[string](p, "[...document.querySelectorAll('.webhook code')].map((e) => e.textContent).join()")
		if slices.ContainsFunc(given, func(data string) bool { return strings.Contains(shown, data) }) {
			return true
		}
		if shown != seen && len(given) < len(others) {
			seen = shown
			friend := string(others[len(given)].User)
			callAPI(t, people[0].Token, http.MethodPut, base+"/v1/boards/steps/likes/"+strings.ReplaceAll(friend, "|", "%7C"), nil, nil)
			data := testenv.Must(json.Marshal(map[string]any{"board": "steps", "date": friends.Date, "from": people[0].UserID, "to": friend}))
			given = append(given, `"data":`+string(data))
		}
		return false
	})
	p.until("friend requests have arrived", "[...document.querySelectorAll('.webhook b')].some((e) => e.textContent === 'friend.requested')")
	p.until("results have arrived", "[...document.querySelectorAll('.webhook b')].some((e) => e.textContent === 'board.final')")
	if text := eval[string](p, "document.body.textContent"); strings.Contains(text, "forged") {
		t.Error("a message without a signature is shown")
	}
	for _, v := range []viewport{narrow, phone, desktop} {
		p.emulate(v)
		p.checkLayout("webhooks")
		p.screenshot(fmt.Sprintf("webhooks-%d", v.width))
	}
}
