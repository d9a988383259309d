package handlers

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"stepboard/models"
)

// Cookies says how the cookie of a session is made, and which pages may make calls that read it.
type Cookies struct {
	// Name is that of the cookie. Browsers share cookies between the ports of a host, so each service has its own.
	Name string
	// PublicURL is the service's address as people see it; empty if that is not known. BasePath is as in Config.
	PublicURL, BasePath string
}

// sessionRoute begins the routes of calls that read or set the cookie.
const sessionRoute = "/v1/session"

// cookieAge is how long browsers keep a cookie, in seconds: the longest that they do. It is set anew with each token.
const cookieAge = 400 * 24 * 60 * 60

// session gives a call that reads the cookie of a session access to it.
type session struct {
	cookies *Cookies
	c       *gin.Context
}

// secure reports whether the browser reaches the service by https.
func (s session) secure() bool {
	if s.cookies.PublicURL != "" {
		return strings.HasPrefix(s.cookies.PublicURL, "https://")
	}
	return s.c.Request.TLS != nil
}

// name returns the name of a cookie, whose prefix lets browsers check how it was set.
func (s session) name(suffix string) string {
	switch name := s.cookies.Name + suffix; {
	case !s.secure():
		return name
	case s.cookies.BasePath == "":
		return "__Host-" + name
	default:
		return "__Secure-" + name
	}
}

// key returns the key that the cookie has; empty without one.
func (s session) key() string { return s.get("") }

// get returns the value of the cookie with a suffix; empty without one.
func (s session) get(suffix string) string {
	if s.cookies == nil {
		return ""
	}
	cookie, err := s.c.Request.Cookie(s.name(suffix))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// keep lets the browser keep a key; forget lets it forget the one that it has.
func (s session) keep(key string) { s.set("", key, cookieAge) }

func (s session) forget() { s.set("", "", -1) }

// set sets the cookie with a suffix for so many seconds; a negative age removes it.
func (s session) set(suffix, value string, age int) {
	path := s.cookies.BasePath
	if path == "" {
		path = "/"
	}
	http.SetCookie(s.c.Writer, &http.Cookie{ //nolint:gosec // at home there is no https, for which alone it would be secure
		Name: s.name(suffix), Value: value, Path: path, MaxAge: age, Secure: s.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// crossOrigin returns the check that a call which reads the cookie comes from the service's own page.
func (c *Cookies) crossOrigin() (*http.CrossOriginProtection, error) {
	protection := http.NewCrossOriginProtection()
	if c.PublicURL == "" {
		return protection, nil
	}
	scheme, rest, _ := strings.Cut(c.PublicURL, "://")
	host, _, _ := strings.Cut(rest, "/")
	return protection, protection.AddTrustedOrigin(scheme + "://" + host)
}

// checkOrigin returns an error unless a call that reads the cookie comes from the service's own page, with a body of JSON:
// no form of another page can send that.
func checkOrigin(protection *http.CrossOriginProtection, r *http.Request) error {
	if err := protection.Check(r); err != nil {
		return &models.Error{Code: models.CodeForbidden, Message: "this call is for the service's own page: set http.public_url if a proxy changes the Host header", Err: err}
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return models.Errorf(models.CodeUnsupportedMedia, "send a body of JSON, with Content-Type: application/json")
	}
	return nil
}
