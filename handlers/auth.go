package handlers

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

// The scopes of a token. They do not imply each other.
const (
	ScopeService = "service"
	ScopeAdmin   = "admin"
)

const (
	// rememberToken is how long a checked token is taken without checking its
	// signature again; a key that is withdrawn works no longer than that once
	// its withdrawal is known.
	rememberToken = 5 * time.Minute
	// rememberedTokens bounds the memory for it, at about half a kilobyte each.
	rememberedTokens = 100_000
)

// Caller is who makes a request.
type Caller struct {
	// User is the token's subject; 0 where it is a backend's.
	User    models.UserID
	Service bool
	Admin   bool
}

// VerifierConfig says which tokens are taken.
type VerifierConfig struct {
	// Secret signs HS256 tokens; empty takes none.
	Secret []byte
	// Keys checks RS256, ES256 and EdDSA tokens; nil takes none. They are the
	// Verifier's from then on: Close closes them.
	Keys *KeySet
	// Issuer and Audience are checked where they are set.
	Issuer, Audience string
}

// Verifier checks tokens, and remembers for a while those that it has
// checked. Tokens are checked against the real time, whatever the service's
// clock says. Safe for concurrent use. Close stops it.
type Verifier struct {
	config VerifierConfig
	parser *jwt.Parser
	known  *otter.Cache[string, knownToken]
}

type knownToken struct {
	caller  *Caller
	expires int64 // Unix seconds
}

// NewVerifier makes a verifier.
func NewVerifier(config VerifierConfig) *Verifier {
	var methods []string
	if len(config.Secret) > 0 {
		methods = append(methods, "HS256")
	}
	if config.Keys != nil {
		methods = append(methods, "RS256", "ES256", "EdDSA")
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(methods), jwt.WithExpirationRequired()}
	if config.Issuer != "" {
		options = append(options, jwt.WithIssuer(config.Issuer))
	}
	if config.Audience != "" {
		options = append(options, jwt.WithAudience(config.Audience))
	}
	return &Verifier{
		config: config,
		parser: jwt.NewParser(options...),
		known: otter.Must(&otter.Options[string, knownToken]{
			MaximumSize:      rememberedTokens,
			ExpiryCalculator: otter.ExpiryWriting[string, knownToken](rememberToken),
		}),
	}
}

// Close stops the goroutines of the memory and of the keys.
func (v *Verifier) Close() {
	if v.config.Keys != nil {
		v.config.Keys.Close()
	}
	v.known.StopAllGoroutines()
}

// claims is what a token says.
type claims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope"`
}

// Verify tells who holds the token; CodeUnauthenticated if it is not to be
// taken, CodeUnavailable while the keys to tell are missing. It waits for a
// new key for a second at most.
func (v *Verifier) Verify(token string) (*Caller, error) {
	if k, ok := v.known.GetIfPresent(token); ok && time.Now().Unix() < k.expires {
		return k.caller, nil
	}
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.key); err != nil {
		if models.CodeOf(err) == models.CodeUnavailable {
			return nil, err
		}
		return nil, unauthenticated("the token is not valid; get a new one", err)
	}
	caller, err := callerOf(&c)
	if err != nil {
		return nil, err
	}
	// The token is a slice of the request's header: remember a copy.
	v.known.Set(strings.Clone(token), knownToken{caller: caller, expires: c.ExpiresAt.Unix()})
	return caller, nil
}

// key picks the key by the token's algorithm, which the parser has checked.
func (v *Verifier) key(t *jwt.Token) (any, error) {
	if t.Method == jwt.SigningMethodHS256 {
		return v.config.Secret, nil
	}
	return v.config.Keys.find(t)
}

func callerOf(c *claims) (*Caller, error) {
	scopes := strings.Fields(c.Scope)
	caller := &Caller{
		Service: slices.Contains(scopes, ScopeService),
		Admin:   slices.Contains(scopes, ScopeAdmin),
	}
	if caller.Service || caller.Admin {
		return caller, nil
	}
	user, err := models.ParseUserID(c.Subject)
	if err != nil {
		return nil, unauthenticated("the token's sub is not a user id", err)
	}
	caller.User = user
	return caller, nil
}

func unauthenticated(message string, cause error) *models.Error {
	return &models.Error{Code: models.CodeUnauthenticated, Message: message, Err: cause}
}

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

// callerKey is where the context keeps the Caller.
type callerKey struct{}

// authenticate lets a request through to its call if its token may make it,
// and whoever makes it has not made too many.
func (a *api) authenticate(hctx huma.Context, next func(huma.Context)) {
	caller, err := a.admit(hctx)
	c := humagin.Unwrap(hctx)
	if limited := a.limit(c, caller); limited != nil {
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
func (a *api) admit(hctx huma.Context) (*Caller, error) {
	scheme, token, _ := strings.Cut(hctx.Header("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, unauthenticated("send a token: Authorization: Bearer …", nil)
	}
	caller, err := a.Verifier.Verify(token)
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

// limit counts a call, whether it may be made or not. Backends and operators are
// trusted: one address of theirs may speak for every user.
func (a *api) limit(c *gin.Context, caller *Caller) error {
	var user models.UserID
	if caller != nil {
		if caller.Service || caller.Admin {
			return nil
		}
		user = caller.User
	}
	var address string
	if a.Limits.Addresses() {
		address = addressOf(c)
	}
	return a.Limits.Take(c.Request.Context(), user, address)
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

func callerFrom(ctx context.Context) *Caller { return ctx.Value(callerKey{}).(*Caller) }

// OnBehalf is the parameter by which a service names the user that it acts
// for.
type OnBehalf struct {
	UserID string `query:"user_id" doc:"The user that a service acts for; a user's own id may be given too" example:"1001"`
}

// user is the user that the request acts for.
func (o OnBehalf) user(ctx context.Context) (models.UserID, error) {
	user, err := o.userIfAny(ctx)
	if err == nil && user == 0 {
		return 0, models.Invalid("query.user_id", "a service token must name the user that it acts for")
	}
	return user, err
}

// userIfAny is the user that the request acts for; 0 for a backend that names
// none.
func (o OnBehalf) userIfAny(ctx context.Context) (models.UserID, error) {
	caller := callerFrom(ctx)
	if o.UserID == "" {
		return caller.User, nil
	}
	user, err := models.ParseUserID(o.UserID)
	if err != nil {
		return 0, models.Invalid("query.user_id", err.Error())
	}
	if !caller.Service && caller.User != user {
		return 0, models.Errorf(models.CodeForbidden, "a user acts only for oneself")
	}
	return user, nil
}

// SignToken makes an HS256 token for a user, for the `token` command and the
// demo.
func SignToken(secret []byte, user models.UserID, scope, issuer, audience string, now time.Time, ttl time.Duration) (string, error) {
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: user.String(), Issuer: issuer,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		Scope: scope,
	}
	if audience != "" {
		c.Audience = jwt.ClaimStrings{audience}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}

// pathUser reads the user of a path.
func pathUser(id string) (models.UserID, error) {
	user, err := models.ParseUserID(id)
	if err != nil {
		return 0, models.Invalid("path.id", err.Error())
	}
	return user, nil
}
