package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// company is a service beside an OpenID Connect provider.
type company struct {
	*server
	provider *testenv.Provider
}

func newCompany(t *testing.T, env *testenv.Env, change func(*config.OIDC)) *company {
	t.Helper()
	p := testenv.NewProvider(t)
	p.SignIn(jwt.MapClaims{"sub": "ann-1", "name": "Ann"})
	settings := config.OIDC{Name: "company", Title: "Example Ltd", Issuer: p.URL, ClientID: p.ClientID, ClientSecret: p.ClientSecret}
	if change != nil {
		change(&settings)
	}
	return &company{newServer(t, env, func(c *config.Config) {
		c.HTTP.PublicURL, c.SignIn.OIDC = "http://steps.example", []config.OIDC{settings}
	}), p}
}

// visitor is a browser with its cookies.
type visitor struct {
	c       *company
	cookies map[string]string
}

func (c *company) visitor() *visitor { return &visitor{c, make(map[string]string)} }

// send makes a request, as a browser does that follows no redirect.
func (v *visitor) send(method, path, body string) (status int, location, text string) {
	v.c.t.Helper()
	ctx, cancel := context.WithTimeout(v.c.t.Context(), time.Minute)
	defer cancel()
	r := testenv.Must(http.NewRequestWithContext(ctx, method, v.c.url+path, strings.NewReader(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		v.c.t.Fatal(err)
	}
	defer answer.Body.Close()
	for _, cookie := range answer.Cookies() {
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Partitioned {
			v.c.t.Errorf("the cookie is %v", cookie)
		}
		v.cookies[cookie.Name] = cookie.Value
		if cookie.MaxAge < 0 {
			delete(v.cookies, cookie.Name)
		}
	}
	return answer.StatusCode, answer.Header.Get("Location"), string(testenv.Must(io.ReadAll(answer.Body)))
}

// leave goes to the provider, and returns the path and query of the way back.
func (v *visitor) leave(returnTo string) string {
	v.c.t.Helper()
	status, location, text := v.send("GET", "/v1/sign-in/company?return_to="+url.QueryEscape(returnTo), "")
	if status != http.StatusFound {
		v.c.t.Fatalf("status %d: %s", status, text)
	}
	return v.visit(location)
}

// visit opens an address of the provider, and returns the path and query of the way back.
func (v *visitor) visit(address string) string {
	v.c.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get(address)
	if err != nil {
		v.c.t.Fatal(err)
	}
	answer.Body.Close()
	return strings.TrimPrefix(answer.Header.Get("Location"), "http://steps.example")
}

// signIn signs the provider's person in, and returns where the browser is sent.
func (v *visitor) signIn(returnTo string) (location string) {
	v.c.t.Helper()
	_, location, _ = v.send("GET", v.leave(returnTo), "")
	return location
}

// user returns who is signed in, with a token; the status of the call otherwise.
func (v *visitor) user() (user models.UserID, token string) {
	v.c.t.Helper()
	status, _, text := v.send("POST", "/v1/session/token", "{}")
	var in struct {
		User  models.UserID `json:"user_id"`
		Token string
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil || status != http.StatusOK {
		return models.UserID(fmt.Sprint(status)), ""
	}
	return in.User, in.Token
}

// Somebody signs in by a provider, on two devices, is the same person on both, and out after the session's end. What browsers
// do on the way signs nobody else in.
func TestSignInByAProvider(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c := newCompany(t, env, nil)
		how := string(c.succeeds(c.call("", "GET", "/v1/sign-in", nil), http.StatusOK).body)
		if !strings.Contains(how, `"providers":[{"name":"company","title":"Example Ltd","path":"/v1/sign-in/company"}]`) {
			t.Errorf("people sign in by %s", how)
		}
		phone, laptop := c.visitor(), c.visitor()
		if location := phone.signIn("#/groups"); location != "/#/groups" {
			t.Errorf("the browser is sent to %s", location)
		}
		ann, token := phone.user()
		if !ann.SignsUp() || len(phone.cookies) != 1 {
			t.Fatalf("%s is signed in, with %v", ann, phone.cookies)
		}
		profile := string(c.succeeds(c.call(token, "GET", "/v1/me", nil), http.StatusOK).body)
		if !strings.Contains(profile, `"nickname":"Ann"`) {
			t.Errorf("the profile is %s", profile)
		}
		if location := laptop.signIn("https://other.example"); location != "/" {
			t.Errorf("the browser is sent to %s", location)
		}
		if user, _ := laptop.user(); user != ann {
			t.Errorf("on a second device it is %s, not %s", user, ann)
		}
		exported := string(c.succeeds(c.call(token, "GET", "/v1/me/export", nil), http.StatusOK).body)
		if !strings.Contains(exported, `"subject":"ann-1"`) {
			t.Errorf("the export lacks the identity: %s", exported)
		}
		c.wantMetric(`stepboard_sign_in_by_provider_total{result="ok"} 2`)

		other := c.visitor()
		back := other.leave("")
		if status, _, _ := other.send("HEAD", back, ""); status != http.StatusMethodNotAllowed || len(c.provider.Codes()) != 1 {
			t.Errorf("HEAD: status %d, codes %v", status, c.provider.Codes())
		}
		stranger := c.visitor()
		status, _, page := stranger.send("GET", back, "")
		if status != http.StatusOK || !strings.Contains(page, `http-equiv="refresh" content="0;url=callback?`) || len(c.provider.Codes()) != 1 {
			t.Errorf("without the cookie: %d %s", status, page)
		}
		status, location, _ := stranger.send("GET", back+"&again=1", "")
		if status != http.StatusFound || !strings.HasPrefix(location, c.provider.URL+"/authorize") {
			t.Errorf("without the cookie again: %d to %s", status, location)
		}
		back = stranger.visit(location)
		stranger.cookies = map[string]string{}
		stranger.send("GET", back, "")
		if _, location, _ = stranger.send("GET", back+"&again=1", ""); location != "/#sign-in/error/expired" {
			t.Errorf("without any cookie it goes on at %s", location)
		}
		if user, _ := stranger.user(); user != "401" {
			t.Errorf("%s is signed in", user)
		}
		c.refuse(c.call("", "GET", "/v1/sign-in/nobody", nil), http.StatusNotFound, models.CodeNotFound)

		env.Clock.Advance(168 * time.Hour)
		if user, _ := phone.user(); user != "401" || len(phone.cookies) != 0 {
			t.Errorf("after the session's end %s is signed in, with %v", user, phone.cookies)
		}
		phone.signIn("")
		if user, _ := phone.user(); user != ann {
			t.Errorf("afterwards it is %s, not %s", user, ann)
		}
	})
}

// Who was excluded and blocked, erases themselves and comes back by the same identity still is.
func TestErasedPeopleOfAProviderReturn(t *testing.T) {
	t.Parallel()
	eitherWay(t, func(t *testing.T, env *testenv.Env, finished bool) {
		c := newCompany(t, env, nil)
		phone := c.visitor()
		phone.signIn("")
		ann, _ := phone.user()
		c.nameAll("ben")
		c.correct(`{"board":"steps","date":null,"user_id":%q,"kind":"exclude","reason":"a machine"}`, ann)
		c.want(c.as("ben", "PUT", "/v1/blocked/"+string(ann), nil), http.StatusNoContent, nil)
		c.eraseSelf(ann)
		if finished {
			c.finishErasures()
		}
		if user, _ := phone.user(); user != "401" {
			t.Errorf("the erased user is signed in as %s", user)
		}
		phone.signIn("")
		back, token := phone.user()
		if back == ann || !back.SignsUp() {
			t.Fatalf("%s comes back as %s", ann, back)
		}
		today := models.DateOf(env.Clock.Now().Add(8 * time.Hour).UTC())
		c.want(c.call(token, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":9000}`, today)), http.StatusOK, nil)
		c.check("the excluded user", c.ranked("/v1/boards/steps/top"), "")
		c.check("whom ben blocks", c.lists("ben", "/v1/blocked"), string(back))
		c.finishErasures()
		if user, _ := phone.user(); user != back {
			t.Errorf("afterwards it is %s", user)
		}
	})
}

// A claim with a user's id finds the user once: neither an operator nor somebody with an identity is taken over, and no id
// that only signing up makes.
func TestUserClaim(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c := newCompany(t, env, func(p *config.OIDC) { p.UserClaim = "employee" })
		c.nameAll("9", "boss")
		c.want(c.admin("PUT", "/v1/admin/operators/boss", nil), http.StatusNoContent, nil)
		for _, tt := range []struct{ subject, claim, user, location string }{
			{"a", "9", "9", "/"},
			{"a", "other", "9", "/"}, // it holds from then on
			{"b", "9", "401", "/#sign-in/error/not_allowed"},
			{"b", "boss", "401", "/#sign-in/error/not_allowed"},
			{"b", "", "401", "/#sign-in/error/not_allowed"},
			{"b", "u_aaaaaaaaaaaaaaaa", "401", "/#sign-in/error/not_allowed"},
			{"b", "new", "new", "/"},
		} {
			c.provider.SignIn(jwt.MapClaims{"sub": tt.subject, "employee": tt.claim})
			v := c.visitor()
			location := v.signIn("")
			if user, _ := v.user(); string(user) != tt.user || location != tt.location {
				t.Errorf("%+v: %s, sent to %s", tt, user, location)
			}
		}
	})
}
