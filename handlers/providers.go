package handlers

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"stepboard/models"
	"stepboard/services/people/providers"
)

// ProviderService signs people in by OpenID Connect.
type ProviderService interface {
	Providers() []providers.Provider
	Begin(ctx context.Context, name, returnTo, zone string) (providers.Begun, error)
	Again(ctx context.Context, name string) (providers.Begun, error)
	Finish(ctx context.Context, name string, query url.Values, cookie, before string) (providers.Finished, error)
}

const (
	// providerRoute begins the addresses to which browsers go. They are no calls of the API: providers add parameters.
	providerRoute = "/v1/sign-in"
	// attemptCookie ends the name of the cookie that an attempt has.
	attemptCookie = "_sign_in"
	// again marks the address to which a provider sends people, once it was loaded anew.
	again = "again"
)

// providerHandlers takes browsers to providers and back.
type providerHandlers struct {
	providers ProviderService
	limits    LoginLimiter
	cookies   *Cookies
	// checkErasures returns an error while nothing about users may be written.
	checkErasures func(ctx context.Context) error
}

// takes reports whether a request may go on. A HEAD would spend what only a GET may.
func (h *providerHandlers) takes(c *gin.Context) bool {
	if c.Request.Method != http.MethodGet {
		methodNotAllowed(c)
		return false
	}
	c.Header("Cache-Control", "no-store")
	c.Header("Referrer-Policy", "no-referrer")
	if err := h.limits.TakeLogin(c.Request.Context(), addressOf(c)); err != nil {
		writeProblem(c, err)
		return false
	}
	return true
}

// begin sends a browser to a provider.
func (h *providerHandlers) begin(c *gin.Context) {
	if !h.takes(c) {
		return
	}
	query := c.Request.URL.Query()
	begun, err := h.providers.Begin(c.Request.Context(), c.Param("name"), query.Get("return_to"), query.Get("time_zone"))
	h.leave(c, begun, err)
}

// leave sends a browser to the provider, or back to the page.
func (h *providerHandlers) leave(c *gin.Context, begun providers.Begun, err error) {
	if err != nil {
		h.refuse(c, err)
		return
	}
	session{h.cookies, c}.set(attemptCookie, begun.Cookie, int(providers.AttemptTTL.Seconds()))
	found(c, begun.URL)
}

// finish signs in who comes back.
func (h *providerHandlers) finish(c *gin.Context) {
	if !h.takes(c) {
		return
	}
	ctx, name, query, device := c.Request.Context(), c.Param("name"), c.Request.URL.Query(), session{h.cookies, c}
	if err := h.checkErasures(ctx); err != nil {
		h.refuse(c, &providers.Refusal{Reason: providers.Unavailable, Err: err})
		return
	}
	cookie := device.get(attemptCookie)
	finished, err := h.providers.Finish(ctx, name, query, cookie, device.key())
	switch {
	case errors.Is(err, providers.ErrAgain) && cookie == "" && !query.Has(again):
		reload(c)
		return
	case errors.Is(err, providers.ErrAgain):
		begun, err := h.providers.Again(ctx, name)
		h.leave(c, begun, err)
		return
	}
	device.set(attemptCookie, "", -1)
	if err != nil {
		h.refuse(c, err)
		return
	}
	device.keep(finished.Key)
	h.toPage(c, finished.Return)
}

// refuse sends a browser to the page, which says why nobody is signed in.
func (h *providerHandlers) refuse(c *gin.Context, err error) {
	var refusal *providers.Refusal
	if !errors.As(err, &refusal) {
		writeProblem(c, err)
		return
	}
	h.toPage(c, "#sign-in/error/"+string(refusal.Reason))
}

// toPage sends a browser to an address within the page, at the place where people see it.
func (h *providerHandlers) toPage(c *gin.Context, hash string) {
	found(c, h.cookies.BasePath+"/"+hash)
}

// found sends a browser to an address, as it is.
func found(c *gin.Context, address string) {
	c.Header("Location", address)
	c.Status(http.StatusFound)
}

// reloading is a page that loads the address once more by itself. Some browsers keep cookies back after a chain of redirects
// from another site; this request is the page's own.
var reloading = template.Must(template.New("").Parse(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">` +
	`<meta http-equiv="refresh" content="0;url={{.}}"><title>Stepboard</title></head><body><a href="{{.}}">Stepboard</a></body></html>`))

func reload(c *gin.Context) {
	query := c.Request.URL.Query()
	query.Set(again, "1")
	c.Header("Content-Security-Policy", "default-src 'none'")
	c.Header("Content-Type", "text/html; charset=utf-8")
	c.Status(http.StatusOK)
	if err := reloading.Execute(c.Writer, "callback?"+query.Encode()); err != nil {
		_ = c.Error(models.Wrap("write a page", err))
	}
}
