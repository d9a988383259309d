// Package auth signs and verifies the tokens of the API.
package auth

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

// The scopes of a token. Neither implies the other.
const (
	ScopeService = "service"
	ScopeAdmin   = "admin"
)

const (
	// cacheTTL is how long a verified token is accepted without verifying its
	// signature again. So a withdrawn key is accepted for that long after the
	// withdrawal is known.
	cacheTTL = 5 * time.Minute
	// cacheSize bounds the number of cached tokens, of about half a kilobyte each.
	cacheSize = 100_000
)

// Caller is the holder of a token.
type Caller struct {
	// User is the token's subject; 0 for a service or an operator.
	User models.UserID
	// Service and Admin report whether the token has the scope.
	Service bool
	Admin   bool
}

// VerifierConfig says which tokens a Verifier accepts.
type VerifierConfig struct {
	// Secret is the key of HS256 tokens; empty accepts none.
	Secret []byte
	// Keys holds the keys of RS256, ES256 and EdDSA tokens; nil accepts none.
	// The Verifier owns it: Close closes it.
	Keys *KeySet
	// Issuer and Audience must match the token's, unless they are empty.
	Issuer, Audience string
}

// Verifier verifies tokens and caches the valid ones. It compares their times
// with the system clock, whatever clock the service uses. Safe for concurrent
// use. Close stops it.
type Verifier struct {
	config VerifierConfig
	parser *jwt.Parser
	cache  *otter.Cache[string, cachedToken]
}

type cachedToken struct {
	caller  *Caller
	expires int64 // Unix seconds
}

// NewVerifier returns a verifier; Start and Close must follow.
func NewVerifier(config VerifierConfig) *Verifier {
	methods := []string{} // not nil: the parser takes nil for every method
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
		cache: otter.Must(&otter.Options[string, cachedToken]{
			MaximumSize:      cacheSize,
			ExpiryCalculator: otter.ExpiryWriting[string, cachedToken](cacheTTL),
		}),
	}
}

// Start refreshes the keys in the background until Close, if the verifier has a
// key set. It must be called once.
func (v *Verifier) Start(ctx context.Context) {
	if v.config.Keys != nil {
		v.config.Keys.Start(ctx)
	}
}

// Close stops the goroutines of the cache and of the key set.
func (v *Verifier) Close() {
	if v.config.Keys != nil {
		v.config.Keys.Close()
	}
	v.cache.StopAllGoroutines()
}

// claims are the claims of a token.
type claims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope"`
}

// Verify returns the holder of the token: CodeUnauthenticated if the token is
// not valid, CodeUnavailable while no key is known to verify it with. For a key
// that is not known yet, it waits at most a second.
func (v *Verifier) Verify(token string) (*Caller, error) {
	if cached, ok := v.cache.GetIfPresent(token); ok && time.Now().Unix() < cached.expires {
		return cached.caller, nil
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
	// The token is a part of the request's header: cache a copy.
	v.cache.Set(strings.Clone(token), cachedToken{caller: caller, expires: c.ExpiresAt.Unix()})
	return caller, nil
}

// key returns the key for the token's algorithm, which the parser has checked.
// It is a jwt.Keyfunc.
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

// Unauthenticated returns an error of CodeUnauthenticated. The message is for
// the client, the cause for the log.
func Unauthenticated(message string, cause error) *models.Error {
	return &models.Error{Code: models.CodeUnauthenticated, Message: message, Err: cause}
}
