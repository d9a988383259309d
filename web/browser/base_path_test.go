package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// startApp starts a service on local stores within this process, with changes to its settings,
// and returns its address.
func startApp(t *testing.T, change func(*config.Config)) string {
	t.Helper()
	env := testenv.Local(t)
	change(&env.Config)
	service, err := app.Build(t.Context(), app.Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(secret)}), Roles: app.AllRoles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	service.Start(context.Background())
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(service.Handler)
	t.Cleanup(server.Close)
	t.Cleanup(service.Streams.Close) // before the server, which waits for its requests
	return server.URL
}

// Below a path the page, the console and the reference work, and ask for nothing outside it.
func TestBasePath(t *testing.T) {
	t.Parallel()
	const path = "/our/steps"
	service := startApp(t, func(c *config.Config) { c.HTTP.BasePath = path })
	p := newPage(t, desktop)
	base := service + path
	p.walkBelow(base)
	for _, address := range p.requestsTo(service) {
		if address != base && !strings.HasPrefix(address, base+"/") {
			t.Errorf("%s is asked for", address)
		}
	}
}

// walkBelow opens the page, the console and the reference of a service that has no users, below
// an address.
func (p *page) walkBelow(base string) {
	p.t.Helper()
	path := testenv.Must(url.Parse(base)).Path
	p.signIn(base+"#/groups", sign(p.t, "1", ""))
	p.typeIn("#group-name", "Climbers")
	p.click("form:has(#group-name) .strong")
	p.until("the group is there", "document.querySelector('h1')?.textContent === 'Climbers'")
	made := groupsOf(p.t, base, sign(p.t, "1", ""))["Climbers"]
	p.goTo("#/groups/" + made.GroupID + "/members")
	p.until("the link is there", "document.querySelector('#invite')?.value === '"+base+"/#/join/"+made.InviteCode+"'")
	uploadSteps(p.t, base, "2026-11-20", "1", 5000)
	p.goTo("#/")
	p.until("the ranking is there", rankingShown)
	p.until("it is live", "document.querySelector('.hero .pill.live') !== null")
	p.goTo("#/history")
	p.until("the history is there", "document.querySelectorAll('.past li').length === 1")
	p.speak("zh-CN")
	p.until("the language is stored", "localStorage['"+path+"/language'] === 'zh-CN'")
	p.speak("en")
	var installed struct {
		Scope string
		Start string `json:"start_url"`
	}
	manifest := testenv.Must(url.Parse(eval[string](p, "document.querySelector('[rel=manifest]').href")))
	callAPI(p.t, "", http.MethodGet, manifest.String(), nil, &installed)
	for _, address := range []string{installed.Scope, installed.Start} {
		if got := testenv.Must(manifest.Parse(address)).String(); got != base+"/" {
			p.t.Errorf("the page is installed with the address %s", got)
		}
	}
	p.goTo("#/me")
	p.click(".page > .button")

	p.open(base + "/console/")
	p.typeIn("#token", sign(p.t, "ops", auth.ScopeAdmin))
	p.click(".sign-in .strong")
	p.until("the overview is there", "document.querySelector('.clock') !== null")
	p.until("the console has the slash removed", "location.pathname === '"+path+"/console'")

	p.open(base + "/docs/")
	p.click("#listBoards summary")
	p.until("the call is below the path", "document.querySelector('#listBoards .command')?.textContent.includes(\"'"+base+"/v1/boards\") === true")
}
