package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Provider is an OpenID Connect provider of its own for a test, which signs one person in without a question, and lies if it
// is told to. It follows OpenID Connect Core and Discovery, and RFC 7636.
type Provider struct {
	*httptest.Server
	// ClientID and ClientSecret are those of the one client that it knows.
	ClientID, ClientSecret string

	mu     sync.Mutex
	keys   []*ecdsa.PrivateKey // the newest signs
	person jwt.MapClaims
	info   jwt.MapClaims         // what the user info has beside the sub
	asked  map[string]url.Values // the requests by their codes, which were not used
	lie    func(*jwt.Token) any
	others map[string]http.HandlerFunc
	calls  map[string]int
}

// NewProvider returns a provider that runs until the test ends.
func NewProvider(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{
		ClientID: "stepboard", ClientSecret: "a secret of the provider", asked: make(map[string]url.Values),
		others: make(map[string]http.HandlerFunc), calls: make(map[string]int),
	}
	p.RotateKeys()
	mux := http.NewServeMux()
	for path, answer := range map[string]http.HandlerFunc{
		"/.well-known/openid-configuration": p.describe, "/authorize": p.authorize, "/token": p.exchange, "/keys": p.publish, "/userinfo": p.userInfo,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			p.calls[path]++
			other := p.others[path]
			p.mu.Unlock()
			if other == nil {
				other = answer
			}
			other(w, r)
		})
	}
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// SignIn makes a person the one who is signed in, by claims such as sub and name.
func (p *Provider) SignIn(person jwt.MapClaims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = person
}

// SetUserInfo sets what the user info has beside the sub of the person, or in its place.
func (p *Provider) SetUserInfo(claims jwt.MapClaims) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = claims
}

func (p *Provider) userInfo(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	claims := jwt.MapClaims{"sub": p.person["sub"]}
	maps.Copy(claims, p.info)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(claims)
}

// Lie changes ID tokens before they are signed. It returns the key that signs; nil for the provider's own. A nil lie ends it.
func (p *Provider) Lie(lie func(*jwt.Token) any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lie = lie
}

// Answer makes a handler answer at a path of the provider; nil ends that.
func (p *Provider) Answer(path string, handler http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others[path] = handler
}

// Calls returns how often a path was asked.
func (p *Provider) Calls(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

// RotateKeys makes a new key, and forgets the ones before.
func (p *Provider) RotateKeys() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo",
		"id_token_signing_alg_values_supported": []string{"ES256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	})
}

func (p *Provider) publish(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := Must(p.keys[len(p.keys)-1].PublicKey.ECDH()).Bytes() // 4, x and y
	text := base64.RawURLEncoding.EncodeToString
	writeJSON(w, map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": p.keyID(), "x": text(key[1:33]), "y": text(key[33:]),
	}}})
}

func (p *Provider) keyID() string { return fmt.Sprint("key ", len(p.keys)) }

// authorize signs the person in and sends the browser back.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.asked[code] = query
	p.mu.Unlock()
	back := Must(url.Parse(query.Get("redirect_uri")))
	back.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}, "session_state": {"further"}, "iss": {p.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// exchange answers a code with an ID token.
func (p *Provider) exchange(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code})
	}
	id, secret, _ := r.BasicAuth()
	if unescaped, err := url.QueryUnescape(secret); err == nil {
		secret = unescaped
	}
	if id == "" {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	code := r.PostFormValue("code")
	asked, found := p.asked[code]
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != p.ClientID || secret != p.ClientSecret:
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	case !found, asked.Get("redirect_uri") != r.PostFormValue("redirect_uri"), asked.Get("code_challenge_method") != "S256",
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]):
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	delete(p.asked, code)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.token(asked.Get("nonce"))})
}

// token returns an ID token of the person.
func (p *Provider) token(nonce string) string {
	now := time.Now()
	claims := jwt.MapClaims{"iss": p.URL, "aud": p.ClientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": nonce}
	maps.Copy(claims, p.person)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = p.keyID()
	var key any = p.keys[len(p.keys)-1]
	if p.lie != nil {
		if other := p.lie(token); other != nil {
			key = other
		}
	}
	return Must(token.SignedString(key))
}

// Codes returns the codes that were made and not used.
func (p *Provider) Codes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.asked))
}
