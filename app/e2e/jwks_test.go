package e2e_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// On a data folder that takes the tokens of an issuer, people sign in by codes, too: the folder's secret signs the tokens of
// their sessions, and no others.
func TestSessionsBesideAJWKS(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key := testenv.Must(rsa.GenerateKey(rand.Reader, 2048))
	i.publish("key", key)
	dir := t.TempDir()
	p := testenv.ServeFolder(t, dir, "--auth.jwks_url="+i.url)
	if printed := p.Stdout(); strings.Contains(printed, "#code/") {
		t.Errorf("a first code is printed: %s", printed)
	}
	code, _, _ := strings.Cut(onFolder(t, dir, "sign-in-code", "--new", "Ann", "--operator").Succeeds(t), " ")
	answer, err := http.Post(p.URL+"/v1/session", "application/json", strings.NewReader(fmt.Sprintf(`{"code":%q}`, code)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var session struct {
		Token string
		User  models.UserID `json:"user_id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&session); err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("signing in: status %d, %v", answer.StatusCode, err)
	}
	secret := []byte(strings.TrimSpace(string(testenv.Must(os.ReadFile(filepath.Join(dir, "secret"))))))
	for who, tt := range map[string]struct {
		token string
		want  int
	}{
		"the session":          {session.Token, http.StatusOK},
		"the issuer":           {sign(t, jwt.SigningMethodRS256, "key", key), http.StatusOK},
		"the folder's secret":  {sign(t, jwt.SigningMethodHS256, "", secret), http.StatusUnauthorized},
		"the command":          {testenv.Must(auth.SignToken(secret, session.User, auth.ScopeAdmin, "", "", time.Now(), time.Hour)), http.StatusUnauthorized},
		"a session not theirs": {testenv.Must(auth.SignSession(secret, session.User, auth.ScopeAdmin, 99, "", "", time.Now(), time.Hour)), http.StatusUnauthorized},
	} {
		if status, text, err := harness.Request(t.Context(), http.DefaultClient, tt.token, "GET", p.URL+"/v1/boards", ""); err != nil || status != tt.want {
			t.Errorf("by %s: %d, want %d: %s, %v", who, status, tt.want, text, err)
		}
	}
	onFolder(t, dir, "token", "--user=9", "--auth.jwks_url="+i.url).Fails(t, 1, "auth.hs256_secret")
}
