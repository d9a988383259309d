package handlers

import (
	"context"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"stepboard/models"
	"stepboard/services/auth"
)

// audience says whose tokens a call takes.
type audience int

const (
	// byUser takes a user's token, or a service's for ?user_id=.
	byUser audience = iota + 1
	// byService takes a service's token.
	byService
	// byAdmin takes an operator's token.
	byAdmin
	// byAny takes every token.
	byAny
)

const audienceKey = "audience"

func (a audience) describe() string {
	switch a {
	case byUser:
		return "With a user's token; with a service token on behalf of ?user_id=."
	case byService:
		return "With a token of scope service."
	case byAdmin:
		return "With a token of scope admin."
	default:
		return "With any token."
	}
}

// TokenVerifier checks tokens.
type TokenVerifier interface {
	Verify(token string) (*auth.Caller, error)
}

// RateLimiter counts the calls of users and addresses.
type RateLimiter interface {
	Addresses() bool
	Take(ctx context.Context, user models.UserID, address string) error
}

// authenticator decides which calls go through to their handlers.
type authenticator struct {
	tokens TokenVerifier
	limits RateLimiter
}

// authenticate lets a request through to its call if its token may make it,
// and whoever makes it has not made too many.
func (a *authenticator) authenticate(hctx huma.Context, next func(huma.Context)) {
	caller, err := a.admit(hctx)
	c := humagin.Unwrap(hctx)
	if limited := a.countCall(c, caller); limited != nil {
		err = limited
	}
	if err == nil {
		err = checkQuery(c.Request.URL.RawQuery)
	}
	if err != nil {
		writeProblem(c, err)
		return
	}
	next(huma.WithValue(hctx, callerKey{}, caller))
}

// checkQuery refuses what would be passed over where parameters are read:
// pairs that can't be decoded, and all but the first of a name.
func checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return models.Invalid("query", "can't be read: encode what stands in it")
	}
	for name, given := range values {
		if len(given) > 1 {
			return models.Invalid("query."+name, "is given more than once")
		}
	}
	return nil
}

// admit tells who makes a request, as far as the token says, and whether the
// token may.
func (a *authenticator) admit(hctx huma.Context) (*auth.Caller, error) {
	scheme, token, _ := strings.Cut(hctx.Header("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, auth.Unauthenticated("send a token: Authorization: Bearer …", nil)
	}
	caller, err := a.tokens.Verify(token)
	if err != nil {
		return nil, err
	}
	by, _ := hctx.Operation().Metadata[audienceKey].(audience)
	switch {
	case by == byAny:
		return caller, nil
	case by == byUser && (caller.User != 0 || caller.Service):
		return caller, nil
	case by == byService && caller.Service, by == byAdmin && caller.Admin:
		return caller, nil
	default:
		return caller, models.Errorf(models.CodeForbidden, "this token may not make this call")
	}
}

// countCall counts a call, whether it may be made or not. Backends and operators are
// trusted: one address of theirs may speak for every user.
func (a *authenticator) countCall(c *gin.Context, caller *auth.Caller) error {
	var user models.UserID
	if caller != nil {
		if caller.Service || caller.Admin {
			return nil
		}
		user = caller.User
	}
	var address string
	if a.limits.Addresses() {
		address = addressOf(c)
	}
	return a.limits.Take(c.Request.Context(), user, address)
}

const forwardedFor = "X-Forwarded-For"

// addressOf is the address that calls: the peer's, or what a trusted proxy says
// in the last place of X-Forwarded-For. Gin reads the first header of this name
// alone; a proxy may add another one behind what the caller has sent.
func addressOf(c *gin.Context) string {
	if values := c.Request.Header.Values(forwardedFor); len(values) > 1 {
		c.Request.Header.Set(forwardedFor, strings.Join(values, ", "))
	}
	return c.ClientIP()
}
