package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

var secret = []byte("a secret of 32 bytes for testing")

// newVerifier returns a started verifier that is closed with the test.
func newVerifier(t *testing.T, config auth.VerifierConfig) *auth.Verifier {
	t.Helper()
	v := auth.NewVerifier(config)
	t.Cleanup(v.Close)
	return v
}

// signed returns a token of claims. Without an exp claim it expires in an hour.
func signed(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	if _, ok := claims["exp"]; !ok {
		claims["exp"] = time.Now().Add(time.Hour).Unix()
	}
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerify(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	now := time.Now().Unix()
	for _, tt := range []struct {
		name   string
		claims jwt.MapClaims
		want   *auth.Caller // nil for a token that is refused
	}{
		{"a user", jwt.MapClaims{"sub": "1001"}, &auth.Caller{User: "1001"}},
		{"an unknown scope", jwt.MapClaims{"sub": "1001", "scope": "services administrator"}, &auth.Caller{User: "1001"}},
		{"a service", jwt.MapClaims{"sub": "1001", "scope": "service"}, &auth.Caller{Service: true}},
		{"a service without a subject", jwt.MapClaims{"scope": "service"}, &auth.Caller{Service: true}},
		{"an operator", jwt.MapClaims{"sub": "1001", "scope": "admin"}, &auth.Caller{Admin: true, Operator: "1001"}},
		{"an operator without a name", jwt.MapClaims{"scope": "admin"}, &auth.Caller{Admin: true}},
		{"an operator whose name is no user id", jwt.MapClaims{"scope": "admin", "sub": "a\x00b"}, &auth.Caller{Admin: true}},
		{"both scopes", jwt.MapClaims{"scope": "openid admin  service"}, &auth.Caller{Service: true, Admin: true}},
		{"a session", jwt.MapClaims{"sub": "1001", "sid": "stepboard-7"}, &auth.Caller{User: "1001", Session: 7}},
		{"a session of an identity provider", jwt.MapClaims{"sub": "1001", "sid": "7"}, &auth.Caller{User: "1001"}},
		{"a session that is no text", jwt.MapClaims{"sub": "1001", "sid": 7}, nil},
		{"no subject", jwt.MapClaims{}, nil},
		{"a subject that is no user id", jwt.MapClaims{"sub": "ann b"}, nil},
		{"a subject that paths lose", jwt.MapClaims{"sub": ".."}, nil},
		{"expired", jwt.MapClaims{"sub": "1001", "exp": now - 1}, nil},
		{"not valid yet", jwt.MapClaims{"sub": "1001", "nbf": now + 3600}, nil},
	} {
		token := signed(t, jwt.SigningMethodHS256, secret, tt.claims)
		for _, how := range []string{"first", "again"} { // again: from the cache
			if tt.want != nil {
				tt.want.Expires = time.Unix(tt.claims["exp"].(int64), 0)
			}
			got, err := v.Verify(token)
			switch {
			case tt.want == nil && (got != nil || models.CodeOf(err) != models.CodeUnauthenticated):
				t.Errorf("%s, %s: %+v, %v", tt.name, how, got, err)
			case tt.want != nil && (err != nil || *got != *tt.want):
				t.Errorf("%s, %s: %+v, %v, want %+v", tt.name, how, got, err, tt.want)
			}
		}
	}
}

// Scopes are separated by the space of ASCII only. Behind or before any other white space, the
// token does not have the scope.
func TestScopesAreSeparatedBySpaces(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	for scope, admin := range map[string]bool{
		"admin": true, "openid admin": true, "admin openid": true, "openid admin email": true, " admin": true, "admin ": true, "openid  admin": true,
		"": false, " ": false, "ADMIN": false, "openid,admin": false, "openid+admin": false, "openid%20admin": false, `"admin"`: false,
	} {
		checkAdmin(t, v, scope, admin)
	}
	for _, space := range []string{
		"\t", "\n", "\v", "\f", "\r", "\r\n", "\x00", "\x1f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff",
	} {
		for _, scope := range []string{space + "admin", "admin" + space, "openid" + space + "admin", "openid " + space + "admin", "admin" + space + " openid"} {
			checkAdmin(t, v, scope, false)
		}
	}
}

// checkAdmin checks whether a token with the scope claim is an operator's or a user's.
func checkAdmin(t *testing.T, v *auth.Verifier, scope string, admin bool) {
	t.Helper()
	got, err := v.Verify(signed(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "1001", "scope": scope}))
	if err != nil || got.Admin != admin || got.Service || (got.User == "") != admin {
		t.Errorf("scope %q: %+v, %v", scope, got, err)
	}
}

// A token is accepted for the leeway before its iat and nbf and after its exp, and not longer.
func TestLeeway(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, Leeway: 30 * time.Second})
	now := time.Now().Unix()
	for name, tt := range map[string]struct {
		claims jwt.MapClaims
		ok     bool
	}{
		"expired a moment ago":    {jwt.MapClaims{"exp": now - 10}, true},
		"expired a minute ago":    {jwt.MapClaims{"exp": now - 60}, false},
		"valid in a moment":       {jwt.MapClaims{"nbf": now + 20}, true},
		"valid in a minute":       {jwt.MapClaims{"nbf": now + 60}, false},
		"issued in a moment":      {jwt.MapClaims{"iat": now + 20}, true},
		"issued in a minute":      {jwt.MapClaims{"iat": now + 60}, false},
		"expires after its times": {jwt.MapClaims{"exp": now + 60, "nbf": now - 60}, true},
	} {
		tt.claims["sub"] = "1001"
		token := signed(t, jwt.SigningMethodHS256, secret, tt.claims)
		for range 2 { // again: from the cache
			caller, err := v.Verify(token)
			if (err == nil) != tt.ok || err == nil && caller.Expires.Unix() != tt.claims["exp"].(int64)+30 {
				t.Errorf("%s: %+v, %v", name, caller, err)
			}
		}
	}
}

// The answer says what is wrong with a token whose signature is good, or with its form.
func TestReasons(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, Issuer: "issuer", Audience: "stepboard"})
	now := time.Now().Unix()
	for want, change := range map[string]jwt.MapClaims{
		"the token has expired; get a new one":                              {"exp": now - 60},
		"the token is not valid yet; its issuer's clock may be ahead":       {"nbf": now + 60},
		"the token's iat is in the future; its issuer's clock may be ahead": {"iat": now + 60},
		"the token is from another issuer":                                  {"iss": "other"},
		"the token is for another audience":                                 {"aud": "other"},
		"the token's sub is not a text":                                     {"sub": 1001},
		"the token's scope is not a text":                                   {"scope": []string{"service"}},
		"the token's aud is neither a text nor a list of texts":             {"aud": 1},
		"the token's exp is not a number of seconds":                        {"exp": "4102444800"},
		"the token has no sub, which names the user":                        {"sub": ""},
		"the token's sub is not a user id":                                  {"sub": "a b"},
		"the token has no iss":                                              {"iss": nil},
		"the token has no aud":                                              {"aud": nil},
	} {
		claims := jwt.MapClaims{"sub": "1001", "iss": "issuer", "aud": "stepboard"}
		for name, value := range change {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
		_, err := v.Verify(signed(t, jwt.SigningMethodHS256, secret, claims))
		var refused *models.Error
		if !errors.As(err, &refused) || refused.Code != models.CodeUnauthenticated || refused.Message != want {
			t.Errorf("%v, want %q", err, want)
		}
		_, err = v.Verify(signed(t, jwt.SigningMethodHS256, []byte("another secret"), claims))
		if !errors.As(err, &refused) || refused.Message != "the token is not valid; get a new one" && !strings.HasPrefix(refused.Message, "the token's") {
			t.Errorf("of another secret: %v", err)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	forever, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "1001"}).SignedString(secret)
	if err != nil {
		t.Fatal(err)
	}
	valid := signed(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "1001"})
	if _, err := v.Verify(valid); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"no token":          "",
		"text":              "no token",
		"without exp":       forever,
		"another secret":    signed(t, jwt.SigningMethodHS256, []byte("another secret"), jwt.MapClaims{"sub": "1001"}),
		"another algorithm": signed(t, jwt.SigningMethodHS512, secret, jwt.MapClaims{"sub": "1001"}),
		"no signature":      signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "1001"}),
		"cut off":           valid[:len(valid)-2],
	} {
		if caller, err := v.Verify(token); models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("%s: %+v, %v", name, caller, err)
		}
	}
}

// A verifier without a secret and without keys accepts nothing, not even a
// token that is signed with the empty secret.
func TestVerifyWithoutKeys(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{})
	for name, key := range map[string][]byte{"a secret": secret, "the empty secret": {}} {
		token := signed(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "1001"})
		if caller, err := v.Verify(token); models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("%s: %+v, %v", name, caller, err)
		}
	}
}

func TestIssuerAndAudience(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, Issuer: "https://login.example", Audience: "stepboard"})
	for _, tt := range []struct {
		name, issuer, audience string
		ok                     bool
	}{
		{"both", "https://login.example", "stepboard", true},
		{"another issuer", "https://other.example", "stepboard", false},
		{"another audience", "https://login.example", "other", false},
		{"no issuer", "", "stepboard", false},
		{"no audience", "https://login.example", "", false},
	} {
		token, err := auth.SignToken(secret, "1001", "", tt.issuer, tt.audience, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(token)
		if ok := err == nil; ok != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSignToken(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	token, err := auth.SignToken(secret, "1001", "service admin", "issuer", "audience", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		jwt.RegisteredClaims
		Scope string `json:"scope"`
	}
	if _, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return secret, nil }); err != nil {
		t.Fatal(err)
	}
	if claims.Subject != "1001" || claims.Scope != "service admin" || claims.Issuer != "issuer" || len(claims.Audience) != 1 || claims.Audience[0] != "audience" {
		t.Errorf("claims %+v", claims)
	}
	if !claims.IssuedAt.Equal(now) || !claims.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("valid from %v to %v, want an hour from %v", claims.IssuedAt, claims.ExpiresAt, now)
	}
}
