package auth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// written returns an HS256 token whose header and claims are exactly these texts.
func written(header, claims string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// A claim counts only under its exact name, and once.
func TestClaimsByExactName(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	const header = `{"alg":"HS256","typ":"JWT"}`
	exp := time.Now().Add(time.Hour).Unix()
	user := auth.Caller{User: "1001", Expires: time.Unix(exp, 0)}
	service := auth.Caller{Service: true, Expires: time.Unix(exp, 0)}
	for _, tt := range []struct {
		claims string
		want   *auth.Caller // nil for a token that is refused
	}{
		{`{"sub":"1001","scope":"service","exp":%d}`, &service},
		{`{"sub":"1001","Scope":"service","exp":%d}`, &user},
		{`{"sub":"1001","SCOPE":"admin","exp":%d}`, &user},
		{`{"sub":"1001","ſcope":"admin","exp":%d}`, &user},
		{`{"sub":"1001","\u017fcope":"admin","exp":%d}`, &user},
		{`{"sub":"1001","scope":"","Scope":"admin","exp":%d}`, &user},
		{`{"sub":"1001","\u0073cope":"service","exp":%d}`, &service},
		{`{"Sub":"1001","exp":%d}`, nil},
		{`{"sub":"1001","Exp":%d}`, nil},
		{`{"sub":"1001","sub":"1002","exp":%d}`, nil},
		{`{"sub":"1001","s\u0075b":"1002","exp":%d}`, nil},
		{`{"sub":"1001","scope":"","scope":"admin","exp":%d}`, nil},
		{`{"sub":"1001","exp":1,"exp":%d}`, nil},
		{`{"sub":"1001","exp":%d}{"scope":"admin"}`, nil},
	} {
		got, err := v.Verify(written(header, fmt.Sprintf(tt.claims, exp)))
		switch {
		case tt.want == nil && models.CodeOf(err) != models.CodeUnauthenticated:
			t.Errorf("%s: %+v, %v", tt.claims, got, err)
		case tt.want != nil && (err != nil || *got != *tt.want):
			t.Errorf("%s: %+v, %v, want %+v", tt.claims, got, err, tt.want)
		}
	}
}

// A claim whose value is of another type than RFC 7519 says is refused, whether the claim
// matters or not.
func TestClaimTypes(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, Audience: "stepboard"})
	now := time.Now().Unix()
	future, past := strconv.FormatInt(now+3600, 10), strconv.FormatInt(now-3600, 10)
	values := map[string]string{"sub": `"1001"`, "scope": `""`, "iss": `"issuer"`, "aud": `"stepboard"`, "exp": future, "nbf": past, "iat": past}
	for name, texts := range map[string]struct{ good, bad []string }{
		"sub":   {[]string{`"1001"`}, []string{`1001`, `["1001"]`, `null`}},
		"scope": {[]string{`""`, `"openid"`}, []string{`["service"]`, `1`, `null`}},
		"iss":   {[]string{`""`, `"issuer"`}, []string{`["issuer"]`, `{}`, `null`}},
		"aud": {
			[]string{`"stepboard"`, `["stepboard"]`, `["other","stepboard"]`},
			[]string{`"Stepboard"`, `["other"]`, `[]`, `""`, `1`, `{"stepboard":1}`, `["stepboard",1]`, `["stepboard",null]`, `[["stepboard"]]`, `null`},
		},
		"exp": {
			[]string{future + ".5", future + "e0", "9007199254740992"},
			[]string{`"` + future + `"`, `"` + future + `.5"`, `""`, `null`, `true`, `[` + future + `]`, `{}`, `0`, `-` + future, past + ".9", `9.1e15`, `9223372036854775807`, `1e300`, `-1e300`, `1e999`},
		},
		"nbf": {
			[]string{past + ".5", `0`, `-0`, `-1.5`, `-9007199254740992`},
			[]string{`"` + past + `"`, `"0"`, `null`, `false`, `[]`, future, `9007199254740992`, `9.1e15`, `9223372036854775807`, `1e300`, `-1e300`, `1e999`},
		},
		"iat": {
			[]string{past + ".5", `0`, `-1.5`},
			[]string{`"` + past + `"`, `null`, `true`, `{}`, `9.1e15`, `1e300`, `-1e300`, `1e999`},
		},
	} {
		check := func(value string, ok bool) {
			changed := maps.Clone(values)
			changed[name] = value
			var members []string
			for name, value := range changed {
				members = append(members, strconv.Quote(name)+":"+value)
			}
			claims := "{" + strings.Join(members, ",") + "}"
			if got, err := v.Verify(written(`{"alg":"HS256"}`, claims)); ok != (err == nil) || !ok && models.CodeOf(err) != models.CodeUnauthenticated {
				t.Errorf("%s of %s: %+v, %v", name, value, got, err)
			}
		}
		for _, value := range texts.good {
			check(value, true)
		}
		for _, value := range texts.bad {
			check(value, false)
		}
	}
}

func TestVerifyRefusesExtensions(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	claims := fmt.Sprintf(`{"sub":"1001","exp":%d}`, time.Now().Add(time.Hour).Unix())
	for header, ok := range map[string]bool{
		`{"alg":"HS256"}`: true,
		`{"alg":"HS256","crit":["bound"],"bound":"device"}`: false,
		`{"alg":"HS256","crit":[]}`:                         false,
		`{"alg":"HS256","crit":null}`:                       false,
		`{"alg":"HS256","crit":["b64"],"b64":false}`:        false,
		`{"alg":"HS256","b64":false}`:                       false,
		`{"alg":"HS256","b64":true}`:                        false,
		`{"alg":"HS256","b64":"false"}`:                     false,
		`{"alg":"HS256","b64":null}`:                        false,
		`{"alg":"HS256","b64":false,"\u006264":true}`:       false,
		`{"alg":"HS256","B64":false}`:                       true, // another name
	} {
		if got, err := v.Verify(written(header, claims)); ok != (err == nil) {
			t.Errorf("%s: %+v, %v", header, got, err)
		}
	}
}

// The last character of a signature carries bits that are not part of it. Other
// bits there make another text for the same token, which must be refused.
func TestVerifyRefusesLooseBase64(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret})
	token := written(`{"alg":"HS256"}`, fmt.Sprintf(`{"sub":"1001","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	if _, err := v.Verify(token); err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	loose := token[:len(token)-1] + alphabet[last+1:last+2]
	if got, err := v.Verify(loose); models.CodeOf(err) != models.CodeUnauthenticated {
		t.Errorf("%+v, %v", got, err)
	}
}

// An iat in the future does not lengthen the lifetime: beyond the leeway it is refused.
func TestMaxLifetime(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, MaxLifetime: time.Hour, Leeway: 30 * time.Second})
	unlimited := newVerifier(t, auth.VerifierConfig{Secret: secret, Leeway: 30 * time.Second})
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, tt := range []struct {
		name   string
		claims jwt.MapClaims
		ok     bool
	}{
		{"an hour", jwt.MapClaims{"iat": at(0), "exp": at(time.Hour)}, true},
		{"an hour, by a clock that is ahead", jwt.MapClaims{"iat": at(20 * time.Second), "exp": at(time.Hour + 20*time.Second)}, true},
		{"longer, by a clock that is ahead", jwt.MapClaims{"iat": at(20 * time.Second), "exp": at(time.Hour + 30*time.Second)}, false},
		{"longer", jwt.MapClaims{"iat": at(0), "exp": at(time.Hour + 10*time.Second)}, false},
		{"longer, and nearly over", jwt.MapClaims{"iat": at(-24 * time.Hour), "exp": at(time.Minute)}, false},
		{"without iat", jwt.MapClaims{"exp": at(50 * time.Minute)}, true},
		{"without iat, longer", jwt.MapClaims{"exp": at(2 * time.Hour)}, false},
		{"for ever", jwt.MapClaims{"iat": at(0), "exp": int64(1) << 52}, false},
	} {
		tt.claims["sub"] = "1001"
		token := signed(t, jwt.SigningMethodHS256, secret, tt.claims)
		if got, err := v.Verify(token); tt.ok != (err == nil) || !tt.ok && models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if _, err := unlimited.Verify(token); err != nil {
			t.Errorf("%s, without the setting: %v", tt.name, err)
		}
	}
	for _, ahead := range []time.Duration{time.Minute, 10 * time.Minute, 24 * time.Hour} {
		token := signed(t, jwt.SigningMethodHS256, secret, jwt.MapClaims{"sub": "1001", "iat": at(ahead), "exp": at(ahead + time.Minute)})
		for _, verifier := range []*auth.Verifier{v, unlimited} {
			if got, err := verifier.Verify(token); models.CodeOf(err) != models.CodeUnauthenticated {
				t.Errorf("issued %v ahead: %+v, %v", ahead, got, err)
			}
		}
	}
}

// While a secret is changed, the tokens of both are accepted.
func TestPreviousSecret(t *testing.T) {
	t.Parallel()
	previous, other := []byte("the secret of 32 bytes before it"), []byte("a secret that was never accepted")
	v := newVerifier(t, auth.VerifierConfig{Secret: secret, PreviousSecret: previous})
	for _, tt := range []struct {
		name string
		key  []byte
		ok   bool
	}{{"the secret", secret, true}, {"the previous secret", previous, true}, {"another", other, false}, {"the empty secret", []byte{}, false}} {
		token := signed(t, jwt.SigningMethodHS256, tt.key, jwt.MapClaims{"sub": "1001"})
		if got, err := v.Verify(token); tt.ok != (err == nil) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// The secret of sessions is for tokens with a sid, and the others for all.
func TestSessionSecret(t *testing.T) {
	t.Parallel()
	own := []byte("the secret of sessions, 32 bytes")
	for name, tt := range map[string]struct {
		config   auth.VerifierConfig
		key      []byte
		sid      string
		accepted bool
	}{
		"a session's":                      {auth.VerifierConfig{SessionSecret: own}, own, "stepboard-7", true},
		"a session's, by the other secret": {auth.VerifierConfig{Secret: secret, SessionSecret: own}, secret, "stepboard-7", true},
		"another one":                      {auth.VerifierConfig{Secret: secret, SessionSecret: own}, secret, "", true},
		"no session's":                     {auth.VerifierConfig{SessionSecret: own}, own, "", false},
		"no session's, beside a secret":    {auth.VerifierConfig{Secret: secret, SessionSecret: own}, own, "", false},
		"of another secret":                {auth.VerifierConfig{SessionSecret: own}, secret, "stepboard-7", false},
		"of the empty secret":              {auth.VerifierConfig{SessionSecret: own}, []byte{}, "stepboard-7", false},
	} {
		claims := jwt.MapClaims{"sub": "1001"}
		if tt.sid != "" {
			claims["sid"] = tt.sid
		}
		got, err := newVerifier(t, tt.config).Verify(signed(t, jwt.SigningMethodHS256, tt.key, claims))
		if tt.accepted != (err == nil) || tt.accepted && (got.User != "1001" || (got.Session == 7) != (tt.sid != "")) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Keys that are too short or meant for encryption verify no token, whether the
// token names them or not. The other keys of the set do.
func TestKeySetLeavesOutKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	encryption, signing := newECKey(t), newECKey(t)
	i.publish(t, "short", short)
	i.publishFor(t, "encryption", jwkset.UseEnc, encryption)
	i.publishFor(t, "signing", jwkset.UseSig, signing)
	v := i.verifier(t)
	for _, tt := range []struct {
		method jwt.SigningMethod
		kid    string
		key    crypto.Signer
		ok     bool
	}{
		{jwt.SigningMethodRS256, "short", short, false},
		{jwt.SigningMethodRS256, "", short, false},
		{jwt.SigningMethodES256, "encryption", encryption, false},
		{jwt.SigningMethodES256, "", encryption, false},
		{jwt.SigningMethodES256, "signing", signing, true},
		{jwt.SigningMethodES256, "", signing, true},
	} {
		if got, err := v.Verify(signedBy(t, tt.method, tt.kid, tt.key)); tt.ok != (err == nil) {
			t.Errorf("%s of key %q: %+v, %v", tt.method.Alg(), tt.kid, got, err)
		}
	}
}

// publishFor adds a key with a use to the JWKS.
func (i *issuer) publishFor(t *testing.T, kid string, use jwkset.USE, key *ecdsa.PrivateKey) {
	t.Helper()
	jwk, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid, USE: use}})
	if err == nil {
		err = i.keys.KeyWrite(context.WithoutCancel(t.Context()), jwk)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A JWKS without end is given up after the largest size, and not read into memory.
func TestKeySetIsBounded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := w.Write([]byte(`{"keys":[],"more":"`))
		for block := bytes.Repeat([]byte{'a'}, 1<<16); err == nil && r.Context().Err() == nil; {
			_, err = w.Write(block)
		}
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	auth.NewKeySet(t.Context(), server.URL, slog.New(slog.NewTextHandler(&log, nil)))
	if text := log.String(); !strings.Contains(text, "more than 1048576 bytes") {
		t.Errorf("the log says %s", text)
	}
}

// The address of a JWKS may have a secret in its query, which the log must not
// show.
func TestKeySetHidesItsAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	var log bytes.Buffer
	auth.NewKeySet(t.Context(), server.URL+"/?key=hunter22", slog.New(slog.NewTextHandler(&log, nil)))
	if text := log.String(); !strings.Contains(text, "can't be fetched") || strings.Contains(text, "hunter22") {
		t.Errorf("the log says %s", text)
	}
}
