package e2e_test

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
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// issuer serves a JWKS, as a login service does.
type issuer struct {
	t   testing.TB
	url string

	mu   sync.Mutex
	keys jwkset.Storage
	away bool
	held chan struct{} // answers wait until it is closed; nil if they don't wait

	asked, answered int // number of requests and of answers
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
	i.mu.Lock()
	away, held := i.away, i.held
	i.asked++
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answered++
	}()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	if away {
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

// set makes the issuer fail, or hold its answers.
func (i *issuer) set(away bool, held chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away, i.held = away, held
}

// count returns the number of requests and of answers.
func (i *issuer) count() (asked, answered int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked, i.answered
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
	return signClaims(t, method, kid, key, jwt.MapClaims{"sub": "1001", "exp": time.Now().Add(time.Hour).Unix()})
}

// signClaims returns a token of claims; with kid "" it names no key.
func signClaims(t testing.TB, method jwt.SigningMethod, kid string, key any, claims jwt.MapClaims) string {
	t.Helper()
	unsigned := jwt.NewWithClaims(method, claims)
	if kid != "" {
		unsigned.Header["kid"] = kid
	}
	text, err := unsigned.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newRSA(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// verifierOf returns a verifier of the issuer's tokens and, if there is a
// secret, of tokens that the secret signs.
func verifierOf(t testing.TB, i *issuer, secret []byte) *auth.Verifier {
	t.Helper()
	v := auth.NewVerifier(auth.VerifierConfig{
		Secret: secret, Keys: auth.NewKeySet(context.Background(), i.url, testenv.Log()),
	})
	v.Start(context.Background())
	t.Cleanup(v.Close)
	return v
}

func TestTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	rsaKey, other := newRSA(t), newRSA(t)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.publish("rsa", rsaKey)
	i.publish("ec", ecKey)
	i.publish("ed", edKey)
	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	for name, v := range map[string]*auth.Verifier{
		"by the JWKS":                 verifierOf(t, i, nil),
		"by the JWKS and by a secret": verifierOf(t, i, []byte(harness.Secret)),
	} {
		for _, tt := range []struct {
			what string
			text string
			ok   bool
		}{
			{"RS256", sign(t, jwt.SigningMethodRS256, "rsa", rsaKey), true},
			{"ES256", sign(t, jwt.SigningMethodES256, "ec", ecKey), true},
			{"EdDSA", sign(t, jwt.SigningMethodEdDSA, "ed", edKey), true},
			{"a token that names no key", sign(t, jwt.SigningMethodRS256, "", rsaKey), true},
			{"another's signature", sign(t, jwt.SigningMethodRS256, "rsa", other), false},
			{"a key of another kind", sign(t, jwt.SigningMethodRS256, "ec", rsaKey), false},
			{"an unknown key", sign(t, jwt.SigningMethodRS256, "nix", other), false},
			{"RS512", sign(t, jwt.SigningMethodRS512, "rsa", rsaKey), false},
			{"HS256 by the public key's text", sign(t, jwt.SigningMethodHS256, "rsa", public), false},
			{"HS256 by the public key's bytes", sign(t, jwt.SigningMethodHS256, "rsa", der), false},
			{"HS256 by the modulus", sign(t, jwt.SigningMethodHS256, "rsa", rsaKey.N.Bytes()), false},
			{"no signature", sign(t, jwt.SigningMethodNone, "rsa", jwt.UnsafeAllowNoneSignatureType), false},
		} {
			caller, err := v.Verify(tt.text)
			switch {
			case tt.ok && (err != nil || caller.User != "1001"):
				t.Errorf("%s, %s: %+v, %v", name, tt.what, caller, err)
			case !tt.ok && models.CodeOf(err) != models.CodeUnauthenticated:
				t.Errorf("%s, %s: %+v, %v", name, tt.what, caller, err)
			}
		}
		_, err := v.Verify(harness.Token(t, "1", ""))
		if taken := err == nil; taken != (name == "by the JWKS and by a secret") {
			t.Errorf("%s: a token of the secret: %v", name, err)
		}
	}
}

// A new key is fetched when the first token names it, before the next regular
// fetch. Unknown key ids can't cause a fetch each.
func TestIssuerChangesItsKey(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	before, after := newRSA(t), newRSA(t)
	i.publish("before", before)
	v := verifierOf(t, i, nil)
	if _, err := v.Verify(sign(t, jwt.SigningMethodRS256, "before", before)); err != nil {
		t.Fatal(err)
	}
	i.publish("after", after)
	began := time.Now()
	earlier, _ := i.count()
	var wait sync.WaitGroup
	for range 10 { // the first one fetches the keys, the others wait for the same fetch
		text := sign(t, jwt.SigningMethodRS256, "after", after)
		wait.Go(func() {
			asked := time.Now()
			if _, err := v.Verify(text); err != nil && time.Since(asked) < time.Second { // no request waits longer
				t.Error(err)
			}
		})
	}
	testenv.Wait(t, "the calls end", &wait)
	testenv.Eventually(t, "the new key is known", func() bool {
		_, err := v.Verify(sign(t, jwt.SigningMethodRS256, "after", after))
		return err == nil
	})
	// Unknown keys cause one fetch in ten seconds.
	most := func() int { return 1 + int(time.Since(began)/(10*time.Second)) }
	if later, _ := i.count(); later > earlier+most() {
		t.Errorf("the issuer was asked %d times for one new key", later-earlier)
	}

	// Unknown keys don't cause a fetch each time.
	for range 10 {
		if _, err := v.Verify(sign(t, jwt.SigningMethodRS256, "nix", before)); models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("an unknown key: %v", err)
		}
	}
	if later, _ := i.count(); later > earlier+most() {
		t.Errorf("the issuer was asked %d times for a new key and ten unknown ones", later-earlier)
	}
}

// A request does not wait for an issuer that hangs.
func TestUnknownKeyDoesNotDelayARequest(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := newRSA(t)
	i.publish("known", key)
	v := verifierOf(t, i, nil)
	hang := make(chan struct{})
	i.set(false, hang)
	defer close(hang)
	if _, err := v.Verify(sign(t, jwt.SigningMethodRS256, "unknown", key)); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("an unknown key: %v", err)
	}
	testenv.Eventually(t, "the issuer is asked", func() bool { asked, _ := i.count(); return asked > 1 })
	if asked, answered := i.count(); asked != 2 || answered != 1 {
		t.Errorf("the issuer was asked %d times, and has answered %d", asked, answered)
	}
	if _, err := v.Verify(sign(t, jwt.SigningMethodRS256, "known", key)); err != nil {
		t.Errorf("a known key, while a fetch is under way: %v", err)
	}
}

// Without any key, no token can be checked, and calls answer 503 until the
// issuer is back. The service starts all the same.
func TestServeWithoutIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := newRSA(t)
	i.publish("key", key)
	i.set(true, nil)
	env := testenv.Real(t)
	p := testenv.Serve(t, env.Config, "--auth.jwks_url="+i.url)
	s := &server{t: t, env: env, url: p.URL}
	text := sign(t, jwt.SigningMethodRS256, "key", key)
	s.refuse(s.call(text, "GET", "/v1/boards", nil), 503, models.CodeUnavailable)
	s.refuse(s.call("no token at all", "GET", "/v1/boards", nil), 401, models.CodeUnauthenticated)
	i.set(false, nil)
	testenv.Eventually(t, "the keys are fetched", func() bool {
		return s.call(text, "GET", "/v1/boards", nil).status == http.StatusOK
	})
	// From now on the keys stay, even if the issuer is away.
	i.set(true, nil)
	s.want(s.call(sign(t, jwt.SigningMethodRS256, "", key), "GET", "/v1/boards", nil), http.StatusOK, nil)
	p.Stop()
}

// A key set without keys counts as not fetched.
func TestIssuerWithoutKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := verifierOf(t, i, nil)
	key := newRSA(t)
	text := sign(t, jwt.SigningMethodRS256, "key", key)
	if _, err := v.Verify(text); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("without keys: %v", err)
	}
	i.publish("key", key)
	testenv.Eventually(t, "the key is fetched", func() bool {
		_, err := v.Verify(text)
		return err == nil
	})
}
