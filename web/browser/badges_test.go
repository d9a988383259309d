package browser

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// friendRequest is a friend request of the viewer's, by or to another user.
func friendRequest(user, direction string) any {
	return map[string]any{"user_id": user, "nickname": "", "avatar_url": "", "direction": direction, "created_at": "2026-11-20T01:00:00Z"}
}

// badge is an expression for what the badge of a tab says.
func badge(tab string) string {
	return "(document.querySelector('.tabs a[href=\"" + tab + "\"] .badge .visually-hidden')?.textContent ?? '')"
}

// The tabs say how many friend requests wait, and how many likes have come since today's ranking was
// seen.
func TestBadges(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(withLikes(rankingFrom(1, 2, 1), 2))
	f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{friendRequest("2", "incoming"), friendRequest("3", "outgoing"), friendRequest("4", "incoming")}})
	f.handle("DELETE /v1/friends/requests/2", func(w http.ResponseWriter, _ *http.Request) {
		f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{friendRequest("4", "incoming")}})
		w.WriteHeader(http.StatusNoContent)
	})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/history", fakeToken())
	p.goTo("#/")
	p.until("requests are counted", badge("#/friends")+" === '2 friend requests'")
	p.until("the likes are seen", badge("#/")+" === ''")
	p.checkAccess("tabs with a badge")
	p.checkLayout("tabs with a badge")
	p.screenshot("badges-390")

	p.goTo("#/friends")
	f.ranks(withLikes(rankingFrom(1, 2, 1), 5))
	p.until("the requests are there", "document.querySelector('.person-actions .button') !== null")
	p.click(".person-actions .button") // declines
	p.until("one request is left", badge("#/friends")+" === '1 friend request'")
	p.until("new likes are counted", badge("#/")+" === '3 new likes'")
	p.goTo("#/")
	p.until("they are seen", badge("#/")+" === ''")
}

// slowTimers lets a page's timers of a second and more run only when pass(milliseconds) says that
// the time has come. due() returns after how many milliseconds each of them runs.
const slowTimers = `(() => {
	const set = setTimeout, clear = clearTimeout, timers = new Map();
	let now = 0, last = 0;
	window.setTimeout = (run, ms = 0, ...rest) => {
		if (ms < 1000) return set(run, ms, ...rest);
		timers.set(--last, { run, at: now + ms });
		return last;
	};
	window.clearTimeout = (id) => { timers.delete(id); clear(id); };
	window.due = () => [...timers.values()].map(({ at }) => at - now);
	window.pass = (ms) => {
		now += ms;
		for (const [id, { run, at }] of timers) {
			if (at <= now) { timers.delete(id); run(); }
		}
	};
})()`

// The stream of today's ranking brings everything that changes in it, likes included. Beside it the
// page asks for nothing by itself; when it is seen again, it asks who wants to be a friend.
func TestTodayAsksForNothingBesideItsStream(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(withLikes(rankingFrom(1, 2, 1), 2))
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople(4))
	lines := f.streams()
	ranks := func(likes int) {
		lines <- rankingEvent(withLikes(rankingFrom(1, 2, 1), likes))
	}
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: slowTimers})
	p.must(err)
	p.signIn(f.URL, fakeToken())
	ranks(2)
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	p.until("the likes are there", heart("2")+" === 'false 2 Like User 2, 2 likes'")
	p.until("absent people are there", absentRows+" === 'User 4'")
	asked := func() []string {
		p.waitForAnswers()
		return slices.DeleteFunc(f.paths(), func(path string) bool { return !strings.HasPrefix(path, "/v1/") }) // the worker loads files
	}
	asked()
	for range 6 {
		eval[any](p, "pass(10_000)")
		lines <- ": still here\n\n"
		p.until("the page knows that the stream is alive", "due().includes(25_000)")
	}
	if calls := asked(); len(calls) > 0 {
		t.Errorf("within a minute the page asks for %q", calls)
	}
	ranks(3)
	p.until("a new like is there", heart("2")+" === 'false 3 Like User 2, 3 likes'")

	f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{friendRequest("2", "incoming")}})
	eval[any](p, "void document.dispatchEvent(new Event('visibilitychange'))")
	p.until("the request is counted", badge("#/friends")+" === '1 friend request'")
	if calls := asked(); !slices.Equal(calls, []string{"/v1/friends/requests"}) {
		t.Errorf("a page that is seen again asks for %q", calls)
	}
	p.goTo("#/history")
	if calls := asked(); !slices.Contains(calls, "/v1/boards/steps/friends") {
		t.Errorf("another tab asks for %q, not for likes", calls)
	}
	if shown := eval[string](p, badge("#/")); shown != "" {
		t.Errorf("likes that the stream has brought are %q", shown)
	}
}
