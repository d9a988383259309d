// Package auth signs and verifies the tokens of the API.
package auth

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	// User is the token's subject; empty for a service or an operator.
	User models.UserID
	// Service and Admin report whether the token has the scope.
	Service bool
	Admin   bool
	// Operator is the subject of a token of scope admin; empty if it has none, or one that
	// is not a user id.
	Operator models.UserID
	// Session is the id of the session that the token is of; 0 for one of somebody else's, such as an app's.
	Session int64
	// Expires is when the token is accepted no more: its exp, in whole seconds, and the leeway.
	Expires time.Time
}

// VerifierConfig says which tokens a Verifier accepts.
type VerifierConfig struct {
	// Secret is the key of HS256 tokens; empty accepts none.
	Secret []byte
	// PreviousSecret is a second key of HS256 tokens, for as long as tokens of the
	// key before Secret are in use; empty for none.
	PreviousSecret []byte
	// SessionSecret is a key of HS256 tokens of sessions alone; empty for none.
	SessionSecret []byte
	// Keys holds the keys of RS256, ES256 and EdDSA tokens; nil accepts none.
	Keys *KeySet
	// Issuer and Audience must match the token's, unless they are empty.
	Issuer, Audience string
	// MaxLifetime is the longest time from a token's iat to its exp; 0 accepts any.
	// The lifetime of a token without iat counts from now.
	MaxLifetime time.Duration
	// Leeway is for how long a token is accepted before its iat and nbf and after its exp,
	// because clocks differ.
	Leeway time.Duration
}

// Verifier verifies tokens and caches the valid ones. It compares their times
// with the system clock, whatever clock the service uses. Safe for concurrent
// use. Close stops it.
type Verifier struct {
	config   VerifierConfig
	secrets  jwt.VerificationKeySet // the keys of HS256 tokens
	sessions jwt.VerificationKeySet // the keys of those with a sid
	parser   *jwt.Parser
	cache    *otter.Cache[string, *Caller] // by token
}

// NewVerifier returns a verifier; Close must follow.
func NewVerifier(config VerifierConfig) *Verifier {
	methods := []string{} // not nil: the parser takes nil for every method
	secrets, sessions := keySet(config.Secret, config.PreviousSecret), keySet(config.Secret, config.PreviousSecret, config.SessionSecret)
	if len(sessions.Keys) > 0 {
		methods = append(methods, "HS256")
	}
	if config.Keys != nil {
		methods = append(methods, "RS256", "ES256", "EdDSA")
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithStrictDecoding(), jwt.WithLeeway(config.Leeway)}
	if config.Issuer != "" {
		options = append(options, jwt.WithIssuer(config.Issuer))
	}
	if config.Audience != "" {
		options = append(options, jwt.WithAudience(config.Audience))
	}
	return &Verifier{
		config:   config,
		secrets:  secrets,
		sessions: sessions,
		parser:   jwt.NewParser(options...),
		cache: otter.Must(&otter.Options[string, *Caller]{
			MaximumSize:      cacheSize,
			ExpiryCalculator: otter.ExpiryWriting[string, *Caller](cacheTTL),
		}),
	}
}

// keySet returns the secrets that are not empty.
func keySet(secrets ...[]byte) (set jwt.VerificationKeySet) {
	for _, secret := range secrets {
		if len(secret) > 0 {
			set.Keys = append(set.Keys, secret)
		}
	}
	return set
}

// Keys returns the key set, which must be refreshed; nil if there is none.
func (v *Verifier) Keys() *KeySet { return v.config.Keys }

// Close stops the goroutines of the cache.
func (v *Verifier) Close() { v.cache.StopAllGoroutines() }

// claims are the claims of a token.
type claims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope"`
	// Session is the id of a session of this service, or of somebody else's.
	Session string `json:"sid,omitzero"`
}

// UnmarshalJSON decodes claims by their exact names. It refuses a name that is
// given twice, and a value of another type than the claim's. encoding/json would
// also take Scope for scope, null for a claim that is missing, and the last of
// several subjects, where an issuer may have looked at the first.
func (c *claims) UnmarshalJSON(text []byte) error {
	type fields claims // without this method
	return json.Unmarshal(text, (*fields)(c), claimTypes)
}

// claimTypes decodes claims of their own types only. It is made once, because it remembers how
// each type is decoded.
var claimTypes = json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(refuseNull), json.UnmarshalFunc(unmarshalDate)))

// refuseNull returns errNull for null, and errors.ErrUnsupported, which leaves the value to
// the next unmarshaler, for all else.
func refuseNull(d *jsontext.Decoder, _ any) error {
	if d.PeekKind() == jsontext.KindNull {
		return errNull
	}
	return errors.ErrUnsupported
}

// maxDate is the largest NumericDate that is accepted, in seconds: every second up to it is
// exact in JSON. Far beyond it, a date overflows and comes back as one in the past.
const maxDate = 1 << 53

// unmarshalDate decodes a NumericDate (RFC 7519, section 2), a number of seconds since 1970.
// It leaves out fractions of a second. The jwt package would also take a number in quotes.
func unmarshalDate(text []byte, date *jwt.NumericDate) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(seconds) > maxDate {
		return errDate
	}
	*date = *jwt.NewNumericDate(time.Unix(int64(math.Floor(seconds)), 0))
	return nil
}

var (
	errNull = errors.New("a claim is null")
	errDate = errors.New("a claim is not a number of seconds")
)

// Verify returns the holder of the token: CodeUnauthenticated if the token is
// not valid, CodeUnavailable while no key is known to verify it with. For a key
// that is not known yet, it waits at most a second.
func (v *Verifier) Verify(token string) (*Caller, error) {
	if caller, ok := v.cache.GetIfPresent(token); ok && time.Now().Before(caller.Expires) {
		return caller, nil
	}
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.key); err != nil {
		if models.CodeOf(err) == models.CodeUnavailable {
			return nil, err
		}
		return nil, Unauthenticated(reason(err), err)
	}
	if v.livesTooLong(&c, time.Now()) {
		return nil, Unauthenticated("the token is valid for too long; get one with a shorter lifetime", nil)
	}
	caller, err := v.callerOf(&c)
	if err != nil {
		return nil, err
	}
	// The token is a part of the request's header: cache a copy.
	v.cache.Set(strings.Clone(token), caller)
	return caller, nil
}

// reason tells an honest caller why a token is refused. Claims are looked at after the
// signature, so all but the form of a token is told to its issuer's callers only.
func reason(err error) string {
	var form *json.SemanticError
	if errors.As(err, &form) {
		switch name := strings.TrimPrefix(string(form.JSONPointer), "/"); name {
		case "sub", "scope", "iss", "sid":
			return "the token's " + name + " is not a text"
		case "aud":
			return "the token's aud is neither a text nor a list of texts"
		case "exp", "nbf", "iat":
			return "the token's " + name + " is not a number of seconds"
		}
	}
	for _, r := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenExpired, "the token has expired; get a new one"},
		{jwt.ErrTokenUsedBeforeIssued, "the token's iat is in the future; its issuer's clock may be ahead"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet; its issuer's clock may be ahead"},
		{jwt.ErrTokenInvalidIssuer, "the token is from another issuer"},
		{jwt.ErrTokenInvalidAudience, "the token is for another audience"},
	} {
		if errors.Is(err, r.err) {
			return r.text
		}
	}
	for _, claim := range []string{"exp", "iss", "aud"} {
		if errors.Is(err, jwt.ErrTokenRequiredClaimMissing) && strings.Contains(err.Error(), claim+" claim") {
			return "the token has no " + claim
		}
	}
	return "the token is not valid; get a new one"
}

// key returns the key for the token's algorithm, which the parser has checked.
// It is a jwt.Keyfunc.
func (v *Verifier) key(t *jwt.Token) (any, error) {
	// A token with crit must be refused by those who do not know the extensions
	// that it names (RFC 7515, section 4.1.11), and none is known here. One that needs
	// crit is b64, by which the claims would be read without decoding (RFC 7797).
	for _, name := range []string{"crit", "b64"} {
		if _, ok := t.Header[name]; ok {
			return nil, errExtension
		}
	}
	if t.Method == jwt.SigningMethodHS256 {
		if c, ok := t.Claims.(*claims); ok && strings.HasPrefix(c.Session, sessionPrefix) {
			return v.sessions, nil
		}
		return v.secrets, nil
	}
	return v.config.Keys.find(t)
}

var errExtension = errors.New("the token has a crit or b64 header")

// livesTooLong reports whether a token is valid for longer than MaxLifetime. The parser has
// refused an iat that is ahead by more than the leeway.
func (v *Verifier) livesTooLong(c *claims, now time.Time) bool {
	if v.config.MaxLifetime == 0 {
		return false
	}
	from := now
	if c.IssuedAt != nil {
		from = c.IssuedAt.Time
	}
	return c.ExpiresAt.Sub(from) > v.config.MaxLifetime
}

// callerOf returns the holder of a token with the claims. Scopes are separated by single spaces
// (RFC 6749, section 3.3), not by what Unicode has besides.
func (v *Verifier) callerOf(c *claims) (*Caller, error) {
	scopes := strings.Split(c.Scope, " ")
	caller := &Caller{
		Service: slices.Contains(scopes, ScopeService),
		Admin:   slices.Contains(scopes, ScopeAdmin),
		Expires: c.ExpiresAt.Add(v.config.Leeway),
	}
	if id, ok := strings.CutPrefix(c.Session, sessionPrefix); ok {
		caller.Session, _ = strconv.ParseInt(id, 10, 64)
	}
	user, err := models.ParseUserID(c.Subject)
	if caller.Admin {
		caller.Operator = user
	}
	if caller.Service || caller.Admin {
		return caller, nil
	}
	if c.Subject == "" {
		return nil, Unauthenticated("the token has no sub, which names the user", err)
	}
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
