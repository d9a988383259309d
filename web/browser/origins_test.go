package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/web"
)

// newOrigin starts a server with a page of an app, which has the client as window.connect: a
// function of the service's address and a token.
func newOrigin(t *testing.T) string {
	t.Helper()
	site := web.New(web.Files(), web.Options{})
	client, _ := site.Find(site.Assets + "page/vendor/stepboard.js")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(client.Body)
			return
		}
		_, _ = fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><script type="module">
			import { createClient } from './client.js';
			window.connect = (baseUrl, token) => createClient({ baseUrl, token: () => token });
		</script>`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// tells returns what a promise resolves to, or the error that it is rejected with, as text.
func (p *page) tells(promise string) string {
	p.t.Helper()
	eval[any](p, "window.told = null; void ("+promise+").then(JSON.stringify, (e) => [e.status, e.code, e.message, !!e.requestId, e.wait].join(' ')).then((text) => { window.told = text; })")
	p.until("there is an outcome", "window.told !== null")
	return eval[string](p, "window.told")
}

// limited matches what a page reads of a call above the limit, with its id and Retry-After.
var limited = regexp.MustCompile(`^429 rate_limited .* true [1-9]\d*000$`)

// The page of an app at another origin calls the service, if http.cors_origins names it, and reads
// its errors. Another page can't, and the client says why.
func TestOrigins(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	permitted, other := newOrigin(t), newOrigin(t)
	service := startApp(t, func(c *config.Config) {
		c.HTTP.CORSOrigins = []string{permitted}
		c.Limits.UserPerMinute = 10
	})
	p := newPage(t, desktop)
	open := func(origin, token string) {
		t.Helper()
		p.open(origin)
		p.until("the page is there", "!!window.connect")
		eval[any](p, fmt.Sprintf("void (window.client = connect(%q, %q))", service, token))
	}

	open(permitted, sign(t, "1", ""))
	if got := p.tells("client.call('PUT', '/v1/me', { body: { nickname: 'Ann' } })"); !strings.Contains(got, `"nickname":"Ann"`) {
		t.Errorf("a change: %s", got)
	}
	const tooMany = "Promise.all(Array.from({ length: 12 }, () => client.call('GET', '/v1/boards')))"
	if got := p.tells(tooMany); !limited.MatchString(got) {
		t.Errorf("a call above the limit: %s", got)
	}
	open(permitted, sign(t, "2", ""))
	eval[any](p, "void (window.live = client.live({ board: 'steps', onChange: ({ state }) => { window.state = state; } }))")
	p.until("the ranking is live", "window.state === 'live'")
	eval[any](p, "live.stop()")
	open(permitted, "no token")
	if got := p.tells("client.call('GET', '/v1/boards')"); !strings.HasPrefix(got, "401 unauthenticated ") {
		t.Errorf("a bad token: %s", got)
	}
	open(other, sign(t, "3", ""))
	want := fmt.Sprintf("0  there was no answer: %s was not reached, or its setting http.cors_origins lacks %s false 0", service, other)
	if got := p.tells("client.call('GET', '/v1/boards')"); got != want {
		t.Errorf("of an origin without permission: %s, want %s", got, want)
	}
	p.waitForAnswers()
	for _, text := range []string{"429", "401", "CORS", "ERR_FAILED"} {
		p.ignoreFaults(text)
	}
}
