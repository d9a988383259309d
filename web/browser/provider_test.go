package browser

import (
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
	"stepboard/web"
)

// startProvider builds and starts the example provider of zitadel/oidc, which knows test-user2, and returns its address. It
// sends people back to an address.
func startProvider(t *testing.T, back string) (issuer string) {
	t.Helper()
	binary, port := filepath.Join(t.TempDir(), "provider"), strconv.Itoa(testenv.FreePort(t))
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=tools/oidc-provider/go.mod", "-o", binary, "github.com/zitadel/oidc/v3/example/server")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v: %s", err, text)
	}
	provider := exec.CommandContext(t.Context(), binary)
	provider.Env = append(os.Environ(), "PORT="+port, "REDIRECT_URI="+back)
	if err := provider.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = provider.Process.Kill()
		_ = provider.Wait()
	})
	issuer = "http://localhost:" + port + "/"
	testenv.Eventually(t, "the provider answers", func() bool {
		answer, err := http.Get(issuer + ".well-known/openid-configuration")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return issuer
}

// Somebody signs in by a provider that is not the project's, comes back to what they were looking at, and stays signed in. When the
// session was ended, the page leads there again. Where the provider does not know the service's address, the page says so.
func TestSignInByAProvider(t *testing.T) {
	t.Parallel()
	h := &home{t: t, dir: t.TempDir(), port: strconv.Itoa(testenv.FreePort(t))}
	base := "http://" + net.JoinHostPort(ownAddress(t), h.port)
	issuer := startProvider(t, base+"/v1/sign-in/company/callback")
	const settings = `{name: %s, title: Example Ltd %s, issuer: "%s", client_id: web, client_secret: secret}`
	h.flags = []string{"--http.public_url=" + base, "--sign_in.oidc=[" +
		fmt.Sprintf(settings, "company", "1", issuer) + "," + fmt.Sprintf(settings, "other", "2", strings.TrimSuffix(issuer, "/")) + "]"}
	h.start()
	p := newFamilyPage(t)
	p.open(base + "/#/groups")
	p.until("the providers are offered", "document.querySelectorAll('.providers .button').length === 2")
	p.checkLayout("providers")
	p.checkAccess("providers")
	p.screenshot("providers-390")
	p.click(".providers .button:last-child")
	p.until("another issuer is refused", "document.querySelector('.wrong')?.innerText.includes('right now') ?? false")
	p.open(base + "/#/groups")
	p.until("the providers are offered", "document.querySelectorAll('.providers .button').length === 2")
	p.click(".providers .button")
	p.until("the provider asks who it is", "!!document.querySelector('#username')")
	p.set("#username", "test-user2")
	p.set("#password", "verysecure")
	p.click("button")
	p.until("somebody is signed in", "document.querySelector('.tabs') !== null && location.hash === '#/groups'")
	name := p.signedIn()
	h.Stop()
	h.start()
	if again := p.signedIn(); again != name || name == "" {
		t.Errorf("after a restart %q is signed in, and was %q", again, name)
	}
	user := eval[string](p, "JSON.parse(localStorage.getItem('signed-in')).user_id")
	list := mustRun(t, "sessions", "list", "--data="+h.dir, "--user="+user)
	mustRun(t, "sessions", "end", strings.Fields(list)[0], "--data="+h.dir, "--user="+user)
	p.open(base + "/?again#/groups")
	p.until("the page leads to the provider again", "document.querySelectorAll('.providers .button').length === 2 && location.hash === '#/groups'")
	p.waitForAnswers()
	p.ignoreFaults("Failed to load resource") // 401, and while the service was away
	if !strings.Contains(h.Log(), issuer) {
		t.Error("the log does not name the issuers")
	}
}

// A session by a provider has ended. The page leads there by itself, to come back to its screen, but asks first where something
// is typed.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.install(web.New(web.Files(), web.Options{Codes: true}))
	f.returns("GET /v1/sign-in", map[string]any{"codes": false, "join": "nobody", "providers": []any{
		map[string]any{"title": "Example Ltd", "path": "/v1/sign-in/company"},
	}})
	f.handle("GET /v1/sign-in/company", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<link rel="icon" href="data:,">`+html.EscapeString(r.URL.Query().Get("return_to")))
	})
	f.returns("GET /v1/me", map[string]any{"user_id": "1", "nickname": "Ann", "avatar_url": "", "cover_url": ""})
	p := newPage(t, phone)
	begin := func() {
		f.checks(nil)
		f.returns("POST /v1/session/token", map[string]any{"token": fakeToken(), "user_id": "1", "operator": false})
		p.open(f.URL + "/v1/sign-in/company")
		eval[any](p, `localStorage.setItem('signed-in', '{"user_id":"1","nickname":"Ann"}');
			localStorage.setItem('provider', '{"path":"/v1/sign-in/company","at":1}')`)
		p.open(f.URL + "/?again#/me")
		p.until("the profile is there", "document.querySelector('#nickname')?.value === 'Ann'")
		p.waitForAnswers()
		f.checks(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/sign-in") })
	}
	const left = "location.pathname === '/v1/sign-in/company' && document.body?.innerText === '#/me'"
	begin()
	p.click(".profile .strong")
	p.until("the page has left", left)

	begin()
	p.set("#nickname", "Anna")
	p.click(".profile .strong")
	p.until("the page asks", dialogShown)
	p.checkLayout("renewal")
	p.checkAccess("renewal")
	p.screenshot("renewal-390")
	p.press(kb.Escape)
	p.until("what was typed is there", dialogClosed+" && document.querySelector('#nickname').value === 'Anna'")
	p.click(".profile .strong")
	p.click("dialog .strong")
	p.until("the page has left", left)
	p.ignoreFaults("401")
}

// mustRun runs the program, expects status 0 and returns the output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := testenv.Run(t, args...)
	if status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, stderr)
	}
	return stdout
}
