package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env, func(c *config.Config) { c.Auth.Issuer, c.Auth.Audience = "https://issuer.example", "stepboard" })
	good := func() jwt.MapClaims {
		return jwt.MapClaims{
			"sub": "1001", "iss": "https://issuer.example", "aud": "stepboard", "exp": time.Now().Add(time.Hour).Unix(),
		}
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(jwt.MapClaims)) jwt.MapClaims {
		c := good()
		change(c)
		return c
	}
	type tokenTest struct {
		name   string
		method jwt.SigningMethod
		key    any
		claims jwt.MapClaims
		ok     bool
	}
	tests := []tokenTest{
		{"a good one", jwt.SigningMethodHS256, []byte(harness.Secret), good(), true},
		{"one with scopes of others", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["scope"] = "profile email" }), true},
		{"a sub in words", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["sub"] = "auth0|5f7c" }), true},
		{"a number for a sub", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["sub"] = 1001 }), false},
		{"expired", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Second).Unix() }), false},
		{"without exp", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { delete(c, "exp") }), false},
		{"not valid yet", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["nbf"] = time.Now().Add(time.Hour).Unix() }), false},
		{"another secret", jwt.SigningMethodHS256, []byte("another secret, long enough for it"), good(), false},
		{"algorithm none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good(), false},
		{"HS384", jwt.SigningMethodHS384, []byte(harness.Secret), good(), false},
		{"ES256 without a JWKS", jwt.SigningMethodES256, ecKey, good(), false},
		{"another issuer", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["iss"] = "https://evil.example" }), false},
		{"no issuer", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { delete(c, "iss") }), false},
		{"another audience", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["aud"] = "other" }), false},
		{"no sub", jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { delete(c, "sub") }), false},
	}
	for _, id := range append(malformedIDs, "") {
		tests = append(tests, tokenTest{
			fmt.Sprintf("the sub %.20q", id), jwt.SigningMethodHS256, []byte(harness.Secret), with(func(c jwt.MapClaims) { c["sub"] = id }), false,
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := *s
			s.t = t
			text, err := jwt.NewWithClaims(tt.method, tt.claims).SignedString(tt.key)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time it may be cached
				a := s.call(text, "GET", "/v1/boards/steps/me", nil)
				if tt.ok {
					s.want(a, http.StatusOK, nil)
				} else {
					s.refuse(a, http.StatusUnauthorized, models.CodeUnauthenticated)
				}
			}
		})
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic abc", "Bearer not.a.token", "Bearer " + strings.Repeat("a", 5000)} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/boards", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", header)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%.20q: status %d", header, res.StatusCode)
		}
	}
}

// A token that expires is refused from then on, although it is cached.
func TestCachedTokenExpires(t *testing.T) {
	t.Parallel()
	v := auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)})
	defer v.Close()
	var text string
	for life := 2 * time.Second; ; life *= 2 {
		signed := time.Now()
		text = testenv.Must(auth.SignToken([]byte(harness.Secret), "1", "", "", "", signed, life))
		_, err := v.Verify(text)
		if err == nil {
			break
		}
		// On a busy machine a short token may expire before it is read.
		if time.Since(signed) < life-time.Second {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the token expires", func() bool {
		_, err := v.Verify(text)
		return models.CodeOf(err) == models.CodeUnauthenticated
	})
}
