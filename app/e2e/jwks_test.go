package e2e_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// issuer serves a JWKS, as a login service does.
type issuer struct {
	t    testing.TB
	url  string
	keys jwkset.Storage
	away atomic.Bool
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: jwkset.NewMemoryStorage()}
	server := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	if i.away.Load() {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	text, err := i.keys.JSONPublic(r.Context())
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil && r.Context().Err() == nil {
		i.t.Error(err)
	}
}

// publish adds a key.
func (i *issuer) publish(kid string, key crypto.Signer) {
	i.t.Helper()
	jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
	if err != nil {
		i.t.Fatal(err)
	}
	if err := i.keys.KeyWrite(context.Background(), jwk); err != nil {
		i.t.Fatal(err)
	}
}

// sign returns a token of user 1001; with kid "" it names no key.
func sign(t testing.TB, method jwt.SigningMethod, kid string, key any) string {
	t.Helper()
	unsigned := jwt.NewWithClaims(method, jwt.MapClaims{"sub": "1001", "exp": time.Now().Add(time.Hour).Unix()})
	if kid != "" {
		unsigned.Header["kid"] = kid
	}
	text, err := unsigned.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Without any key, no token can be checked, and calls answer 503 until the
// issuer is back. The service starts all the same.
func TestServeWithoutIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := testenv.Must(rsa.GenerateKey(rand.Reader, 2048))
	i.publish("key", key)
	i.away.Store(true)
	env := testenv.Real(t)
	p := testenv.Serve(t, env.Config, "--auth.jwks_url="+i.url)
	s := &server{t: t, env: env, url: p.URL}
	text := sign(t, jwt.SigningMethodRS256, "key", key)
	s.refuse(s.call(text, "GET", "/v1/boards", nil), 503, models.CodeUnavailable)
	s.refuse(s.call("no token at all", "GET", "/v1/boards", nil), 401, models.CodeUnauthenticated)
	i.away.Store(false)
	testenv.Eventually(t, "the keys are fetched", func() bool {
		return s.call(text, "GET", "/v1/boards", nil).status == http.StatusOK
	})
	// From now on the keys stay, even if the issuer is away.
	i.away.Store(true)
	s.want(s.call(sign(t, jwt.SigningMethodRS256, "", key), "GET", "/v1/boards", nil), http.StatusOK, nil)
	p.Stop()
}
