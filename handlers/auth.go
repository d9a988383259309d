package handlers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// audience says who may make a call.
type audience struct {
	// described tells clients so.
	described string
	// has reports whether a caller with a token is one of them; nil for calls without a token, which the handler limits.
	has func(*auth.Caller) bool
}

// The audiences.
var (
	// byUser accepts a user's token, and a service's on behalf of ?user_id=.
	byUser = &audience{
		"With a user's token; with a service token on behalf of ?user_id=.",
		func(c *auth.Caller) bool { return c.User != "" || c.Service },
	}
	byService = &audience{"With a token of scope service.", func(c *auth.Caller) bool { return c.Service }}
	byAdmin   = &audience{"With a token of scope admin.", func(c *auth.Caller) bool { return c.Admin }}
	byManager = &audience{"With a token of scope service or admin.", func(c *auth.Caller) bool { return c.Service || c.Admin }}
	byAny     = &audience{"With any token.", func(*auth.Caller) bool { return true }}
	// byKey accepts the key of an upload address, which the handler looks up.
	byKey    = &audience{"With the key of an upload address, and no token.", nil}
	byNobody = &audience{"Without a token.", nil}
	// byCookie is byNobody for calls that read or set the cookie of a session, which must come from the service's own page.
	byCookie = &audience{"Without a token, by the service's own page.", nil}
)

const audienceKey = "audience"

// reportKey is the key of an operation's report in its metadata.
const reportKey = "report"

// writesSQLKey is the key of whether an operation writes about users to SQL, in its
// metadata.
const writesSQLKey = "writes SQL"

// TokenVerifier verifies tokens.
type TokenVerifier interface {
	Verify(token string) (*auth.Caller, error)
}

// RateLimiter limits the calls of each user, key and address. EnterReport limits how many calls
// about many days a user makes at the same time.
type RateLimiter interface {
	KeyLimiter
	Take(ctx context.Context, user models.UserID, address string) error
	EnterReport(ctx context.Context, user models.UserID, export bool) (leave func(), err error)
}

// SessionChecker knows the sessions of operators.
type SessionChecker interface {
	// Operates returns an error unless a session is there and its user an operator.
	Operates(ctx context.Context, session int64, user models.UserID) error
}

// authenticator decides which calls go through to their handlers.
type authenticator struct {
	tokens         TokenVerifier
	limits         RateLimiter
	limitAddresses bool // whether limits of addresses are on
	checkErasures  func(ctx context.Context) error
	sessions       SessionChecker
	users          models.Finder
	cookies        *Cookies
	origins        *http.CrossOriginProtection
	// warnUntrusted is called for each call that has X-Forwarded-For while no proxy
	// is trusted; nil if one is.
	warnUntrusted func()
}

// newUntrustedProxyWarning returns a function that logs, the first time it is
// called, that all callers behind a proxy are limited as one address. It returns nil
// if a proxy is trusted.
func newUntrustedProxyWarning(trustedProxies []string, log *slog.Logger) func() {
	if len(trustedProxies) > 0 {
		return nil
	}
	return sync.OnceFunc(func() {
		log.Warn("a call has X-Forwarded-For, but http.trusted_proxies is empty: all callers behind a proxy share the limit " +
			"of its address; set http.trusted_proxies or turn the limits of addresses off")
	})
}

// authenticate passes a request on to its handler if its token may make the call
// and the caller is within the rate limits.
func (a *authenticator) authenticate(hctx huma.Context, next func(huma.Context)) {
	c := humagin.Unwrap(hctx)
	by := hctx.Operation().Metadata[audienceKey].(*audience)
	caller, err := new(auth.Caller), error(nil)
	switch {
	case by == byCookie:
		err = checkOrigin(a.origins, c.Request)
	case by.has != nil:
		if caller, err = a.identify(hctx.Header("Authorization")); err == nil {
			err = a.checkSession(c.Request.Context(), caller)
		}
	}
	user, address := a.limited(c, caller)
	if by == byCookie { // wrong codes are always counted
		address = addressOf(c)
	}
	if by.has != nil && (user != "" || address != "") {
		if limited := a.limits.Take(c.Request.Context(), user, address); limited != nil {
			err = limited
		}
	}
	if err == nil && by.has != nil && !by.has(caller) {
		err = models.Errorf(models.CodeForbidden, "this token may not make this call")
	}
	if err == nil {
		err = checkQuery(c.Request.URL.RawQuery)
	}
	// Without this check Huma would read the body up to the limit first.
	if limit := bodyLimit(hctx.Operation()); err == nil && hctx.Operation().RequestBody != nil && c.Request.ContentLength > limit {
		err = bodyTooLarge(limit)
	}
	if err == nil && hctx.Operation().Metadata[writesSQLKey] == true {
		err = a.checkErasures(c.Request.Context())
	}
	if err != nil {
		writeProblem(c, err)
		return
	}
	*callerFrom(c.Request.Context()) = requester{caller, address, requestID(c), session{a.cookies, c}}
	if report, ok := hctx.Operation().Metadata[reportKey].(report); ok && report.is(hctx) {
		// A call that a service makes for a user counts as one of this user.
		user := cmp.Or(caller.User, models.UserID(hctx.Query("user_id")), models.UserID(hctx.Param("id")))
		leave, err := a.limits.EnterReport(c.Request.Context(), user, report.export)
		if err != nil {
			writeProblem(c, err)
			return
		}
		defer leave()
	}
	next(hctx)
}

// maxParameters is how many parameters a query may have; no call takes as many.
const maxParameters = 32

// checkQuery refuses what would be ignored silently in a query: pairs that can't be decoded,
// and repeated parameters. It also refuses a query with very many parameters, because Huma
// makes an error for each one that it doesn't know.
func checkQuery(raw string) error {
	var names [maxParameters]string
	n := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if _, invalid := url.QueryUnescape(value); err != nil || invalid != nil || strings.Contains(pair, ";") {
			return models.Invalid("query", "can't be read: percent-encode its values")
		}
		if slices.Contains(names[:n], name) {
			return models.Invalid("query."+name, "is given more than once")
		}
		if n == maxParameters {
			return models.Invalid("query", fmt.Sprintf("has more than %d parameters, which no call takes", maxParameters))
		}
		names[n] = name
		n++
	}
	return nil
}

// identify returns the caller that the Authorization header names; nil and
// CodeUnauthenticated if the token is missing or invalid.
func (a *authenticator) identify(header string) (*auth.Caller, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, auth.Unauthenticated("send a token: Authorization: Bearer …", nil)
	}
	return a.tokens.Verify(token)
}

// checkSession returns CodeUnauthenticated for a user who has signed in and is not there any more, and for an operator whose
// session has ended or who is none any more. CodeUnavailable. One query for tokens of operators' sessions; those of users
// are found as each call finds its user.
func (a *authenticator) checkSession(ctx context.Context, caller *auth.Caller) error {
	if caller.Admin && caller.Session != 0 {
		return a.sessions.Operates(ctx, caller.Session, caller.Operator)
	}
	if !caller.User.SignsUp() && caller.Session == 0 {
		return nil
	}
	row, err := a.users.FindOne(ctx, caller.User)
	if err == nil && row == 0 {
		err = auth.Unauthenticated("this user is not here any more: sign in again", nil)
	}
	return err
}

// limited returns the user and the address whose limits apply to a call; "" stands for no
// limit. caller is nil if it is not known. Services and operators are not limited, because one
// of their addresses may act for every user.
func (a *authenticator) limited(c *gin.Context, caller *auth.Caller) (user models.UserID, address string) {
	if caller != nil {
		if caller.Service || caller.Admin {
			return "", ""
		}
		user = caller.User
	}
	if a.limitAddresses {
		address = addressOf(c)
		if a.warnUntrusted != nil && c.Request.Header.Get(forwardedFor) != "" {
			a.warnUntrusted()
		}
	}
	return user, address
}

const forwardedFor = "X-Forwarded-For"

// addressOf returns the client's address: the peer's, or the last address in
// X-Forwarded-For if the peer is a trusted proxy. Gin reads only the first header
// of that name, but a proxy may add a second one behind the client's. Gin also does not
// understand an address with a port.
func addressOf(c *gin.Context) string {
	if values := c.Request.Header.Values(forwardedFor); len(values) > 0 {
		addresses := strings.Split(strings.Join(values, ","), ",")
		for i, address := range addresses {
			addresses[i] = withoutPort(strings.TrimSpace(address))
		}
		c.Request.Header.Set(forwardedFor, strings.Join(addresses, ", "))
	}
	return c.ClientIP()
}

// withoutPort returns an address of X-Forwarded-For without its port, its
// brackets and its zone. An IPv4 address that is written as an IPv6 address becomes
// an IPv4 address. Text that is not an address stays as it is.
func withoutPort(text string) string {
	if pair, err := netip.ParseAddrPort(text); err == nil {
		return pair.Addr().Unmap().WithZone("").String()
	}
	inner := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		inner = text[1 : len(text)-1]
	}
	if addr, err := netip.ParseAddr(inner); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return text
}

// requester is the caller of a request.
type requester struct {
	*auth.Caller

	// address is the address whose limits the request is subject to; "" for none.
	address string
	// requestID is the request's id in the log.
	requestID string
	// session is the session that the cookie names, of a call that reads it.
	session session
}

// requesterKey is the key of a context's requester.
type requesterKey struct{}

// withRequester returns a context with a requester, which is empty until the request was
// authenticated.
func withRequester(ctx context.Context) context.Context {
	return context.WithValue(ctx, requesterKey{}, new(requester))
}

// callerFrom returns the caller of a request that was authenticated.
func callerFrom(ctx context.Context) *requester { return ctx.Value(requesterKey{}).(*requester) }

// operatorFrom returns the operator whose decision a request stores. CodeForbidden if the
// token names nobody.
func operatorFrom(ctx context.Context) (models.UserID, error) {
	operator := callerFrom(ctx).Operator
	if operator == "" {
		return "", models.Errorf(models.CodeForbidden, "this call is recorded: the token needs a sub that says whose it is")
	}
	return operator, nil
}

// OnBehalf is the parameter with which a service names the user that it acts for.
type OnBehalf struct {
	UserID models.UserID `query:"user_id" doc:"The user that a service acts for; a user's own id may be given too"`
}

// ownInput is the input of a call that acts for a user and has a body.
type ownInput[Body any] struct {
	OnBehalf
	Body Body
}

// user returns the user that the request acts for.
func (o OnBehalf) user(ctx context.Context) (models.UserID, error) {
	user, err := o.userIfAny(ctx)
	if err == nil && user == "" {
		return "", models.Invalid("query.user_id", "a service token must name the user that it acts for")
	}
	return user, err
}

// userIfAny returns the user that the request acts for; empty for a service or an
// operator that names none.
func (o OnBehalf) userIfAny(ctx context.Context) (models.UserID, error) {
	caller := callerFrom(ctx)
	if o.UserID == "" {
		return caller.User, nil
	}
	if !caller.Service && caller.User != o.UserID {
		return "", models.Errorf(models.CodeForbidden, "a user acts only for oneself")
	}
	return o.UserID, nil
}
