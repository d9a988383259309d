package providers_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/providers"
	"stepboard/services/people/sessions"
)

// opener remembers who was signed in.
type opener struct {
	who []sessions.Elsewhere
	err error
}

func (o *opener) OpenElsewhere(_ context.Context, who sessions.Elsewhere) (sessions.Opened, error) {
	o.who = append(o.who, who)
	return sessions.Opened{Key: "a key"}, o.err
}

// fixture is the service beside a provider.
type fixture struct {
	*testing.T
	*testenv.Provider
	*providers.Service
	opener opener
	now    time.Time
	log    bytes.Buffer
}

// newFixture returns a service with a provider named company, after a change of its settings.
func newFixture(t *testing.T, change func(*providers.Provider)) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{T: t, Provider: testenv.NewProvider(t), now: time.Now()}
	settings := providers.Provider{
		Name: "company", Title: "Example Ltd", Issuer: f.URL, ClientID: f.ClientID, ClientSecret: f.ClientSecret, Scopes: []string{"profile"},
		Session: 168 * time.Hour,
	}
	if change != nil {
		change(&settings)
	}
	other := settings
	other.Name = "other"
	f.Service = testenv.Must(providers.New(providers.Options{
		Providers: []providers.Provider{settings, other}, PublicURL: "https://steps.example/base", Sessions: &f.opener, Secret: []byte("a secret"),
		Clock: func() time.Time { return f.now }, Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	}))
	f.SignIn(jwt.MapClaims{"sub": "ann-1", "name": "Ann", "groups": []string{"staff", "runners"}})
	return f
}

// leave begins an attempt, goes to the provider, and returns the query of the way back.
func (f *fixture) leave(returnTo string) (begun providers.Begun, back url.Values) {
	f.Helper()
	begun, err := f.Begin(f.Context(), "company", returnTo, "Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	return begun, f.visit(begun.URL)
}

// visit opens an address of the provider, and returns the query of the way back.
func (f *fixture) visit(address string) url.Values {
	f.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(address)
	if err != nil {
		f.Fatal(err)
	}
	answer.Body.Close()
	at := testenv.Must(answer.Location())
	if at.Host != "steps.example" || at.Path != "/base/v1/sign-in/company/callback" {
		f.Fatalf("the provider sends people to %s", at)
	}
	return at.Query()
}

// refused checks that a way back ends for a reason.
func (f *fixture) refused(cookie string, back url.Values, want providers.Reason) {
	f.Helper()
	finished, err := f.Finish(f.Context(), "company", back, cookie, "")
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		f.Errorf("it is %+v, %v; want %s", finished, err, want)
	}
	if len(f.opener.who) > 0 {
		f.Errorf("%+v is signed in", f.opener.who)
	}
}

// Somebody comes back with a code and is signed in, once.
func TestSignIn(t *testing.T) {
	f := newFixture(t, nil)
	begun, back := f.leave("#/groups")
	asked := testenv.Must(url.Parse(begun.URL)).Query()
	if asked.Get("scope") != "openid profile" || asked.Get("code_challenge_method") != "S256" || asked.Get("nonce") == "" || asked.Get("state") != back.Get("state") {
		t.Errorf("the provider is asked for %v", asked)
	}
	if text := begun.URL + begun.Cookie; strings.Contains(text, f.ClientSecret) || strings.Contains(begun.Cookie, asked.Get("nonce")) {
		t.Errorf("a secret is in %s", text)
	}
	finished, err := f.Finish(t.Context(), "company", back, begun.Cookie, "the key before")
	if err != nil || finished.Return != "#/groups" || finished.Key != "a key" {
		t.Errorf("it is %+v, %v", finished, err)
	}
	want := []sessions.Elsewhere{{
		Issuer: f.URL, Subject: "ann-1", Nickname: "Ann", Lasts: 168 * time.Hour, TimeZone: "Europe/Berlin", Before: "the key before",
	}}
	if diff := cmp.Diff(want, f.opener.who); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	f.opener.who = nil
	f.refused(begun.Cookie, back, providers.Expired) // the code was used
	if _, err := f.Begin(t.Context(), "nobody", "", ""); models.CodeOf(err) != models.CodeNotFound {
		t.Errorf("an unknown provider: %v", err)
	}
	if f.Ends()["ok"].Load() != 1 || f.Ends()["expired"].Load() != 1 {
		t.Error("they are not counted")
	}
}

// An ID token that does not prove who it was made for, by whom and when is refused, whatever else is right.
func TestLies(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*jwt.Token) any {
		return func(token *jwt.Token) any {
			token.Claims.(jwt.MapClaims)[name] = value
			return nil
		}
	}
	for name, lie := range map[string]func(*jwt.Token) any{
		"another nonce":  claim("nonce", "other"),
		"no nonce":       claim("nonce", nil),
		"another issuer": claim("iss", "https://other.example"),
		"the issuer and a slash": func(token *jwt.Token) any {
			return claim("iss", token.Claims.(jwt.MapClaims)["iss"].(string)+"/")(token)
		},
		"another audience": claim("aud", "other"),
		"no audience":      claim("aud", nil),
		"another client":   claim("azp", "other"),
		"two clients":      claim("aud", []string{"stepboard", "other"}),
		"expired":          claim("exp", time.Now().Add(-time.Hour).Unix()),
		"no end":           claim("exp", nil),
		"not yet":          claim("nbf", time.Now().Add(time.Hour).Unix()),
		"nobody":           claim("sub", ""),
		"a long subject":   claim("sub", strings.Repeat("a", 256)),
		"another key": func(*jwt.Token) any {
			return testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
		},
		"no signature": func(token *jwt.Token) any {
			token.Method, token.Header["alg"] = jwt.SigningMethodNone, "none"
			return jwt.UnsafeAllowNoneSignatureType
		},
		"the client's secret as key": func(token *jwt.Token) any {
			token.Method, token.Header["alg"] = jwt.SigningMethodHS256, "HS256"
			return []byte("a secret of the provider")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			begun, back := f.leave("")
			f.Lie(lie)
			f.refused(begun.Cookie, back, providers.Refused)
			if !strings.Contains(f.log.String(), "provider=company") {
				t.Errorf("the log has %q", f.log.String())
			}
		})
	}
}

// What comes back without the cookie of its own attempt begins anew once, and then ends. Another attempt's opens nothing.
func TestWithoutTheCookie(t *testing.T) {
	f := newFixture(t, nil)
	begun, back := f.leave("#/groups")
	other, _ := f.leave("")
	_, wrong := f.leave("")
	for name, tt := range map[string]struct {
		provider, cookie string
		back             url.Values
	}{
		"none":              {"company", "", back},
		"nonsense":          {"company", "nonsense", back},
		"another attempt's": {"company", other.Cookie, back},
		"another state":     {"company", begun.Cookie, wrong},
		"another provider":  {"other", begun.Cookie, back},
		"no state":          {"company", begun.Cookie, url.Values{"code": back["code"]}},
	} {
		if finished, err := f.Finish(t.Context(), tt.provider, tt.back, tt.cookie, ""); !errors.Is(err, providers.ErrAgain) {
			t.Errorf("%s: %+v, %v", name, finished, err)
		}
	}
	f.now = f.now.Add(providers.AttemptTTL)
	if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); !errors.Is(err, providers.ErrAgain) {
		t.Errorf("after ten minutes: %v", err)
	}
	f.now = time.Now()
	second := testenv.Must(f.Again(t.Context(), "company"))
	back = f.visit(second.URL)
	f.refused("", back, providers.Expired)
	if _, err := f.Finish(t.Context(), "company", back, second.Cookie, ""); err != nil || len(f.opener.who) != 1 {
		t.Errorf("the second attempt: %v", err)
	}
}

// What a provider answers instead of a code, and answers of others.
func TestAnswersWithoutACode(t *testing.T) {
	f := newFixture(t, nil)
	begun, back := f.leave("")
	for text, want := range map[string]providers.Reason{
		"access_denied": providers.Refused, "login_required": providers.Refused, "temporarily_unavailable": providers.Unavailable,
		"server_error": providers.Unavailable, strings.Repeat("x", 9999): providers.Refused,
	} {
		f.refused(begun.Cookie, url.Values{"state": back["state"], "error": {text}}, want)
	}
	if f.log.Len() > 5000 {
		t.Errorf("the log has %d bytes", f.log.Len())
	}
	other := url.Values{"iss": {"https://other.example"}, "state": back["state"], "code": back["code"]}
	f.refused(begun.Cookie, other, providers.Refused)
	f.refused(begun.Cookie, url.Values{"state": back["state"], "code": {"guessed"}}, providers.Expired)
	f.opener.err = models.Errorf(models.CodeForbidden, "an operator's")
	if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); !strings.HasPrefix(fmt.Sprint(err), "not_allowed") {
		t.Errorf("who is not let in: %v", err)
	}
}

// A provider that is away, slow, endless or another one is looked up again by the next attempt, and nothing waits for ever.
func TestProvidersThatAreAway(t *testing.T) {
	f := newFixture(t, nil)
	const document = "/.well-known/openid-configuration"
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 100_000), http.StatusBadGateway)
		},
		"endless": endless,
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://other.example/", http.StatusFound)
		},
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"%s/","authorization_endpoint":"x"}`, f.URL)
		},
	} {
		f.Answer(document, answer)
		_, err := f.Begin(t.Context(), "company", "", "")
		var refusal *providers.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != providers.Unavailable || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		}
		if both := strings.Contains(err.Error(), f.URL+`"`) && strings.Contains(err.Error(), f.URL+`/"`); name == "another issuer" && !both {
			t.Errorf("it does not name both: %v", err)
		}
	}
	f.Answer(document, nil)
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "away", http.StatusServiceUnavailable) },
		"endless":  endless,
	} {
		begun, back := f.leave("")
		f.Answer("/keys", answer)
		t.Log("keys:", name)
		f.refused(begun.Cookie, back, providers.Unavailable)
		f.Answer("/keys", nil)
	}
	begun, back := f.leave("")
	f.Answer("/token", endless)
	f.refused(begun.Cookie, back, providers.Unavailable)
	f.Answer("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"a","token_type":"Bearer"}`)
	})
	f.refused(begun.Cookie, back, providers.Refused) // no ID token
	f.Answer("/token", nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.Answer("/token", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server hears that the client goes
		cancel()
		<-r.Context().Done()
	})
	if _, err := f.Finish(ctx, "company", back, begun.Cookie, ""); err == nil {
		t.Error("who has gone is signed in")
	}
	f.Answer("/token", nil)
	if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	if text := f.log.String(); strings.Contains(text, f.ClientSecret) || strings.Contains(text, back.Get("code")) || len(text) > 10_000 {
		t.Errorf("the log has %.10000s", text)
	}
}

// Many who begin at a time share one look at the provider, and keys that it has changed are found.
func TestLooksAreShared(t *testing.T) {
	f := newFixture(t, nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := f.Begin(t.Context(), "company", "", ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if calls := f.Calls("/.well-known/openid-configuration"); calls != 1 {
		t.Errorf("the provider was looked up %d times", calls)
	}
	for range 3 {
		begun, back := f.leave("")
		if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); err != nil {
			t.Error(err)
		}
		f.RotateKeys()
	}
}

// The settings say who is let in, and whose id a claim is.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allow []providers.Allow
		user  string // user_claim
		want  providers.Reason
		id    models.UserID
	}{
		"one of the values":  {allow: []providers.Allow{{"groups", []string{"guests", "staff"}}, {"name", []string{"Ann"}}}},
		"none of the values": {allow: []providers.Allow{{"groups", []string{"guests"}}}, want: providers.NotAllowed},
		"one condition":      {allow: []providers.Allow{{"groups", []string{"staff"}}, {"name", []string{"Bob"}}}, want: providers.NotAllowed},
		"no such claim":      {allow: []providers.Allow{{"roles", []string{"staff"}}}, want: providers.NotAllowed},
		"a claim with an id": {user: "sub", id: "ann-1"},
		"a claim without":    {user: "groups", want: providers.NotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(p *providers.Provider) { p.Allow, p.UserClaim = tt.allow, tt.user })
			begun, back := f.leave("")
			if tt.want != "" {
				f.refused(begun.Cookie, back, tt.want)
				return
			}
			if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); err != nil || f.opener.who[0].User != tt.id {
				t.Errorf("%+v, %v", f.opener.who, err)
			}
		})
	}
}

// What an ID token lacks is in the user info of the same person.
func TestUserInfo(t *testing.T) {
	f := newFixture(t, func(p *providers.Provider) { p.Allow = []providers.Allow{{"groups", []string{"staff"}}} })
	f.SignIn(jwt.MapClaims{"sub": "ann-1"})
	f.SetUserInfo(jwt.MapClaims{"sub": "ben-2", "name": "Ben", "groups": []string{"staff"}})
	begun, back := f.leave("")
	f.refused(begun.Cookie, back, providers.Refused)
	f.SetUserInfo(jwt.MapClaims{"name": "Ann", "groups": []string{"staff"}})
	begun, back = f.leave("")
	if _, err := f.Finish(t.Context(), "company", back, begun.Cookie, ""); err != nil || f.opener.who[0].Nickname != "Ann" {
		t.Errorf("it is %+v, %v", f.opener.who, err)
	}
}

// Nobody is sent to another place than the page, and a name that can't be stored is left out.
func TestTheWayBack(t *testing.T) {
	f := newFixture(t, nil)
	f.SignIn(jwt.MapClaims{"sub": "x", "name": "\u0000", "preferred_username": "Ann B."})
	for returnTo, want := range map[string]string{
		"#/groups": "#/groups", "#/join/ABC": "#/join/ABC", "": "", "https://other.example": "", "//other.example": "", "/\\other": "",
		"#a b": "", "#\r\nSet-Cookie: a": "", "#" + strings.Repeat("a", 600): "", "javascript:alert(1)": "",
	} {
		begun, back := f.leave(returnTo)
		finished, err := f.Finish(t.Context(), "company", back, begun.Cookie, "")
		if err != nil || finished.Return != want {
			t.Errorf("%q returns to %q, %v", returnTo, finished.Return, err)
		}
	}
	if name := f.opener.who[0].Nickname; name != "Ann B." {
		t.Errorf("the name is %q", name)
	}
}
