package browser

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// sleep lets the browser freeze the page, as it does with one that nobody looks at, or wakes it.
func (p *page) sleep(is bool) {
	p.t.Helper()
	state := cdppage.SetWebLifecycleStateStateActive
	if is {
		state = cdppage.SetWebLifecycleStateStateFrozen
	}
	_, err := chromedp.Call(p.ctx, cdppage.SetWebLifecycleState, cdppage.SetWebLifecycleStateParams{State: state})
	p.must(err)
}

// ownToken returns a token of the session of who is signed in, as the page asks for it.
func (p *page) ownToken() string {
	p.t.Helper()
	answer, _ := ask[string](p, `fetch('v1/session/token', { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } }).then((answer) => answer.text())`)
	var got struct{ Token string }
	p.must(json.Unmarshal([]byte(answer), &got))
	return got.Token
}

// awaitEnd waits until a service refuses a token.
func awaitEnd(t *testing.T, base, token string) {
	t.Helper()
	testenv.Eventually(t, "the token has ended", func() bool {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/me", http.NoBody))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusUnauthorized
	})
}

// A page slept until its token had ended, without a network, and the service was started again meanwhile. It goes on with
// what was typed, in a form and in a dialog above it.
func TestPageThatSlept(t *testing.T) {
	t.Parallel()
	h := serveHome(t, "--auth.max_token_lifetime=2s")
	p := newFamilyPage(t)
	p.enter(h.first(), "Ann")
	p.goTo("#/me")
	p.until("the profile is there", "document.querySelector('#nickname')?.value === 'Ann'")
	p.typeIn("#nickname", "ab")
	p.click("#delete")
	p.typeWord("del")
	const typed = "document.querySelector('#nickname')?.value === 'Annab' && document.querySelector('dialog[open] #delete-word')?.value === 'del'"
	p.until("both are typed", typed)
	token := p.ownToken()
	p.onLine(false)
	p.sleep(true)
	awaitEnd(t, h.URL, token)
	h.Stop()
	h.start()
	p.sleep(false)
	p.waitForAnswers()
	p.until("without a network it is all there", typed)
	p.onLine(true)
	asked := len(p.requestsTo("/v1/session/token"))
	p.until("it is still all there", typed)
	p.typeIn("#delete-word", "ete")
	p.until("the word is complete", canDelete)
	p.click("dialog .button")
	p.until("the dialog is closed", dialogClosed)
	p.click(".profile .strong")
	p.until("the name is stored", "document.querySelector('h1').textContent === 'Annab'")
	if len(p.requestsTo("/v1/session/token")) == asked {
		t.Error("no other token was asked for")
	}
	p.ignoreFaults("") // while there was no network
	p.reload()
	p.until("Annab is signed in", "document.querySelector('.account .visually-hidden')?.textContent.endsWith(': Annab') ?? false")
}

// Who was signed out elsewhere is asked for a code, and sees then what they looked at before: an invitation, too.
func TestSignedOutElsewhere(t *testing.T) {
	t.Parallel()
	h := serveHome(t, "--auth.max_token_lifetime=2s")
	base := h.URL + "/"
	code, ann := h.code("--new", "Ann")
	p := newFamilyPage(t)
	p.open(base)
	p.typeCode(code, "Ann")
	p.goTo("#/groups")
	p.set("#group-name", "Family")
	p.click("form:has(#group-name) .button")
	p.until("the invitation is there", "!!document.querySelector('#invite')?.value.includes('/#/join/')")
	_, invitation, _ := strings.Cut(eval[string](p, "document.querySelector('#invite').value"), "#")
	for hash, shown := range map[string]string{
		strings.TrimSuffix(eval[string](p, "location.hash"), "/members"): "document.querySelector('a[href$=members]') !== null",
		"#" + invitation: "document.querySelector('main h1')?.textContent.includes('Family') ?? false",
	} {
		p.goTo(hash)
		p.until("it is there", shown)
		h.run("sessions", "end", strings.Fields(h.run("sessions", "list", "--user="+ann))[0], "--user="+ann)
		if hash == "#"+invitation { // which asks for nothing more
			p.reload()
		}
		p.until("a code is asked for", "document.querySelector('#code') !== null && document.querySelector('.sign-in .wrong').textContent !== ''")
		code, _ = h.code("--user=" + ann)
		p.typeCode(code, "Ann")
		p.until(hash+" is there again", "("+shown+") && location.hash === '"+hash+"'")
	}
	p.waitForAnswers()
	p.ignoreFaults("401")
}
