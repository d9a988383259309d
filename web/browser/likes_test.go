package browser

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"stepboard/internal/testenv"
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
