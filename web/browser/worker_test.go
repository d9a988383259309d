package browser

import (
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
	"stepboard/web"
)

// build returns the site of another build of the service. Its document and one of its modules, which
// is loaded first, say that they are of it.
func build(t *testing.T, name string, change func(fstest.MapFS)) *web.Site {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(web.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path] = &fstest.MapFile{Data: testenv.Must(fs.ReadFile(web.Files(), path))}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text := func(path string) string { return string(files[path].Data) }
	files["page/index.html"].Data = []byte(strings.Replace(text("page/index.html"), "<html ", `<html data-build="`+name+`" `, 1))
	files["page/view.js"].Data = []byte(text("page/view.js") + "\nwindow.build = '" + name + "';\n")
	files["page/history.js"].Data = []byte(text("page/history.js") + "\nwindow.historyBuild = '" + name + "';\n")
	change(files)
	return web.New(files, web.Options{})
}

func unchanged(fstest.MapFS) {}

// shows is true once the ranking is shown by a build, by its document as well as its modules.
func shows(build string) string {
	return rankingShown + " && document.documentElement.dataset.build === '" + build + "' && window.build === '" + build + "'"
}

// keptFiles is a promise of the paths of everything that the page's worker keeps.
const keptFiles = `(async () => {
	const caching = await Promise.all((await caches.keys()).map((name) => caches.open(name)));
	const requests = await Promise.all(caching.map((cache) => cache.keys()));
	return requests.flat().map(({ url }) => new URL(url).pathname);
})()`

// promised returns what a promise resolves to.
func promised[T any](p *page, js string) T {
	p.t.Helper()
	v, err := evaluate(p, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	p.must(err)
	return v
}

// workers is a promise of the number of workers that are registered.
const workers = "navigator.serviceWorker.getRegistrations().then((all) => all.length)"

// nothingKept waits until there is no worker, no kept file and no ranking.
func (p *page) nothingKept(what string) {
	p.t.Helper()
	p.until(what, "(async () => await "+workers+" === 0 && (await caches.keys()).length === 0 && !localStorage.ranking)()")
}

// openWithWorker opens the page of the first build, signed in, and waits until the
// worker has kept it.
func (p *page) openWithWorker(f *fakeService) {
	p.t.Helper()
	p.reopen(f)
	p.until("the first build is shown", shows("first"))
	p.waitForWorker()
}

// waitForWorker waits until the worker has kept the page.
func (p *page) waitForWorker() {
	p.t.Helper()
	p.until("the worker is active", "!!navigator.serviceWorker.controller")
	p.until("the page is kept", "(async () => (await "+keptFiles+").includes('/'))()")
}

// reopen leaves the page and opens it again, as an app does that hands a token over.
func (p *page) reopen(f *fakeService) {
	p.t.Helper()
	p.open("about:blank")
	p.open(f.URL + "/#token=" + fakeToken())
}

func newBuiltService(t *testing.T) *fakeService {
	t.Helper()
	f := newFakeService(t, false)
	f.install(build(t, "first", unchanged))
	f.ranks(rankingFrom(1, 2, 3, 1))
	return f
}

// After an upgrade the next load shows the new page, and a page that is still open goes on with
// its own files. The worker's address and name stay.
func TestWorkerUpgrade(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	worker := eval[string](p, "navigator.serviceWorker.controller.scriptURL + ' ' + window.trustedTypes.emptyHTML")
	if want := f.URL + "/worker.js "; worker != want {
		t.Errorf("the worker is %q, want %q", worker, want)
	}
	first := f.site.Assets
	f.install(build(t, "second", unchanged))
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	p.goTo("#/history")
	p.until("the open page loads a module of its own build", "window.historyBuild === 'first'")

	p.reopen(f)
	p.until("the new page is shown", shows("second"))
	p.until("the new page is kept", fmt.Sprintf("(async () => (await %s).some((path) => path.startsWith(%q)))()", keptFiles, f.site.Assets))
	p.goTo("#/history")
	p.until("its later modules are new", "window.historyBuild === 'second'")

	f.install(build(t, "third", unchanged))
	p.reopen(f)
	p.until("the third page is shown", shows("third"))
	for _, path := range promised[[]string](p, keptFiles) {
		if strings.HasPrefix(path, first) {
			t.Errorf("%s of the first build is still kept", path)
		}
	}
}

// While the processes of a service are replaced, one may have a document whose files another one
// does not have. The load shows the whole old page then.
func TestWorkerHalfUpgrade(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	second := build(t, "second", unchanged)
	document, _ := second.Find("/")
	f.handle("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", document.ContentType)
		w.Header().Set("Content-Security-Policy", document.Policy)
		_, _ = w.Write(document.Body)
	})
	f.paths()
	p.reopen(f)
	p.until("the old page is shown", shows("first"))
	if asked := f.paths(); !slices.Contains(asked, second.Assets+"page/files.json") {
		t.Errorf("the worker has not asked for the new page: %q", asked)
	}
	f.refuses("GET /", http.StatusBadGateway, "unavailable")
	p.reopen(f)
	p.until("the old page is shown instead of an error", shows("first"))
	f.install(second)
	f.handle("GET /", nil)
	p.reopen(f)
	p.until("the new page is shown", shows("second"))
	p.ignoreFaults("40")
	p.ignoreFaults("502")
}

// A build of the service whose document names no worker removes it.
func TestWorkerRemoved(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	f.install(build(t, "second", func(files fstest.MapFS) {
		files["page/index.html"].Data = []byte(strings.Replace(string(files["page/index.html"].Data), " data-worker", "", 1))
	}))
	p.reopen(f)
	p.until("the page is shown", shows("second"))
	p.until("the worker and its files are gone", "(async () => await "+workers+" === 0 && (await "+keptFiles+").length === 0)()")
}

// Without a connection the page opens with the last ranking and says of when it is. Calls of the API
// are neither kept nor answered, and the console and the reference are not the worker's.
func TestWorkerOffline(t *testing.T) {
	t.Parallel()
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	for _, path := range promised[[]string](p, keptFiles) {
		if path != "/" && !strings.HasPrefix(path, f.site.Assets+"page/") {
			t.Errorf("%s is kept", path)
		}
	}
	f.leave(true)
	p.reopen(f)
	p.until("the last ranking is shown", shows("first")+" && document.querySelectorAll('.ranking > li').length === 3")
	p.until("the page says that it is offline", "document.querySelector('.pill.lost') !== null")
	p.screenshot("offline-kept-390")
	for _, path := range []string{"/v1/boards", "/v1/boards/steps/friends", "/console", "/docs", "/openapi.json", "/worker.js"} {
		if promised[bool](p, "fetch('"+path+"').then(() => true, () => false)") {
			t.Errorf("%s is answered without the service", path)
		}
	}
	for _, path := range []string{"/console", "/docs"} {
		if err := chromedp.Do(p.ctx, chromedp.Navigate(f.URL+path)); err == nil {
			t.Errorf("%s is opened without the service", path)
		}
	}

	// A ranking of yesterday is not shown as today's.
	p.open(f.URL + "/")
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	eval[any](p, "void (localStorage.ranking = JSON.stringify({ ...JSON.parse(localStorage.ranking), at: Date.now() - 86400000 }))")
	p.reopen(f)
	p.until("it has its date", rankingShown+" && document.querySelector('h1').textContent.includes('November') && document.querySelector('.hero') === null")
	p.screenshot("offline-old-390")
	f.leave(false)
	p.until("it is live again", "document.querySelector('.hero .pill.live') !== null")

	// The ranking belongs to its user, whichever token they have: nobody else sees it, and nobody without one.
	f.leave(true)
	p.onLine(false)
	p.open("about:blank")
	p.open(f.URL)
	p.until("the page asks for a token", "document.querySelector('#token') !== null && document.querySelector('.ranking') === null")
	for token, shown := range map[string]string{
		tokenOf("2", "x"): "document.querySelector('.notice') !== null && document.querySelector('.ranking') === null",
		tokenOf("1", "y"): rankingShown,
	} {
		p.open("about:blank")
		p.open(f.URL + "/#token=" + token)
		p.until("the last ranking is its user's", shown)
	}
	p.onLine(true)
	p.ignoreFaults("ERR_")
	p.ignoreFaults("fetching the script")
}

// onLine sets whether the browser has a network.
func (p *page) onLine(is bool) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: !is, DownloadThroughput: -1, UploadThroughput: -1})
	p.must(err)
}

// A page that was opened while the service was away comes back by itself, and at once when somebody
// asks for it, or the network returns.
func TestComesBack(t *testing.T) {
	t.Parallel()
	const (
		kept = rankingShown + " && document.querySelector('.banner .button') !== null && document.querySelector('.hero') === null"
		live = "document.querySelector('.hero .pill.live') !== null"
	)
	f := newFakeDemo(t)
	f.ranks(rankingFrom(1, 2, 3, 1))
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the page is live", live)
	p.waitForWorker()
	for name, back := range map[string]func(){
		"by itself":   func() { f.leave(false) },
		"by a button": func() { f.leave(false); p.click(".banner .button") },
		"when the page is seen again": func() {
			f.leave(false)
			eval[any](p, "void document.dispatchEvent(new Event('visibilitychange'))")
		},
	} {
		f.leave(true)
		p.open("about:blank")
		p.open(f.URL)
		p.until("the last ranking is shown, "+name, kept)
		p.screenshot("demo-away-390")
		back()
		p.until("the page comes back "+name, live)
	}
	f.leave(true)
	p.onLine(false)
	p.open("about:blank")
	p.open(f.URL)
	p.until("the last ranking is shown without a network", kept)
	p.checkAccess("the page without a connection")
	f.leave(false)
	p.onLine(true)
	p.until("the page comes back with the network", live)
	p.ignoreFaults("ERR_")
	p.ignoreFaults("fetching the script")
}

// An open page says that the service is away, asks again when a button is pressed, and comes back.
func TestAnOpenPageSaysThatTheServiceIsAway(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	for _, dark := range []bool{false, true} {
		t.Run(fmt.Sprintf("dark %v", dark), func(t *testing.T) {
			t.Parallel()
			f := newBuiltService(t)
			v := phone
			v.dark = dark
			p := newPage(t, v)
			p.openWithWorker(f)
			p.until("the page is live", "document.querySelector('.hero .pill.live') !== null")
			f.leave(true)
			p.until("the page says that it is offline", "document.querySelector('.hero .pill.lost') !== null && document.querySelector('.goal.banner .button') !== null")
			p.checkAccess("an open page whose service is away")
			p.screenshot(fmt.Sprintf("away-390-%v", dark))
			f.leave(false)
			p.click(".goal.banner .button")
			p.until("the page is live again", "document.querySelector('.hero .pill.live') !== null")
			p.ignoreFaults("ERR_")
		})
	}
}

// A walk that has no answer is not shown as if it were counted.
func TestWalkNotSent(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeDemo(t)
	f.ranks(rankingFrom(1, 2, 3, 1))
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the ranking is there", rankingShown)
	f.handle("POST /v1/boards/steps/scores", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	p.click(".actions .button")
	p.until("the page says so", "document.querySelector('.message').textContent.includes('not confirmed')")
	p.screenshot("walk-not-sent-390")
	p.ignoreFaults("ERR_")
}

// A service that does not answer is not waited for.
func TestWorkerHangingService(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	f.handle("GET /", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.reopen(f)
	p.until("the kept page is shown", shows("first"))
}

// A page that is opened again has the last ranking before the service answers.
func TestKeptRanking(t *testing.T) {
	t.Parallel()
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	f.handle("GET /v1/boards/steps/friends", hang)
	f.handle("GET /v1/boards/steps/friends/stream", hang)
	p.reopen(f)
	p.until("the last ranking is shown", rankingShown)
}

// Who signs out, whose token is refused, and who deletes everything leaves nothing behind.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newBuiltService(t)
	p := newPage(t, phone)
	p.openWithWorker(f)
	p.goTo("#/me")
	p.click(".page > .button")
	p.nothingKept("after signing out")

	p.openWithWorker(f)
	f.returns("DELETE /v1/me", map[string]any{"erasure_id": 1})
	p.goTo("#/me")
	p.click("#delete")
	p.set("#delete-word", "delete")
	p.click(".deletion .danger")
	p.nothingKept("after erasure")

	p.openWithWorker(f)
	f.checks(func(*http.Request) bool { return false })
	f.handle("GET /", nil) // the stream ends, and the page connects again
	p.nothingKept("after a token was refused")
	p.waitForAnswers()
	p.ignoreFaults("401")
}
