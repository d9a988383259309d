package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// firstAddress matches the address with the first code that serve prints.
var firstAddress = regexp.MustCompile(`(?m)^  (http\S+/#code/\S+)$`)

// home is a data folder that is served at an address of its own, as a family does.
type home struct {
	t     *testing.T
	dir   string
	port  string
	flags []string
	*testenv.Command
}

// serveHome serves an empty folder, at an address of the machine that is not loopback.
func serveHome(t *testing.T, flags ...string) *home {
	t.Helper()
	h := &home{t: t, dir: t.TempDir(), port: strconv.Itoa(testenv.FreePort(t)), flags: flags}
	h.start()
	return h
}

func (h *home) start() {
	h.t.Helper()
	h.Command = testenv.ServeFolder(h.t, h.dir, append([]string{"--http.addr=" + net.JoinHostPort(ownAddress(h.t), h.port)}, h.flags...)...)
}

// ownAddress returns an address of the machine that others reach.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			return network.IP.String()
		}
	}
	return "127.0.0.1" // a machine without a network
}

// first returns the address that the service has printed for the first user.
func (h *home) first() (address string) {
	h.t.Helper()
	testenv.Eventually(h.t, "the first code is printed", func() bool {
		if m := firstAddress.FindStringSubmatch(h.Stdout()); m != nil {
			address = m[1]
		}
		return address != ""
	})
	return address
}

// run runs a command on the folder, and returns what it prints.
func (h *home) run(args ...string) string {
	h.t.Helper()
	printed, stderr, status := testenv.Run(h.t, append(args, "--data="+h.dir)...)
	if status != 0 {
		h.t.Fatal(stderr)
	}
	return printed
}

// code returns a code that sign-in-code prints, and the id of whom it is for.
func (h *home) code(flags ...string) (code, user string) {
	h.t.Helper()
	words := strings.Fields(h.run(append([]string{"sign-in-code"}, flags...)...))
	return words[0], words[4]
}

// pairs is held while a test opens two windows: no two tests wait for each other's second one.
var pairs sync.Mutex

// newFamily opens two windows.
func newFamily(t *testing.T) (one, other *page) {
	t.Helper()
	pairs.Lock()
	defer pairs.Unlock()
	return newFamilyPage(t), newFamilyPage(t)
}

// newWindows opens two windows of one browser, which share what it stores.
func newWindows(t *testing.T) (one, other *page) {
	t.Helper()
	pairs.Lock()
	defer pairs.Unlock()
	one = newFamilyPage(t)
	return one, openPage(one.ctx, t, phone)
}

// newFamilyPage opens a window that takes the certificates of tests.
func newFamilyPage(t *testing.T) *page {
	t.Helper()
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true})
	p.must(err)
	return p
}

// enter opens the address of a code and types a name.
func (p *page) enter(address, name string) {
	p.t.Helper()
	p.open(address)
	p.until("a name is asked for", "!!document.querySelector('#name')")
	p.set("#name", name)
	p.click("form:has(#name) .strong")
	p.until(name+" is signed in", "document.querySelector('.tabs') !== null")
}

// typeCode types a code of somebody with a name into the field for it, and signs in.
func (p *page) typeCode(code, name string) {
	p.t.Helper()
	p.set("#code", code)
	p.click("form:has(#code) .strong")
	p.until("the code is "+name+"'s", "document.querySelector('#code') === null && document.querySelector('.sign-in form')?.innerText.includes('"+name+"')")
	p.click(".sign-in form .strong")
	p.until(name+" is signed in", "document.querySelector('.tabs') !== null")
}

// signedIn returns the name of who is signed in, after the page was loaded anew.
func (p *page) signedIn() string {
	p.t.Helper()
	p.reload()
	p.until("the page is there", "document.querySelector('.account .visually-hidden, .sign-in') !== null")
	p.until("the page knows who it is", "(document.querySelector('.account .visually-hidden')?.textContent ?? '').includes(': ')")
	return eval[string](p, "document.querySelector('.account .visually-hidden').textContent.split(': ')[1]")
}

// A family begins with an empty folder and the address that serve prints. Two people are in one ranking, and stay signed in
// when the service was started again, also beside another service of the same host, below a path, and with https.
func TestFamily(t *testing.T) {
	t.Parallel()
	certificate, key := testenv.NewCertificate(t, "127.0.0.1").Write(t, t.TempDir())
	for name, flags := range map[string][]string{
		"http":         nil,
		"below a path": {"--http.base_path=/steps"},
		"https":        {"--http.tls_cert=" + certificate, "--http.tls_key=" + key},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serveHome(t, flags...)
			ann, ben := newFamily(t)
			ann.enter(h.first(), "Ann")
			ann.goTo("#/groups")
			ann.set("#group-name", "Family")
			ann.click("form:has(#group-name) .button")
			ann.until("the invitation is there", "!!document.querySelector('#invite')?.value.includes('/#/join/')")
			link := eval[string](ann, "document.querySelector('#invite').value")
			ben.enter(link, "Ben")
			upload := `fetch(new URL('./v1/boards/steps/scores', location.href.split('#')[0]), {
				method: 'POST', body: JSON.stringify({ date: %DATE%, score: %SCORE% }),
				headers: { 'Content-Type': 'application/json', Authorization: 'Bearer ' + (await (await fetch(
					new URL('./v1/session/token', location.href.split('#')[0]),
					{ method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } })).json()).token },
			}).then((answer) => answer.status)`
			for score, p := range map[string]*page{"9000": ann, "7961": ben} {
				js := "(async () => " + strings.NewReplacer("%SCORE%", score, "%DATE%", "new Date().toLocaleDateString('sv', { timeZone: '"+testenv.Morning+"' })").Replace(upload) + ")()"
				if status, _ := ask[int](p, js); status != http.StatusOK {
					t.Fatalf("steps: status %d", status)
				}
			}
			group := eval[string](ann, "location.hash.split('/')[2]")
			for range 2 {
				for p, who := range map[*page]string{ann: "Ann", ben: "Ben"} {
					if got := p.signedIn(); got != who {
						t.Errorf("%s is signed in, and was %s", got, who)
					}
					p.goTo("#/groups/" + group)
					p.until("both are in the ranking", "[...document.querySelectorAll('.ranking .name')].map((name) => name.textContent).join() === 'Ann,Ben'")
					p.goTo("#/")
				}
				h.Stop()
				h.start()
			}
			for _, p := range []*page{ann, ben} {
				p.ignoreFaults("Failed to load resource") // while the service was away
				p.ignoreFaults("fetching the script")     // of the worker, for which the certificate counts
			}
		})
	}
}

// joined is somebody who has signed up.
type joined struct {
	Token string
	User  string `json:"user_id"`
}

// join signs somebody up by a code.
func (h *home) join(code, name string) (j joined) {
	h.t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"code":%q,"nickname":%q}`, code, name))
	answer, err := http.Post(h.URL+"/v1/session", "application/json", body)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&j); err != nil || answer.StatusCode != http.StatusCreated {
		h.t.Fatalf("%s signs up: status %d, %v", name, answer.StatusCode, err)
	}
	return j
}

// invited signs somebody up by another one's invitation.
func (h *home) invited(by joined, name string) joined {
	h.t.Helper()
	var invitation struct {
		Code string `json:"invite_code"`
	}
	callAPI(h.t, by.Token, http.MethodPost, h.URL+"/v1/me/invite", nil, &invitation)
	return h.join(invitation.Code, name)
}

// An operator sees who has brought whom, and erases somebody with all whom they have brought.
func TestConsoleErasesABranch(t *testing.T) {
	t.Parallel()
	h := serveHome(t, "--auth.hs256_secret="+secret, "--sign_in.join=invited")
	printed, stderr, status := testenv.Run(t, "sign-in-code", "--data="+h.dir, "--new", "Ann", "--operator")
	if status != 0 {
		t.Fatal(stderr)
	}
	code, _, _ := strings.Cut(printed, " ")
	ann := h.join(code, "")
	eve := h.invited(ann, "Eve")
	h.invited(h.invited(eve, "Fay"), "Gus")
	c := &console{page: newPage(t, desktop)}
	c.open(h.URL + "/console")
	c.until("a token is asked for", "document.querySelector('#token') !== null")
	c.typeIn("#token", sign(t, "ops", auth.ScopeAdmin))
	c.click(".sign-in .strong")
	c.until("the overview is there", "document.querySelector('.clock') !== null")
	c.goTo("#/users/" + ann.User)
	branch := "[data-action=eraseBranch]"
	c.until("Ann has brought Eve", "document.querySelector('.table[aria-label=\"Came and brought\"]')?.textContent.includes('Eve') === true")
	c.click(branch)
	c.until("the last operator stays", "document.querySelector('dialog .wrong').textContent.includes('last operator')")
	c.click("dialog .button")
	c.until("the dialog is closed", dialogClosed)
	c.goTo("#/users/" + eve.User)
	c.until("Ann has brought Eve", "[...document.querySelectorAll('.facts a')].some((link) => link.textContent === 'Ann')")
	c.act(branch, "3 users are erased", "strangers")
	c.until("the erasure is shown", "document.querySelector('main').textContent.includes('is being erased')")
	c.goTo("#/users/" + ann.User)
	c.until("Ann has brought nobody", "document.querySelector('.facts') !== null && document.querySelector('"+branch+"') === null")
	c.ignoreFaults("409") // the last operator
	c.ignoreFaults("404") // of whom was erased meanwhile
}

// Somebody signs in on a further device by a code, signs the first one out from there, and is asked before a link with a token
// replaces who is signed in.
func TestDevices(t *testing.T) {
	t.Parallel()
	h := serveHome(t, "--auth.hs256_secret="+secret)
	code, _ := h.code("--new", "Ann")
	base := h.URL + "/"
	one, other := newFamily(t)
	one.open(base)
	one.typeCode(strings.ToLower(code), "Ann")
	one.goTo("#/me/devices")
	one.click("main .strong")
	one.until("a code is there", "!!document.querySelector('[data-code]')")
	one.checkLayout("devices")
	one.checkAccess("devices")
	one.screenshot("devices-390")
	other.open(base + "#code/" + eval[string](one, "document.querySelector('[data-code]').dataset.code"))
	other.until("the code is Ann's", "document.querySelector('.sign-in form')?.innerText.includes('Ann') ?? false")
	other.click(".sign-in form .strong")
	other.until("Ann is signed in", "document.querySelector('.tabs') !== null")
	other.goTo("#/me/devices")
	other.click(".person-actions .button")
	other.until("one device is left", "document.querySelectorAll('.person').length === 1")
	one.open(base)
	one.until("the first one is signed out", "!!document.querySelector('#code')")
	one.waitForAnswers()
	one.ignoreFaults("401")

	other.open(base + "?again#token=" + sign(t, "1001", ""))
	other.until("the page asks", "document.querySelector('.sign-in')?.innerText.includes('1001') ?? false")
	other.click(".sign-in .strong")
	if got := other.signedIn(); got != "Ann" {
		t.Errorf("%s is signed in", got)
	}
}

// Somebody else signs in in another window. Then the first one is theirs, too, on its screen.
func TestOtherWindow(t *testing.T) {
	t.Parallel()
	h := serveHome(t)
	anns, _ := h.code("--new", "Ann")
	bens, _ := h.code("--new", "Ben")
	one, other := newWindows(t)
	one.open(h.URL)
	one.typeCode(anns, "Ann")
	one.goTo("#/me")
	one.until("Ann is shown", "document.querySelector('#nickname')?.value === 'Ann'")
	other.open(h.URL + "/#/me")
	other.click("main .page > .button:last-child")
	other.until("Ann is signed out", "document.querySelector('#code') !== null")
	other.typeCode(bens, "Ben")
	one.until("Ben is shown", "document.querySelector('#nickname')?.value === 'Ben' && location.hash === '#/me'")
	for _, p := range []*page{one, other} {
		p.waitForAnswers()
		p.ignoreFaults("401")
	}
}

// An operator who is signed in on the page comes into the console without a token, stays there when tokens end, and is named
// in the log. Others are asked for a token, and so is who was an operator. Somebody erased is led to signing in.
func TestConsoleBySession(t *testing.T) {
	t.Parallel()
	h := serveHome(t, "--auth.max_token_lifetime=2s")
	base := h.URL + "/"
	anns, annID := h.code("--new", "Ann", "--operator")
	bens, benID := h.code("--new", "Ben")
	h.code("--new", "Cat", "--operator")
	ann, ben := newFamily(t)
	ben.open(base + "console")
	ben.until("a token is asked for", "document.querySelector('#token') !== null && document.querySelector('.wrong').textContent === ''")
	ben.checkAccess("the console, to nobody")
	ben.click(".links a")
	ben.typeCode(bens, "Ben")
	ben.goTo("#/me")
	ben.until("the profile is there", "document.querySelector('#nickname') !== null")
	if eval[bool](ben, "document.querySelector('a[href=console]') !== null") {
		t.Error("Ben is led to the console")
	}
	ben.open(base + "console")
	ben.until("Ben is told why he is asked", "document.querySelector('#token') !== null && document.querySelector('.wrong').textContent.startsWith('No operator')")
	ben.open(base)
	ben.until("Ben is still signed in", "document.querySelector('.tabs') !== null")

	ann.open(base)
	ann.typeCode(anns, "Ann")
	ann.goTo("#/me")
	ann.click("a[href=console]")
	const inside = "document.querySelector('.console h1') !== null"
	ann.until("the console is there", inside)
	ann.screenshot("console-session-390")
	asked := len(ann.requestsTo("/v1/session/token"))
	ann.eventually("another token is asked for", func() bool {
		ann.goTo("#/boards")
		ann.goTo("#/")
		return len(ann.requestsTo("/v1/session/token")) > asked
	})
	ann.until("the console is still there", inside)
	c := &console{page: ann}
	c.goTo("#/users/" + benID)
	c.act("[data-action=erase]", "be undone", "a test")
	c.show("audit")
	c.until("the log names Ann", "[...document.querySelectorAll('.table tbody tr')].some((row) => row.textContent.includes('eraseUserAsOperator') && row.textContent.includes('"+annID+"'))")
	ben.until("Ben is led to signing in", "document.querySelector('#code') !== null")

	ann.open(base + "console")
	ann.until("the console is there again", inside)
	h.run("operators", "remove", annID)
	ann.until("a token is asked for", "document.querySelector('#token') !== null && document.querySelector('.wrong').textContent.startsWith('No operator')")
	for _, p := range []*page{ann, ben} {
		p.waitForAnswers()
		p.ignoreFaults("Failed to load resource")
	}
}

// Two services of one host do not sign each other out.
func TestServicesOfOneHost(t *testing.T) {
	t.Parallel()
	one, other := serveHome(t), serveHome(t)
	p := newFamilyPage(t)
	first := one.first()
	p.enter(first, "Ann")
	p.enter(other.first(), "Bea")
	base, _, _ := strings.Cut(first, "#")
	p.open(base)
	if got := p.signedIn(); got != "Ann" {
		t.Errorf("%s is signed in", got)
	}
}

var noLog = log.New(io.Discard, "", 0)

// newForeignPage serves a page of another origin of the same host.
func newForeignPage(t *testing.T, https bool) string {
	t.Helper()
	foreign := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>another page</title>")
	}))
	return startAtOwnAddress(t, foreign, https)
}

// startAtOwnAddress starts a server at an address of the machine that is not loopback, and returns its URL.
func startAtOwnAddress(t *testing.T, s *httptest.Server, https bool) string {
	t.Helper()
	if err := s.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	s.Listener = testenv.Must(net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0")))
	s.Config.ErrorLog = noLog // browsers refuse its certificate at first
	if https {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL
}

// serveBehindProxy serves an empty folder behind a proxy that takes https and changes Host.
func serveBehindProxy(t *testing.T) *home {
	t.Helper()
	var target atomic.Pointer[url.URL]
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:  noLog,
	})
	h := serveHome(t, "--http.public_url="+startAtOwnAddress(t, proxy, true))
	target.Store(testenv.Must(url.Parse(h.URL)))
	return h
}

// A page of another origin, even one of the same host, can do nothing with the cookie of a session: neither by a form nor by a
// picture or a call, even where it may make calls with tokens.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	for name, https := range map[string]bool{"http": false, "https, proxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			foreign := newForeignPage(t, https)
			var h *home
			if https {
				h = serveBehindProxy(t)
			} else {
				h = serveHome(t, "--http.cors_origins="+foreign)
			}
			p := newFamilyPage(t)
			first := h.first()
			p.enter(first, "Ann")
			base, _, _ := strings.Cut(first, "#")
			p.open(foreign)
			p.until("the other page is there", "document.title === 'another page'")
			const json = "headers: { 'Content-Type': 'application/json' }"
			for _, attempt := range []string{
				"fetch('" + base + "v1/session', { method: 'DELETE', body: '{}', credentials: 'include', " + json + " })",
				"fetch('" + base + "v1/session/token', { method: 'POST', body: '{}', credentials: 'include', mode: 'no-cors' })",
				"fetch('" + base + "v1/session/token', { method: 'POST', body: '{}', credentials: 'include', " + json + " })",
				"new Promise((tell) => Object.assign(new Image(), { onload: () => tell(new Response('a picture')), onerror: () => tell(new Response('')), src: '" + base + "v1/session/token' }))",
			} {
				if answer, _ := ask[string](p, "(async () => { try { return await (await "+attempt+").text(); } catch { return ''; } })()"); answer != "" {
					t.Errorf("%s answers %q", attempt, answer)
				}
			}
			eval[any](p, `void document.body.append(Object.assign(document.createElement('form'), { method: 'post', enctype: 'text/plain', action: '`+base+`v1/session/token',
				innerHTML: '<input name="{" value="}">' }))`)
			ask[any](p, "document.forms[0].submit()")
			p.until("the form is refused", "document.body.innerText.includes('forbidden')")
			p.waitForAnswers()
			p.ignoreFaults("") // each of these is refused
			p.open(base)
			if got := p.signedIn(); got != "Ann" {
				t.Errorf("%s is signed in", got)
			}
		})
	}
}
