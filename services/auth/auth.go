// Package auth checks tokens and signs them.
package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Start keeps the keys fresh, if the verifier has any, until Close. It must be
// called once.
func (v *Verifier) Start(ctx context.Context) {
	if v.config.Keys != nil {
		v.config.Keys.Start(ctx)
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
		return nil, Unauthenticated("the token is not valid; get a new one", err)
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
		return nil, Unauthenticated("the token's sub is not a user id", err)
	}
	caller.User = user
	return caller, nil
}

func Unauthenticated(message string, cause error) *models.Error {
	return &models.Error{Code: models.CodeUnauthenticated, Message: message, Err: cause}
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
