package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

func TestTokenCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want auth.Caller
		ttl  time.Duration
	}{
		{"a user's", nil, auth.Caller{User: "1001"}, 24 * time.Hour},
		{"an empty scope is a user's", []string{"--scope="}, auth.Caller{User: "1001"}, 24 * time.Hour},
		{"a backend's", []string{"--scope=service"}, auth.Caller{Service: true}, 24 * time.Hour},
		{"an administrator's", []string{"--scope=admin"}, auth.Caller{Admin: true}, 24 * time.Hour},
		{"one for all", []string{"--scope=service admin"}, auth.Caller{Service: true, Admin: true}, 24 * time.Hour},
		{"a short one", []string{"--ttl=90s"}, auth.Caller{User: "1001"}, 90 * time.Second},
		{"the shortest", []string{"--ttl=1s"}, auth.Caller{User: "1001"}, time.Second},
		{"a name", []string{"--user=auth0|5f7c"}, auth.Caller{User: "auth0|5f7c"}, 24 * time.Hour},
		{"with issuer and audience", []string{"--auth.issuer=https://issuer.example", "--auth.audience=stepboard"}, auth.Caller{User: "1001"}, 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := time.Now().Truncate(time.Second)
			text := strings.TrimSuffix(command(append([]string{"token", "--user=1001", withSecret}, tt.args...)...).Succeeds(t), "\n")
			expires := expiry(t, text)
			if earliest, latest := before.Add(tt.ttl), time.Now().Add(tt.ttl); expires.Before(earliest) || expires.After(latest) {
				t.Errorf("expires at %v, want %v … %v", expires, earliest, latest)
			}
			if tt.ttl == time.Second {
				return // it may have expired by now
			}
			verify := auth.VerifierConfig{Secret: []byte(harness.Secret)}
			if strings.Contains(tt.name, "issuer") {
				verify.Issuer, verify.Audience = "https://issuer.example", "stepboard"
			}
			v := auth.NewVerifier(verify)
			defer v.Close()
			caller, err := v.Verify(text)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Expires = expires
			if tt.want.Admin {
				tt.want.Operator = "1001"
			}
			if diff := cmp.Diff(tt.want, *caller); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// expiry returns the time in a token at which it expires.
func expiry(t testing.TB, text string) time.Time {
	t.Helper()
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &claims); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return claims.ExpiresAt.Time
}

func TestTokenCommandRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		words []string
	}{
		{"without a secret", []string{"--user=1"}, []string{"auth.hs256_secret", "must be set"}},
		{"with a JWKS only", []string{"--user=1", "--auth.jwks_url=https://login.example/keys"}, []string{"auth.hs256_secret", "must be set"}},
		{"a short secret", []string{"--user=1", "--auth.hs256_secret=short"}, []string{"auth.hs256_secret", "32 bytes"}},
		{"a space in a user", []string{"--user=ann lee", withSecret}, []string{`--user "ann lee"`, "1 to 128"}},
		{"a user of two dots", []string{"--user=..", withSecret}, []string{`--user ".."`}},
		{"a user that is not ASCII", []string{"--user=Zoë", withSecret}, []string{`--user "Zoë"`}},
		{"no user", []string{"--user=", withSecret}, []string{`--user ""`}},
		{"a user that is too long", []string{"--user=" + strings.Repeat("a", models.MaxUserID+1), withSecret}, []string{`--user "aaa`}},
		{"an unknown scope", []string{"--user=1", "--scope=root", withSecret}, []string{`--scope "root"`, "service, admin"}},
		{"one unknown scope", []string{"--user=1", "--scope=service root", withSecret}, []string{`--scope "root"`}},
		{"scopes with a tab", []string{"--user=1", "--scope=service\tadmin", withSecret}, []string{`--scope "service\tadmin"`}},
		{"a scope with another space", []string{"--user=1", "--scope=\u00a0admin", withSecret}, []string{`--scope "\u00a0admin"`}},
		{"scopes with a comma", []string{"--user=1", "--scope=service,admin", withSecret}, []string{`--scope "service,admin"`}},
		{"no time", []string{"--user=1", "--ttl=0s", withSecret}, []string{"--ttl 0s"}},
		{"a negative time", []string{"--user=1", "--ttl=-1h", withSecret}, []string{"--ttl -1h0m0s"}},
		{"longer than tokens may be valid", []string{"--user=1", "--ttl=2h", "--auth.max_token_lifetime=1h", withSecret}, []string{"--ttl 2h", "auth.max_token_lifetime", "1h"}},
		{"less than a token can tell", []string{"--user=1", "--ttl=999ms", withSecret}, []string{"--ttl 999ms", "1s or more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command(append([]string{"token"}, tt.args...)...).Fails(t, 1, tt.words...)
		})
	}
}
