package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// command is the command of a call in the reference.
type command struct {
	Call, Method, Path, Text string
}

// commands returns the commands of the calls of users, in an order in which each works. Calls that undo
// what others need come last: a block declines a request, and another invite code replaces that of the
// examples. Of those that delete, the longest path comes first, so that a group ends after what is below
// it, and the user is erased at the end. The call that enters a group in a competition is left out: its code is
// shown to nobody but operators.
func (p *page) commands() []command {
	p.t.Helper()
	eval[any](p, "document.querySelectorAll('details').forEach((call) => { call.open = true; })")
	p.until("every call is open", "document.querySelectorAll('.command').length === document.querySelectorAll('details').length")
	list := eval[[]command](p, `[...document.querySelectorAll('section:not([data-group=Phones], [data-group="Signing in"], [data-group=WeChat], [data-group=Backends], [data-group=Operators]) > details')].map((call) => ({
		Call: call.id, Method: call.querySelector('.method').textContent, Path: call.querySelector('h3 code').textContent,
		Text: call.querySelector('.command').textContent,
	}))`)
	when := func(c command) int {
		switch {
		case c.Method == "DELETE":
			return 1000 - len(c.Path)
		case strings.HasPrefix(c.Path, "/v1/blocked") || strings.HasSuffix(c.Path, "/invite"):
			return 1
		}
		return 0
	}
	list = slices.DeleteFunc(list, func(c command) bool { return c.Call == "enterCompetition" })
	slices.SortStableFunc(list, func(a, b command) int { return when(a) - when(b) })
	return list
}

// run types a command into a shell, and returns the answer: of a stream the beginning up to the first
// event.
func (c command) run(t *testing.T, token string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	curl := exec.CommandContext(ctx, "sh", "-c", token+"\nexec "+strings.Replace(c.Text, "curl", "curl -sS -i", 1))
	out := testenv.Must(curl.StdoutPipe())
	if err := curl.Start(); err != nil {
		t.Fatal(err)
	}
	var answer strings.Builder
	lines := bufio.NewScanner(io.TeeReader(out, &answer))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: ") {
	}
	cancel()
	_ = curl.Wait() // an answer has a status, a stream is left
	return answer.String()
}

// The reference shows the calls of users first, and says how to get a token. A link opens its call, and a
// search leaves few. It is sound on phones and desktops, light and dark, for the accessibility checker
// as well. In the demo the commands of the calls of users work as they stand.
func TestDocs(t *testing.T) {
	t.Parallel()
	p := newPage(t, viewport{width: 390, height: 844})
	p.open(testenv.Demo(t).URL + "/docs#uploadScores")
	p.until("the call of the link is open", "document.querySelector('#uploadScores .command') !== null")
	groups := eval[string](p, "[...document.querySelectorAll('section h2')].map((e) => e.textContent).join(' ')")
	if !strings.HasPrefix(groups, "Rankings Uploads ") || !strings.HasSuffix(groups, " Phones Signing in WeChat Backends Operators Errors") {
		t.Errorf("the reference shows the groups %s", groups)
	}
	if intro := eval[string](p, "document.querySelector('main').innerText"); !strings.Contains(intro, "stepboard token --user") {
		t.Errorf("the introduction does not say how to get a token: %q", intro)
	}
	p.click("#getFriendRanking summary")
	p.click("#streamFriendRanking summary")
	p.until("the calls are open", "document.querySelectorAll('.command').length === 3")
	for _, v := range []viewport{{width: 390, height: 844}, {width: 1440, height: 900}} {
		for _, v.dark = range []bool{false, true} {
			p.emulate(v)
			where := fmt.Sprintf("docs-%d-dark-%t", v.width, v.dark)
			p.checkLayout(where)
			if v.dark {
				p.checkAccess(where, "color-contrast")
			} else {
				p.checkAccess(where)
			}
			p.screenshot(where)
		}
	}
	p.click("#logInByWeChat summary")
	p.until("a call without a token is open", "document.querySelector('#logInByWeChat .command') !== null")
	if text := eval[string](p, "document.querySelector('#logInByWeChat .command').textContent"); strings.Contains(text, "TOKEN") {
		t.Errorf("a call without a token has one: %s", text)
	}
	p.set("#search", "get summary")
	p.until("one call is found", "[...document.querySelectorAll('details')].map((call) => call.id).join() === 'getSummary'")
	p.set("#search", "")

	commands := p.commands()
	token := eval[string](p, "document.querySelector('#token').textContent")
	for _, c := range commands {
		answer := c.run(t, token)
		if strings.Contains(c.Path, "/competitions/") && strings.HasPrefix(answer, "HTTP/1.1 503") {
			testenv.Eventually(t, "the first standing is there", func() bool {
				answer = c.run(t, token)
				return !strings.HasPrefix(answer, "HTTP/1.1 503")
			})
		}
		if !strings.HasPrefix(answer, "HTTP/1.1 20") {
			t.Errorf("%s: %s\nis answered\n%s", c.Call, c.Text, answer)
		}
	}
	if len(commands) < 40 {
		t.Errorf("the reference has %d calls of users", len(commands))
	}
	p.click("a[href='docs/guide']")
	p.until("the guide is there", "document.body.innerText.startsWith('# Guide')")
}
