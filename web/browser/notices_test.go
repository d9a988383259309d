package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// fakePush replaces what a browser without a push service can't do: its permission, and its
// subscription, which outlives the page. Permissions are those that sessionStorage.permission says.
const fakePush = `(() => {
	const made = () => ({
		endpoint: 'https://push.example/1',
		options: { applicationServerKey: new Uint8Array(JSON.parse(localStorage.getItem('fake-push'))).buffer },
		toJSON: () => ({ endpoint: 'https://push.example/1', expirationTime: null, keys: { p256dh: 'BA', auth: 'aa' } }),
		unsubscribe: async () => { localStorage.removeItem('fake-push'); return true; },
	});
	Notification.requestPermission = async () => {
		sessionStorage.asked = Number(sessionStorage.asked ?? 0) + 1;
		return sessionStorage.permission ?? 'granted';
	};
	PushManager.prototype.getSubscription = async () => localStorage.getItem('fake-push') ? made() : null;
	PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
		if (!userVisibleOnly || applicationServerKey.length !== 3) throw new Error('options');
		localStorage.setItem('fake-push', JSON.stringify([...applicationServerKey]));
		return made();
	};
})()`

// pushes lets a fake service keep one choice, with or without Web Push, and returns a function that
// returns the calls that have changed it since it was called the last time.
func (f *fakeService) pushes(key any) (changes func() string) {
	var (
		mu     sync.Mutex
		calls  []string
		stored = []any{}
	)
	f.handle("GET /v1/me/push", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		respond(w, http.StatusOK, map[string]any{"vapid_public_key": key, "subscriptions": stored})
	})
	change := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		calls = append(calls, fmt.Sprint(r.Method, " ", body["endpoint"], " ", body["keys"], " ", body["tell"], " ", body["time_zone"]))
		if stored = []any{}; r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		stored = []any{map[string]any{"endpoint": body["endpoint"], "tell": body["tell"], "time_zone": body["time_zone"]}}
		respond(w, http.StatusOK, stored[0])
	}
	f.handle("PUT /v1/me/push", change)
	f.handle("DELETE /v1/me/push", change)
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(calls, "; ")
		calls = nil
		return text
	}
}

// toggle is the switch of a kind of notifications.
func toggle(kind string) string { return "[data-tell=" + kind + "]" }

// isOn is true if a kind of notifications is chosen, and can be changed.
func isOn(kind string, on bool) string {
	return fmt.Sprintf("document.querySelector('%[1]s') !== null && !document.querySelector('%[1]s').disabled && document.querySelector('%[1]s').checked === %[2]v", toggle(kind), on)
}

// A browser is subscribed, and asks for its permission, only when its user chooses a notification. The
// subscription ends with the last choice, when its user signs out, and when somebody else signs in.
func TestNotices(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 1))
	changes := f.pushes("AQID")
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: fakePush})
	p.must(err)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.waitForWorker()
	choose := func(kind string, on bool, want string) {
		t.Helper()
		p.click(toggle(kind))
		p.until("the choice is stored", isOn(kind, on))
		if got := changes(); got != want {
			t.Errorf("%s %v: the page calls %q, want %q", kind, on, got, want)
		}
	}
	const (
		subscribed = "localStorage.getItem('fake-push') !== null"
		keys       = "map[auth:aa p256dh:BA]"
	)
	p.goTo("#/me")
	for _, kind := range []string{"passed", "likes", "requests", "digest"} {
		p.until(kind+" is off", isOn(kind, false))
	}
	if eval[bool](p, subscribed+" || sessionStorage.asked !== undefined") {
		t.Error("the browser is asked before anything is chosen")
	}
	zone := eval[string](p, "Intl.DateTimeFormat().resolvedOptions().timeZone")
	eval[any](p, "sessionStorage.permission = 'denied'")
	p.click(toggle("likes"))
	p.until("the page says why not", "[...document.querySelectorAll('.wrong')].some((e) => e.textContent.includes('does not let the page')) && "+isOn("likes", false))
	p.checkAccess("notices")
	eval[any](p, "delete sessionStorage.permission")
	choose("passed", true, "PUT https://push.example/1 "+keys+" [passed] "+zone)
	choose("likes", true, "PUT https://push.example/1 "+keys+" [passed likes] "+zone)
	p.screenshot("notices-390")
	choose("passed", false, "PUT https://push.example/1 "+keys+" [likes] "+zone)
	choose("likes", false, "DELETE https://push.example/1 <nil> <nil> <nil>")
	if eval[bool](p, subscribed) {
		t.Error("without a choice the browser is still subscribed")
	}

	choose("digest", true, "PUT https://push.example/1 "+keys+" [digest] "+zone)
	p.click(".page > .button:last-child") // signs out
	p.until("the subscription has ended", "!("+subscribed+")")
	p.nothingKept("nothing is left of who signed out")
	if got := changes(); got != "DELETE https://push.example/1 <nil> <nil> <nil>" {
		t.Errorf("signing out calls %q", got)
	}

	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.waitForWorker()
	p.goTo("#/me")
	choose("digest", true, "PUT https://push.example/1 "+keys+" [digest] "+zone)
	eval[any](p, "localStorage.setItem('fake-push', '[9,9,9]')") // for the key of a service that was here before
	choose("likes", true, "PUT https://push.example/1 "+keys+" [likes digest] "+zone)
	if got := eval[string](p, "localStorage.getItem('fake-push')"); got != "[1,2,3]" {
		t.Errorf("it is subscribed for the key %s", got)
	}
	p.open("about:blank")
	p.open(f.URL + "/#token=" + tokenOf("2", ""))
	p.until("another user ends it", "!("+subscribed+") && localStorage.push === undefined")
}

// Without Web Push one can choose to be told on the open page, and the page says that it is so. There the
// stream says who has passed.
func TestNoticesOnTheOpenPage(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	changes := f.pushes(nil)
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.goTo("#/me")
	p.until("it is off", isOn("passed", false))
	p.until("the page says that it must be open", "document.querySelector('[aria-labelledby=notices]').textContent.includes('While this page is open')")
	if n := eval[int](p, "document.querySelectorAll('[data-tell]').length"); n != 1 {
		t.Errorf("%d choices are offered", n)
	}
	zone := eval[string](p, "Intl.DateTimeFormat().resolvedOptions().timeZone")
	p.click(toggle("passed"))
	p.until("it is on", isOn("passed", true))
	if got, want := changes(), "PUT <nil> <nil> [passed] "+zone; got != want {
		t.Errorf("the page calls %q, want %q", got, want)
	}
	stream := f.stream(func(*http.Request) map[string]any { return rankingFrom(1, 2, 3, 1) })
	f.handle("GET /v1/boards/steps/friends/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		text, _ := json.Marshal(map[string]any{"board": "steps", "date": fakeDay, "user_id": "1", "rank": 3, "was": 1, "passed_by": []any{
			map[string]any{"user_id": "2", "nickname": "User 2"}, map[string]any{"user_id": "3", "nickname": ""},
		}})
		_, _ = fmt.Fprintf(w, "event: passed\ndata: %s\n\n", text)
		stream(w, r)
	})
	p.goTo("#/")
	p.until("the page says who has passed", "document.querySelector('.message').textContent === 'User 2 and #3 have passed you. You are 3rd now.'")
}

// The worker makes a sentence of what it is sent. A tap leads to the person in today's list.
func TestNoticesWhileThePageIsClosed(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(friendsOf(50, 1))
	p := newPage(t, phone)
	p.reduceMotion()
	window, err := chromedp.Call(p.ctx, target.GetTargetInfo, target.GetTargetInfoParams{})
	p.must(err)
	_, err = chromedp.Call(p.ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: "granted", Origin: f.URL, BrowserContextID: window.TargetInfo.BrowserContextID,
	})
	p.must(err)
	registered := make(chan serviceworker.RegistrationID, 100)
	p.must(chromedp.Listen(p.ctx, func(event any) {
		if e, ok := event.(*serviceworker.EventWorkerRegistrationUpdated); ok {
			for _, r := range e.Registrations {
				if strings.HasPrefix(r.ScopeURL, f.URL) && !r.IsDeleted {
					registered <- r.RegistrationID
				}
			}
		}
	}))
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	p.waitForWorker()
	_, err = chromedp.Call(p.ctx, serviceworker.Enable, cdp.Empty{})
	p.must(err)
	id := testenv.Receive(t, "a registration", registered)
	person := func(id, name string) map[string]any { return map[string]any{"user_id": id, "nickname": name} }
	for _, c := range []struct {
		notice map[string]any
		want   string
	}{
		{map[string]any{"type": "rank.passed", "date": fakeDay, "people": []any{person("40", "User 40"), person("3", "")}, "rank": 3, "total": 50, "url": "#/day/" + fakeDay},
			"User 40 and #3 have passed you|You are number 3 of 50 now|/#/at/40/" + fakeDay},
		{map[string]any{"type": "like.given", "date": fakeDay, "people": []any{person("4", "\u202eUser 4")}, "url": "#/day/" + fakeDay},
			"User 4 likes your steps||/#/at/4/" + fakeDay},
		{map[string]any{"type": "friend.requested", "date": "", "people": []any{person("9", "User 9")}, "url": "#/friends"},
			"User 9 wants to be your friend||/#/friends"},
		{map[string]any{"type": "digest.ready", "date": fakeDay, "people": nil, "rank": 3, "total": 19, "url": "#/day/" + fakeDay},
			"Today you are number 3 of 19 among friends||/#/day/" + fakeDay},
	} {
		data, _ := json.Marshal(c.notice)
		shown := fmt.Sprintf(`navigator.serviceWorker.ready.then((r) => r.getNotifications()).then((all) => all.some(({ title, body, data }) =>
			title.replace(/[\u2068\u2069]/g, '') + '|' + body + '|' + data.slice(location.origin.length) === %q))`, c.want)
		// Chromium may drop a message to a worker that is about to stop; a second one replaces the first.
		p.eventually("the notification says: "+c.want, func() bool {
			_, err := chromedp.Call(p.ctx, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{
				Origin: f.URL, RegistrationID: id, Data: string(data),
			})
			p.must(err)
			holds, _ := ask[bool](p, shown)
			return holds
		})
	}

	// Where a tap leads. Only a real one may wait for more and raise the window.
	p.goTo("#/groups")
	worker(p, `registration.getNotifications().then((all) =>
		dispatchEvent(new NotificationEvent('notificationclick', { notification: all.find(({ tag }) => tag === 'rank.passed') })))`)
	p.until("the page has left", "location.hash === '#/at/40/"+fakeDay+"'")
	p.until("the person's row is in sight and has the focus", `(() => {
		const row = document.querySelector('.ranking [data-user="40"]');
		const box = row?.getBoundingClientRect();
		return box !== undefined && box.top > 0 && box.bottom < innerHeight && row.contains(document.activeElement);
	})()`)
	p.goTo("#/groups")
	p.goTo("#/at/40/" + dayBefore)
	p.until("a day that is over is shown by itself", "location.hash === '#/day/"+dayBefore+"'")
}

// worker evaluates a JavaScript expression in the worker of a page.
func worker(p *page, js string) {
	p.t.Helper()
	window, err := chromedp.Call(p.ctx, target.GetTargetInfo, target.GetTargetInfoParams{})
	p.must(err)
	targets, err := chromedp.Call(p.ctx, target.GetTargets, target.GetTargetsParams{})
	p.must(err)
	for _, info := range targets.TargetInfos {
		if info.Type != "service_worker" || info.BrowserContextID != window.TargetInfo.BrowserContextID {
			continue
		}
		ctx, cancel := context.WithTimeout(p.ctx, longestWait)
		defer cancel()
		ctx, detach := chromedp.NewContext(ctx, chromedp.WithTargetID(info.TargetID), chromedp.WithDetachOnCancel())
		defer detach()
		_, err := chromedp.Run(ctx, chromedp.Evaluate[any](js, chromedp.EvalAwaitPromise))
		p.must(err)
		return
	}
	p.t.Fatal("the page has no worker")
}
