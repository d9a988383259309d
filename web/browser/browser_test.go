// Package browser tests the page in Chromium.
package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(ending{m}, goleak.Cleanup(func(status int) {
		testenv.RemoveBinary()
		os.Exit(status)
	}))
}

// ending stops the browser after the tests.
type ending struct{ *testing.M }

func (m ending) Run() int {
	defer func() {
		if chromium.ctx != nil {
			if err := chromedp.Cancel(chromium.ctx); err != nil {
				fmt.Fprintln(os.Stderr, "close browser:", err)
			}
			chromium.end()
		}
	}()
	return m.M.Run()
}

// chromium is the browser of all tests, as starting one takes longer than most of them need.
var chromium struct {
	start sync.Once
	ctx   context.Context //nolint:containedctx // chromedp keeps the browser in it
	end   context.CancelFunc
	err   error
}

func startBrowser() {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run its sandbox as root
	}
	chromium.ctx, chromium.end = chromedp.NewExecAllocator(context.Background(), options...)
	chromium.ctx, _ = chromedp.NewContext(chromium.ctx)
	chromium.err = chromedp.Do(chromium.ctx)
}

// screenshots is the folder for pictures of the screens, for people to look at. Without one
// the tests take none, as pictures take a third of their time.
var screenshots = os.Getenv("SCREENSHOTS")

// viewport holds the settings of a browser.
type viewport struct {
	width, height int64
	dark          bool
	language      string // en-US if empty
}

var (
	phone    = viewport{width: 390, height: 844}
	narrow   = viewport{width: 320, height: 640}
	sideways = viewport{width: 844, height: 390}
	desktop  = viewport{width: 1280, height: 800}
)

// pageSlots limits the pages that are open at once, as each needs a core.
var pageSlots = make(chan struct{}, 2)

// page is a page in a window of its own, which shares no storage with others.
type page struct {
	t   testing.TB
	ctx context.Context //nolint:containedctx // chromedp keeps the browser in it

	ignored []fault  // by ignoreFaults, each with the time until which it is
	window  viewport // as emulate has set it
	still   bool     // by reduceMotion

	mu       sync.Mutex
	faults   []fault
	requests map[network.RequestID]string // address of each request
	order    []string                     // of the addresses
	pending  map[network.RequestID]bool   // of this document, not yet answered
	bytes    map[string]float64           // received by address, compressed, with headers
}

// fault is an error that the page or the browser logs.
type fault struct {
	text string
	at   time.Time // by the browser's clock, which is the test's
}

// newPage opens a window, which closes with the test. Errors that the page or the browser
// logs fail the test, unless it ignores them by ignoreFaults.
func newPage(t testing.TB, v viewport) *page {
	t.Helper()
	chromium.start.Do(startBrowser)
	if chromium.err != nil {
		t.Fatalf("start chromium (Debian's package is chromium): %v", chromium.err)
	}
	return openPage(chromium.ctx, t, v, chromedp.WithNewBrowserContext())
}

// openPage opens a window of a browser.
func openPage(browser context.Context, t testing.TB, v viewport, options ...chromedp.ContextOption) *page {
	t.Helper()
	pageSlots <- struct{}{}
	t.Cleanup(func() { <-pageSlots })
	ctx, closePage := chromedp.NewContext(browser, options...)
	p := &page{t: t, ctx: ctx, bytes: make(map[string]float64), requests: make(map[network.RequestID]string), pending: make(map[network.RequestID]bool)}
	t.Cleanup(func() {
		closePage()
		for _, found := range p.faults {
			if !p.ignores(found) {
				t.Error(found.text)
			}
		}
	})
	p.must(chromedp.Do(ctx))
	p.must(chromedp.Listen(ctx, p.record))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	p.must(err)
	if v.language == "" {
		v.language = "en-US"
	}
	_, err = chromedp.Call(p.ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
		UserAgent: eval[string](p, "navigator.userAgent"), AcceptLanguage: v.language,
	})
	p.must(err)
	_, err = chromedp.Call(p.ctx, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: v.language})
	p.must(err)
	_, err = chromedp.Call(p.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.must(err)
	p.emulate(v)
	return p
}

func (p *page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// emulate changes the window size and the colour scheme.
func (p *page) emulate(v viewport) {
	p.t.Helper()
	p.window = v
	scheme, motion := "light", "no-preference"
	if v.dark {
		scheme = "dark"
	}
	if p.still {
		motion = "reduce"
	}
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion}},
	})
	p.must(err)
	options := []chromedp.EmulateViewportOption{chromedp.EmulateScale(2)}
	if v.width < 900 {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	p.must(chromedp.Do(p.ctx, chromedp.EmulateViewport(v.width, v.height, options...)))
}

// reduceMotion sets what users set who want no animations. Tests that look at hundreds of screens
// need not wait for them then.
func (p *page) reduceMotion() {
	p.t.Helper()
	p.still = true
	p.emulate(p.window)
}

// record handles events of the browser. It must not wait for the browser.
func (p *page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	logged := func(at runtime.Timestamp, text string) {
		p.faults = append(p.faults, fault{text, time.UnixMicro(int64(1000 * at))})
	}
	switch e := event.(type) {
	case *log.EventEntryAdded:
		logged(e.Entry.Timestamp, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventConsoleAPICalled:
		logged(e.Timestamp, fmt.Sprintf("console: %s", e.Type))
	case *runtime.EventExceptionThrown:
		text := "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += ": " + e.ExceptionDetails.Exception.Description
		}
		logged(e.Timestamp, text)
	case *network.EventRequestWillBeSent:
		p.requests[e.RequestID] = e.Request.URL
		p.order = append(p.order, e.Request.URL)
		if e.Type == network.ResourceTypeDocument { // the browser may never tell how requests of the one before have ended
			clear(p.pending)
		}
		p.pending[e.RequestID] = true
	case *network.EventResponseReceived:
		if e.Response.MimeType == "text/event-stream" { // it does not end
			delete(p.pending, e.RequestID)
		}
	case *network.EventLoadingFinished:
		p.bytes[p.requests[e.RequestID]] += e.EncodedDataLength
		delete(p.pending, e.RequestID)
	case *network.EventLoadingFailed:
		delete(p.pending, e.RequestID)
	}
}

// waitForAnswers waits until every request is answered and what the answers bring is drawn,
// which asks for nothing else.
func (p *page) waitForAnswers() {
	p.t.Helper()
	count := func() (asked, pending int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.order), len(p.pending)
	}
	p.eventually("all requests are answered", func() bool {
		before, pending := count()
		if pending > 0 {
			return false
		}
		if _, left := ask[any](p, drawn); left {
			return false
		}
		asked, pending := count()
		return asked == before && pending == 0
	})
}

// drawn waits until the page is drawn and what runs afterwards has run.
const drawn = `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))`

// ignoreFaults ignores the faults up to now that contain text. They may still be on their way:
// the browser reports what it logs later than it shows what caused it.
func (p *page) ignoreFaults(text string) {
	p.ignored = append(p.ignored, fault{text, time.Now()})
}

func (p *page) ignores(found fault) bool {
	return slices.ContainsFunc(p.ignored, func(i fault) bool {
		return strings.Contains(found.text, i.text) && !found.at.After(i.at)
	})
}

// requestsTo returns the addresses requested so far that contain text.
func (p *page) requestsTo(text string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, address := range p.order {
		if strings.Contains(address, text) {
			found = append(found, address)
		}
	}
	return found
}

func (p *page) open(url string) {
	p.t.Helper()
	p.must(chromedp.Do(p.ctx, chromedp.Navigate(url)))
}

// reload loads the page anew. The browser refuses that while a page is replaced by another one, and is asked again then.
func (p *page) reload() {
	p.t.Helper()
	p.eventually("the page is loaded anew", func() bool {
		err := chromedp.Do(p.ctx, chromedp.Reload())
		if says(err, "Not attached to an active page") {
			return false
		}
		p.must(err)
		return true
	})
}

// goTo opens another screen of the page, and waits until the old one is gone.
func (p *page) goTo(hash string) {
	p.t.Helper()
	eval[any](p, fmt.Sprintf(`window.opened = location.hash === %[1]q;
		addEventListener('hashchange', () => requestAnimationFrame(() => { window.opened = true; }), { once: true });
		location.hash = %[1]q`, hash))
	p.until(hash+" is opened", "window.opened")
}

func eval[T any](p *page, js string) T {
	p.t.Helper()
	v, err := evaluate(p, chromedp.Evaluate[T](js))
	p.must(err)
	return v
}

// evaluate asks the page. A question that the page never answers is an error.
func evaluate[T any](p *page, question chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, longestWait)
	defer cancel()
	return chromedp.Run(ctx, question)
}

// ask evaluates a JavaScript expression, and waits for what it promises. left reports that the page
// left for another one meanwhile; then there is no value.
func ask[T any](p *page, js string) (v T, left bool) {
	p.t.Helper()
	v, err := evaluate(p, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if says(err, "Inspected target navigated or closed") {
		return v, true
	}
	p.must(err)
	return v, false
}

// says reports whether the browser refused something with this message.
func says(err error, message string) bool {
	refused := new(cdproto.Error)
	return errors.As(err, &refused) && refused.Message == message
}

// longestWait is how long a page may take for anything, on any machine.
const longestWait = 2 * time.Minute

// until waits until a JavaScript expression, or what it promises, is true. The page may leave for
// another one meanwhile.
func (p *page) until(what, js string) {
	p.t.Helper()
	p.eventually(what, func() bool {
		holds, left := ask[bool](p, js)
		return holds && !left
	})
}

// eventually waits until a condition holds, for longestWait at most. Then it says what the page
// shows, and what it has asked for last.
func (p *page) eventually(what string, condition func() bool) {
	p.t.Helper()
	began := time.Now()
	testenv.Eventually(p.t, what, func() bool {
		if condition() {
			return true
		}
		if time.Since(began) > longestWait {
			shown, _ := ask[string](p, "location.href + '\\n' + document.body.innerText")
			asked := p.requestsTo("")
			p.t.Fatalf("not within %v: %s. The page has asked for %q and shows %s", longestWait, what, asked[max(0, len(asked)-20):], shown)
		}
		return false
	})
}

// speak switches to a language by the button for it, if the page has another one.
func (p *page) speak(language string) {
	p.t.Helper()
	if eval[string](p, "document.documentElement.lang") == language {
		return
	}
	p.click(".language")
	p.until("the page is in "+language, fmt.Sprintf("document.documentElement.lang === %q", language))
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.until(selector+" can be clicked", fmt.Sprintf("!!document.querySelector(%[1]q) && !document.querySelector(%[1]q).disabled", selector))
	ask[any](p, fmt.Sprintf("document.querySelector(%q).click()", selector)) // which may be what leaves
}

// set sets a field, as typing or choosing does.
func (p *page) set(selector, value string) {
	p.t.Helper()
	p.until(selector+" is there", fmt.Sprintf("!!document.querySelector(%q)", selector))
	eval[any](p, fmt.Sprintf(`void (() => {
		const field = document.querySelector(%q);
		field.value = %q;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		field.dispatchEvent(new Event('change', { bubbles: true }));
	})()`, selector, value))
}

func (p *page) typeIn(selector, text string) {
	p.t.Helper()
	p.must(chromedp.Do(p.ctx, chromedp.SendKeys(selector, text)))
}

// press types a key into what has the focus.
func (p *page) press(key string) {
	p.t.Helper()
	p.must(chromedp.Do(p.ctx, chromedp.KeyEvent(key)))
}

// row is a row of a ranked list on the page.
type row struct {
	User, Name string
	Rank       int64
	Score      int64
}

// rows reads the ranked list.
func (p *page) rows() []row {
	p.t.Helper()
	return eval[[]row](p, `[...document.querySelectorAll('.ranking > li')].map((li) => ({
		User: li.dataset.user, Name: li.querySelector('.name').textContent,
		Rank: Number(li.querySelector('.rank').textContent.replace(/,/g, '')), Score: Number(li.querySelector('.score').textContent.replace(/,/g, '')),
	}))`)
}

// rowsOf returns the rows that the page should show for a ranking.
func rowsOf(r models.Ranking) []row {
	rows := []row{}
	for _, e := range r.Entries {
		name := e.Nickname
		if name == "" {
			name = "#" + string(e.User)
		}
		rows = append(rows, row{User: string(e.User), Name: name, Rank: e.Rank, Score: e.Score})
	}
	return rows
}

// screenshot saves a picture of the window, if there is a folder for it.
func (p *page) screenshot(name string) {
	p.t.Helper()
	if screenshots != "" {
		p.picture(screenshots, name)
	}
}

// picture saves a picture of the window in a folder, and returns its bytes.
func (p *page) picture(folder, name string) int {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	p.must(err)
	p.must(os.MkdirAll(folder, 0o755))
	p.must(os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
	return len(png)
}

// waitForAnimations waits until all animations have ended, except for those that
// repeat for ever.
func (p *page) waitForAnimations() {
	p.t.Helper()
	p.until("animations have ended", `document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getComputedTiming().iterations === Infinity)`)
}

// checkLayout checks that nothing is wider than the window and that the viewer's
// row is visible.
func (p *page) checkLayout(where string) {
	p.t.Helper()
	p.waitForAnimations()
	type layout struct {
		Wide    []string
		Scrolls bool
		Own     bool
	}
	l := eval[layout](p, `(() => {
		const tabs = document.querySelector('.tabs')?.getBoundingClientRect(); // the console has none
		const bottom = tabs?.top > 100 ? tabs.top : innerHeight;
		const own = document.querySelector('.ranking .own')?.getBoundingClientRect();
		const out = (e) => { const r = e.getBoundingClientRect(); return r.left < -0.5 || r.right > document.documentElement.clientWidth + 0.5; };
		return {
			Wide: [...document.querySelectorAll('.card, .hero, .row, .row .score, .top, .button, h1')].filter((e) => !e.classList.contains('visually-hidden') && out(e)).map((e) => e.className + ' ' + e.tagName),
			Scrolls: document.documentElement.scrollWidth > document.documentElement.clientWidth,
			Own: !own || getComputedStyle(document.querySelector('.ranking .own')).position !== 'sticky' || (own.top >= 0 && own.bottom <= Math.max(bottom, document.querySelector('.ranking').getBoundingClientRect().top + own.height) + 1),
		};
	})()`)
	if len(l.Wide) > 0 || l.Scrolls || !l.Own {
		p.t.Errorf("%s: %+v", where, l)
	}
}

// callAPI makes a call of the API and decodes the response into answer.
func callAPI(t testing.TB, bearer, method, url string, body, answer any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = res.Body.Close()
	}
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %v: %s", method, url, res.StatusCode, err, text)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s %s: %v: %s", method, url, err, text)
	}
}

func rankingOf(t testing.TB, base, bearer, query string) (r models.Ranking) {
	t.Helper()
	callAPI(t, bearer, http.MethodGet, base+"/v1/boards/steps/friends"+query, nil, &r)
	return r
}

// daysAgo returns the day n days before a day, both as YYYY-MM-DD.
func daysAgo(t testing.TB, day string, n int) string {
	t.Helper()
	d, err := models.ParseDate(day)
	if err != nil {
		t.Fatal(err)
	}
	return (d - models.Date(n)).String()
}
