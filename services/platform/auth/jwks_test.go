package auth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// issuer serves a JWKS, as a login service does.
type issuer struct {
	url     string
	keys    jwkset.Storage
	away    atomic.Bool
	hang    atomic.Pointer[chan struct{}] // answers wait until it is closed; nil if they don't wait
	fetches atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: jwkset.NewMemoryStorage()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		if hang := i.hang.Load(); hang != nil {
			<-*hang
		}
		if i.away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		text, err := i.keys.JSONPublic(r.Context())
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil && r.Context().Err() == nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

// publish adds a key to the JWKS.
func (i *issuer) publish(t *testing.T, kid string, key crypto.Signer, ops ...jwkset.KEYOPS) {
	t.Helper()
	jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid, KEYOPS: ops}})
	if err == nil {
		err = i.keys.KeyWrite(context.WithoutCancel(t.Context()), jwk)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// verifier accepts the issuer's tokens.
func (i *issuer) verifier(t *testing.T) *auth.Verifier {
	t.Helper()
	return newVerifier(t, auth.VerifierConfig{Keys: auth.NewKeySet(t.Context(), i.url, slog.New(slog.DiscardHandler))})
}

// signedBy returns a token of user 1001 that names a key; "" names none.
func signedBy(t *testing.T, method jwt.SigningMethod, kid string, key any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, jwt.MapClaims{"sub": "1001", "exp": time.Now().Add(time.Hour).Unix()})
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeySetAlgorithms(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecKey := newECKey(t)
	i.publish(t, "rsa", rsaKey)
	i.publish(t, "ec", ecKey)
	i.publish(t, "ed", edKey)
	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	v := i.verifier(t)
	both := newVerifier(t, auth.VerifierConfig{Secret: secret, SessionSecret: []byte("the secret of sessions, 32 bytes"), Keys: auth.NewKeySet(t.Context(), i.url, slog.New(slog.DiscardHandler))})
	for _, tt := range []struct {
		name, token string
		ok          bool
	}{
		{"RS256", signedBy(t, jwt.SigningMethodRS256, "rsa", rsaKey), true},
		{"ES256", signedBy(t, jwt.SigningMethodES256, "ec", ecKey), true},
		{"EdDSA", signedBy(t, jwt.SigningMethodEdDSA, "ed", edKey), true},
		{"no key named", signedBy(t, jwt.SigningMethodES256, "", ecKey), true},
		{"PS256", signedBy(t, jwt.SigningMethodPS256, "rsa", rsaKey), false},
		{"the wrong key named", signedBy(t, jwt.SigningMethodES256, "rsa", ecKey), false},
		{"another's key", signedBy(t, jwt.SigningMethodES256, "ec", newECKey(t)), false},
		{"HS256 by the modulus", signedBy(t, jwt.SigningMethodHS256, "rsa", rsaKey.N.Bytes()), false},
		{"HS256 by the bytes of the key", signedBy(t, jwt.SigningMethodHS256, "rsa", der), false},
		{"HS256 by the text of the key", signedBy(t, jwt.SigningMethodHS256, "rsa", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), false},
		{"no signature", signedBy(t, jwt.SigningMethodNone, "rsa", jwt.UnsafeAllowNoneSignatureType), false},
	} {
		for what, v := range map[string]*auth.Verifier{"the JWKS": v, "the JWKS and a secret": both} {
			caller, err := v.Verify(tt.token)
			switch {
			case tt.ok && (err != nil || caller.User != "1001" || caller.Expires.IsZero()):
				t.Errorf("%s, by %s: %+v, %v", tt.name, what, caller, err)
			case !tt.ok && models.CodeOf(err) != models.CodeUnauthenticated:
				t.Errorf("%s, by %s: %+v, %v", tt.name, what, caller, err)
			}
		}
	}
	ofSecret := signedBy(t, jwt.SigningMethodHS256, "", secret)
	if _, err := both.Verify(ofSecret); err != nil {
		t.Errorf("a token of the secret: %v", err)
	}
	if _, err := v.Verify(ofSecret); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("a token of a secret that there is not: %v", err)
	}
}

// A key with key_ops verifies tokens only if these have verify.
func TestKeyOps(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	verifies, agrees := newECKey(t), newECKey(t)
	i.publish(t, "verifies", verifies, jwkset.KeyOpsVerify)
	i.publish(t, "agrees", agrees, jwkset.KeyOpsDeriveKey)
	v := i.verifier(t)
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "verifies", verifies)); err != nil {
		t.Error(err)
	}
	if caller, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "agrees", agrees)); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("%+v, %v", caller, err)
	}
}

// An unknown key is fetched when a token names it, but made-up keys cause one
// fetch at most.
func TestKeySetFetchesUnknownKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	before, after := newECKey(t), newECKey(t)
	i.publish(t, "before", before)
	v := i.verifier(t)
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "before", before)); err != nil {
		t.Fatal(err)
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("%d fetches for a known key, want 1", n)
	}
	i.publish(t, "after", after)
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "after", after)); err != nil {
		t.Errorf("a new key: %v", err)
	}
	for range 5 {
		if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "made up", before)); models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("a made-up key: %v", err)
		}
	}
	if n := i.fetches.Load(); n > 3 { // a machine that stalls for ten seconds makes a third
		t.Errorf("%d fetches, want 2", n)
	}
}

// A request does not wait for an issuer that hangs.
func TestKeySetWhileItsIssuerHangs(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := newECKey(t)
	i.publish(t, "known", key)
	v := i.verifier(t)
	hang := make(chan struct{})
	i.hang.Store(&hang)
	defer close(hang)
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "unknown", key)); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("an unknown key: %v", err)
	}
	testenv.Eventually(t, "the issuer is asked", func() bool { return i.fetches.Load() == 2 })
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "known", key)); err != nil {
		t.Errorf("a known key, while a fetch is under way: %v", err)
	}
}

// Without any key a token can't be called invalid. Fetched keys stay in use
// while the issuer is away.
func TestKeySetWithoutItsIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := newECKey(t)
	i.publish(t, "key", key)
	token := signedBy(t, jwt.SigningMethodES256, "key", key)
	i.away.Store(true)
	v := i.verifier(t)
	if _, err := v.Verify(token); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("without keys: %v", err)
	}
	if _, err := v.Verify("no token"); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("text, without keys: %v", err)
	}
	i.away.Store(false)
	known := i.verifier(t)
	i.away.Store(true)
	if _, err := known.Verify(signedBy(t, jwt.SigningMethodES256, "", key)); err != nil {
		t.Errorf("after the keys were fetched: %v", err)
	}
	if _, err := known.Verify(signedBy(t, jwt.SigningMethodES256, "unknown", key)); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("an unknown key while the issuer is away: %v", err)
	}
}

// A JWKS without keys is treated as if it were missing.
func TestKeySetWithoutKeys(t *testing.T) {
	t.Parallel()
	v := newIssuer(t).verifier(t)
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "key", newECKey(t))); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("an empty JWKS: %v", err)
	}
}

// Keys come from the address of the settings alone: an issuer that leads elsewhere gives none, and the other server is not
// called.
func TestKeySetFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	other, key := newIssuer(t), newECKey(t)
	other.publish(t, "key", key)
	leads := httptest.NewServer(http.RedirectHandler(other.url, http.StatusFound))
	defer leads.Close()
	v := newVerifier(t, auth.VerifierConfig{Keys: auth.NewKeySet(t.Context(), leads.URL+"?secret", slog.New(slog.DiscardHandler))})
	if _, err := v.Verify(signedBy(t, jwt.SigningMethodES256, "key", key)); models.CodeOf(err) != models.CodeUnavailable || other.fetches.Load() != 0 {
		t.Errorf("%v, %d fetches", err, other.fetches.Load())
	}
}
