package handlers_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/people/sessions"
)

// sessionService signs people in, without an operator.
type sessionService struct {
	*recorder
	handlers.SessionService
	handlers.SessionChecker
	handlers.OperatorService
}

func (s sessionService) Enabled() bool { return true }

func (s sessionService) About(_ context.Context, code, _ string) (sessions.About, error) {
	return sessions.About{Kind: sessions.SignInCode}, s.record("About", code)
}

func (s sessionService) Open(_ context.Context, r sessions.Request) (sessions.Opened, error) {
	return sessions.Opened{Key: "ss_new", Token: sessionToken}, s.record("Open", r.Before)
}

func (s sessionService) Token(_ context.Context, key string, admin bool) (sessions.Token, error) {
	return sessionToken, s.record("Token", key, admin)
}

func (s sessionService) End(_ context.Context, key string) error { return s.record("End", key) }

var sessionToken = sessions.Token{Text: "a.b.c", Expires: noon.Add(time.Hour), User: "1001"}

// cookieCalls are the calls that read or set the cookie of a session, with bodies.
var cookieCalls = map[string]string{
	"POST /v1/session/code":  `{"code":"K7QF2-MXA7R"}`,
	"POST /v1/session":       `{"code":"K7QF2-MXA7R"}`,
	"POST /v1/session/token": `{}`,
	"DELETE /v1/session":     `{}`,
}

// callAs makes a call as a browser does: to a service at an address such as https://example.com/steps, with a
// cookie of each name, and more headers.
func callAs(t *testing.T, r *recorder, c handlers.Config, at, call string, headers map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	c.Sessions, c.Logins, c.Cookies.Name, c.Cookies.BasePath = sessionService{recorder: r}, everyLogin{}, "stepboard_abc", c.BasePath
	method, path, _ := strings.Cut(call, " ")
	request := httptest.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(cookieCalls[call]))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Cookie", "stepboard_abc=ss_plain; __Host-stepboard_abc=ss_host; __Secure-stepboard_abc=ss_secure")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	newAPI(t, c).ServeHTTP(w, request)
	return w
}

// A call that reads the cookie is made by the service's own page, also behind a proxy that changes Host. What a browser
// sends for any other page, for a form or for a picture does nothing and tells nothing.
func TestForgedCalls(t *testing.T) {
	t.Parallel()
	const (
		home, office  = "http://192.168.1.5:8080", "https://steps.example.com"
		behind        = "http://10.0.0.7:8080" // a proxy
		fetched, kind = "Sec-Fetch-Site", "Content-Type"
	)
	for _, tt := range []struct {
		name, at, public string
		headers          map[string]string
		want             int // the status of all calls; 0 if they are made
	}{
		{"own page", home, "", map[string]string{"Origin": home}, 0},
		{"own page, https", office, "", map[string]string{"Origin": office, fetched: "same-origin"}, 0},
		{"own page, https, proxy", behind, "", map[string]string{"Origin": office, fetched: "same-origin"}, 0},
		{"own page, proxy", behind, "http://steps.example.com:81", map[string]string{"Origin": "http://steps.example.com:81"}, 0},
		{"own page below a path, proxy", behind, office + "/steps", map[string]string{"Origin": office}, 0},
		{"no page", home, "", nil, 0},
		{"JSON of a kind", home, "", map[string]string{kind: "Application/JSON; charset=utf-8"}, 0},

		{"page of another host", home, "", map[string]string{"Origin": "http://192.168.1.6:8080"}, http.StatusForbidden},
		{"page of another port", home, "", map[string]string{"Origin": "http://192.168.1.5:8081"}, http.StatusForbidden},
		{"page of a file", home, "", map[string]string{"Origin": "null"}, http.StatusForbidden},
		{"page of another site, https", office, "", map[string]string{"Origin": "https://evil.example", fetched: "cross-site"}, http.StatusForbidden},
		{"page of another port, https", office, "", map[string]string{"Origin": office + ":8443", fetched: "same-site"}, http.StatusForbidden},
		{"page that hides its origin, https", office, "", map[string]string{"Origin": "null", fetched: "cross-site"}, http.StatusForbidden},
		{"page of another origin, proxy", behind, office, map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		{"page of what is behind the proxy", home, "https://192.168.1.5", map[string]string{"Origin": "http://192.168.1.5:81"}, http.StatusForbidden},
		{"proxy that is not in the settings", behind, "", map[string]string{"Origin": "http://steps.example.com"}, http.StatusForbidden},
		{"page that may make calls with tokens", home, "", map[string]string{"Origin": appOrigin}, http.StatusForbidden},

		{"form of text", home, "", map[string]string{"Origin": home, kind: "text/plain"}, http.StatusUnsupportedMediaType},
		{"form", home, "", map[string]string{kind: "application/x-www-form-urlencoded"}, http.StatusUnsupportedMediaType},
		{"no type", home, "", map[string]string{kind: ""}, http.StatusUnsupportedMediaType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := handlers.Config{Cookies: handlers.Cookies{PublicURL: tt.public}, Origins: []string{appOrigin}}
			for call := range cookieCalls {
				r := &recorder{}
				got := callAs(t, r, c, tt.at, call, tt.headers)
				if made := got.Code < 300; made != (tt.want == 0) || !made && got.Code != tt.want || made != (len(r.calls) > 0) {
					t.Errorf("%s: status %d, and calls %q", call, got.Code, r.calls)
				}
				if header := got.Header(); tt.want != 0 && (header.Get("Set-Cookie") != "" || strings.Contains(got.Body.String(), "a.b.c")) ||
					header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s: answered %v %s", call, header, got.Body)
				}
			}
			// Whatever asks with GET, as pictures and links do, gets nothing.
			r := &recorder{}
			for call := range cookieCalls {
				_, path, _ := strings.Cut(call, " ")
				if got := callAs(t, r, c, tt.at, "GET "+path, tt.headers); got.Code != http.StatusMethodNotAllowed || got.Header().Get("Set-Cookie") != "" {
					t.Errorf("GET %s: status %d, %v", path, got.Code, got.Header())
				}
			}
			if len(r.calls) > 0 {
				t.Errorf("GET: calls %q", r.calls)
			}
		})
	}
}

// The cookie belongs to one service and is not readable by scripts. It comes along with links of other sites, so that who
// follows one is signed in; it is not partitioned, which would be another cookie for a page on the home screen. It is set
// by the service, anew with each token, and removed when the session has ended, and only then.
func TestCookies(t *testing.T) {
	t.Parallel()
	const kept, removed = "Max-Age=34560000", "Max-Age=0"
	for _, tt := range []struct {
		name, at, public, basePath string
		cookie, key, attributes    string
	}{
		{"http", "http://192.168.1.5:8080", "", "", "stepboard_abc", "ss_plain", "Path=/; %; HttpOnly; SameSite=Lax"},
		{"https", "https://steps.example.com", "", "", "__Host-stepboard_abc", "ss_host", "Path=/; %; HttpOnly; Secure; SameSite=Lax"},
		{"a proxy", "http://10.0.0.7", "https://steps.example.com", "", "__Host-stepboard_abc", "ss_host", "Path=/; %; HttpOnly; Secure; SameSite=Lax"},
		{"a path", "http://example.com/steps", "", "/steps", "stepboard_abc", "ss_plain", "Path=/steps; %; HttpOnly; SameSite=Lax"},
		{"a path, https", "https://example.com/steps", "", "/steps", "__Secure-stepboard_abc", "ss_secure", "Path=/steps; %; HttpOnly; Secure; SameSite=Lax"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := func(value, age string) string {
				return tt.cookie + "=" + value + "; " + strings.Replace(tt.attributes, "%", age, 1)
			}
			own := set(tt.key, kept)
			for _, call := range []struct {
				call, want string
				err        error
				calls      string
			}{
				{"POST /v1/session", set("ss_new", kept), nil, "Open " + tt.key},
				{"POST /v1/session", "", models.Errorf(models.CodeNotFound, "unknown"), "Open " + tt.key},
				{"POST /v1/session/token", own, nil, "Token " + tt.key + " false"},
				{"POST /v1/session/token", set("", removed), models.Errorf(models.CodeSessionEnded, "ended"), "Token " + tt.key + " false"},
				{"POST /v1/session/token", "", models.Errorf(models.CodeForbidden, "no operator"), "Token " + tt.key + " false"},
				{"POST /v1/session/token", "", errUnavailable, "Token " + tt.key + " false"},
				{"POST /v1/session/token", "", errors.New("broken"), "Token " + tt.key + " false"},
				{"DELETE /v1/session", set("", removed), nil, "End " + tt.key},
				{"DELETE /v1/session", "", errUnavailable, "End " + tt.key},
			} {
				r := &recorder{err: call.err}
				c := handlers.Config{BasePath: tt.basePath, Cookies: handlers.Cookies{PublicURL: tt.public}}
				got := callAs(t, r, c, tt.at, call.call, nil).Header().Get("Set-Cookie")
				if got != call.want || !slices.Equal(r.calls, []string{call.calls}) {
					t.Errorf("%s, %v: the cookie %q after %q, want %q after %q", call.call, call.err, got, r.calls, call.want, call.calls)
				}
			}
		})
	}
}
